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
    NullResponse,
    ProducerCredits,
    QueueQuery,
    Rollback,
    SessionSend,
    SessionStop,
)
from tests.support.network import message, pending
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

    def test_rollback_that_waited_for_its_turn_undoes_nothing_of_the_new_session(self) -> None:
        """The messages that are delivered before it would come twice, both times as if they counted."""
        self.start()
        self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.broker.silent.add(SessionStop)
        rollback = self.session.rollback()
        query = self.session.queue_query("q")
        self.broker.silent.add(QueueQuery)
        self.broker.deliver(self.session.channel_id, NullResponse())
        self.assertEqual(self.broker.got(Rollback), [])
        self.broker.silent.clear()
        self.cut()
        self.assertRaises(UnblockedError, self.world.finish, query)
        self.assertEqual(self.broker.got(Rollback), [])
        self.assertRaises(UnblockedError, self.world.finish, rollback)
        self.world.finish(self.session.commit())

    def test_commit_that_is_cancelled_does_not_hide_that_the_work_was_lost(self) -> None:
        self.start()
        self.cut()
        self.broker.silent.add(Rollback)
        commit: Any = self.session.commit()
        commit.addErrback(lambda _: None)
        self.world.network.stir()
        self.assertEqual(len(self.broker.got(Rollback)), 1)
        commit.cancel()
        self.broker.silent.clear()
        self.broker.deliver(self.session.channel_id, NullResponse())
        self.assertRaises(TransactionRolledBackError, self.world.finish, self.session.commit())
        self.world.finish(self.session.commit())

    def test_acknowledgement_that_waited_for_a_commit_until_its_consumer_was_closed(self) -> None:
        """The message comes again: what was sent for it must not take effect."""
        self.start()
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.broker.deliver(self.session.channel_id, message(1))
        received = self.world.finish(consumer.receive_immediate())
        self.broker.credits = False
        waiting = self.session.create_message()
        waiting.body = bytes(70_000)
        send, commit = self.producer.send(waiting), self.session.commit()
        acknowledged, closed = received.acknowledge(), consumer.close()
        self.broker.deliver(self.session.channel_id, ProducerCredits(200_000, "a"))
        for call in (send, commit, acknowledged, closed):
            self.world.finish(call)
        self.assertEqual(self.broker.got(Acknowledge), [])
        self.world.finish(self.producer.send(self.session.create_message()))
        self.assertRaises(TransactionRolledBackError, self.world.finish, self.session.commit())
        self.world.finish(self.session.commit())

    def test_function_whose_commit_is_cancelled_leaves_nothing_to_the_next(self) -> None:
        """It would be committed together with its repetition."""
        self.start()
        self.world.finish(self.session.commit())
        before = len(self.broker.got(SessionSend))
        self.broker.credits = False
        large = self.session.create_message()
        large.body = bytes(90_000)
        failures: list[Any] = []

        async def function(session: Any) -> None:
            self.producer.send(large).addErrback(failures.append)

        cancelled: Any = self.session.transaction(function)
        cancelled.addErrback(lambda _: None)
        self.world.network.stir()
        self.assertTrue(pending(cancelled))
        cancelled.cancel()
        self.world.network.stir()
        self.broker.credits = True
        self.broker.deliver(self.session.channel_id, ProducerCredits(500_000, "a"))
        self.world.finish(self.session.transaction(function))
        self.assertEqual((len(self.broker.got(SessionSend)) - before, len(failures)), (1, 1))

    def test_two_rollbacks_at_once(self) -> None:
        """Nothing is delivered between the two: the second would take it back, and it would come twice as if both counted."""
        self.start()
        self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        before = len(self.broker.names(self.session.channel_id))
        rollbacks = [self.session.rollback(), self.session.rollback()]
        for rollback in rollbacks:
            self.world.finish(rollback)
        sent = [name for name in self.broker.names(self.session.channel_id)[before:] if name != "SESS_FLOWTOKEN"]
        self.assertEqual(sent, ["SESS_STOP", "SESS_ROLLBACK", "SESS_STOP", "SESS_ROLLBACK", "SESS_START"])

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
