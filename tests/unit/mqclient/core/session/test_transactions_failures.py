"""Transactions that end at awkward moments."""

from __future__ import annotations

from typing import Any

from mqclient.errors import (
    ConnectionTimedOutError,
    MQError,
    TransactionOutcomeUnknownError,
    TransactionRolledBackError,
    UnblockedError,
)
from mqclient.wire.packets import (
    Acknowledge,
    Commit,
    ExceptionResponse,
    QueueQuery,
)
from tests.support.network import message
from tests.unit.mqclient.core.connection.test_reconnect import CHANNEL, FailoverTestCase


class TransactionAtTheWrongMomentTests(FailoverTestCase):
    def start(self, **settings: Any) -> None:
        super().start(**settings)
        self.session = self.world.session(self.factory, auto_commit_sends=False, auto_commit_acks=False)
        self.producer = self.world.finish(self.session.create_producer("a"))
        self.world.finish(self.producer.send(self.session.create_message()))

    def test_commit_that_waited_for_its_turn(self) -> None:
        self.start()
        self.broker.silent.add(QueueQuery)
        query = self.session.queue_query("q")
        commit = self.session.commit()
        self.world.network.stir()
        self.assertEqual(self.broker.got(Commit), [])
        self.cut()
        self.assertRaises(UnblockedError, self.world.finish, query)
        self.assertRaises(TransactionRolledBackError, self.world.finish, commit)
        self.assertEqual(self.broker.got(Commit), [])
        self.world.finish(self.session.commit())

    def test_commit_that_waited_too_long_keeps_the_transaction(self) -> None:
        self.start(call_failover_timeout=1000)
        self.broker.silent.add(QueueQuery)
        query = self.session.queue_query("q")
        commit = self.session.commit()
        self.world.network.stir()
        self.away()
        self.world.advance(1.1)
        self.assertRaises(UnblockedError, self.world.finish, query)
        self.assertRaises(ConnectionTimedOutError, self.world.finish, commit)
        self.back()
        self.assertRaises(TransactionRolledBackError, self.world.finish, self.session.commit())

    def test_commit_that_is_never_answered(self) -> None:
        self.start(call_timeout=1000)
        self.broker.silent.add(Commit)
        commit = self.session.commit()
        self.world.advance(1.1)
        self.assertRaises(TransactionOutcomeUnknownError, self.world.finish, commit)
        self.broker.silent.clear()
        self.world.finish(self.producer.send(self.session.create_message()))
        self.world.finish(self.session.commit())

    def test_commit_reports_an_acknowledgement_that_was_refused(self) -> None:
        self.start(block_on_acknowledge=True)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.broker.deliver(CHANNEL + 1, message(1))
        received = self.world.finish(consumer.receive())
        self.world.finish(received.acknowledge())
        self.broker.answers[Acknowledge] = lambda packet: ExceptionResponse(104, "no such message")
        self.assertRaises(MQError, self.world.finish, self.session.commit())
        self.assertEqual(self.broker.got(Commit), [])

    def test_acknowledgement_of_the_session_before_is_not_sent_to_the_new_one(self) -> None:
        self.start(block_on_acknowledge=True, ack_batch_size=0)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.broker.deliver(CHANNEL + 1, message(1))
        received = self.world.finish(consumer.receive())
        self.away()
        acknowledging = received.acknowledge()
        self.back()
        self.assertRaises(UnblockedError, self.world.finish, acknowledging)
        self.assertEqual(self.broker.got(Acknowledge), [])
