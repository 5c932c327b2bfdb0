"""Transactions whose connection is lost."""

from __future__ import annotations

from typing import Any

from mqclient.errors import (
    TransactionOutcomeUnknownError,
    TransactionRolledBackError,
)
from mqclient.wire.packets import (
    Commit,
)
from tests.support.network import message
from tests.unit.mqclient.core.connection.test_reconnect import FailoverTestCase


class TransactionTests(FailoverTestCase):
    def start(self, **settings: Any) -> None:
        super().start(**settings)
        self.session = self.world.session(self.factory, auto_commit_sends=False, auto_commit_acks=False)
        self.producer = self.world.finish(self.session.create_producer("a"))

    def send(self) -> None:
        self.world.finish(self.producer.send(self.session.create_message()))

    def test_transaction_with_work_is_rollback_only(self) -> None:
        self.start()
        self.send()
        self.cut()
        self.assertTrue(self.session.rollback_only)
        self.assertRaises(TransactionRolledBackError, self.world.finish, self.session.commit())
        self.assertIn("SESS_ROLLBACK", self.broker.names())
        self.assertEqual(self.broker.got(Commit), [])
        self.send()
        self.world.finish(self.session.commit())

    def test_transaction_without_work_goes_on(self) -> None:
        self.start()
        self.send()
        self.world.finish(self.session.commit())
        self.cut()
        self.send()
        self.world.finish(self.session.commit())

    def test_commit_that_was_on_its_way(self) -> None:
        self.start()
        self.send()
        self.broker.silent.add(Commit)
        commit = self.session.commit()
        self.world.network.stir()
        self.cut()
        self.assertRaises(TransactionOutcomeUnknownError, self.world.finish, commit)
        self.assertIn("SESS_ROLLBACK", self.broker.names())
        self.broker.silent.clear()
        self.send()
        self.world.finish(self.session.commit())

    def test_commit_that_was_on_its_way_when_all_ended(self) -> None:
        self.start(reconnect_attempts=0)
        self.send()
        self.broker.silent.add(Commit)
        commit = self.session.commit()
        self.world.network.stir()
        self.cut()
        self.assertRaises(TransactionOutcomeUnknownError, self.world.finish, commit)

    def test_commit_that_waited_for_the_failover(self) -> None:
        self.start()
        self.send()
        self.away()
        commit = self.session.commit()
        self.back()
        self.assertRaises(TransactionRolledBackError, self.world.finish, commit)

    def test_rollback_gives_back_what_was_buffered(self) -> None:
        self.start()
        consumer = self.world.finish(self.session.create_consumer("q", window_size=10_000))
        self.world.finish(self.session.start())
        self.broker.deliver(self.session.channel_id, message(1, body=b"x" * 6000))
        self.world.finish(self.session.rollback())
        self.assertEqual(self.broker.names(self.session.channel_id)[-4:], ["SESS_STOP", "SESS_FLOWTOKEN", "SESS_ROLLBACK", "SESS_START"])
        self.assertIsNone(self.world.finish(consumer.receive_immediate()))
