"""What a session has begun comes before its commit, and what is rolled back comes again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from mqclient.core.message import ClientMessage
from mqclient.errors import AddressFullError, MQError, ObjectClosedError, TransactionRolledBackError
from mqclient.wire.packets import (
    Commit,
    ConsumerClose,
    CreateSession,
    ExceptionResponse,
    ForceConsumerDelivery,
    ProducerFailCredits,
    Rollback,
)
from tests.support.network import message, pending
from tests.unit.mqclient.core.session.order import CHANNEL, OrderTestCase


class EndTests(OrderTestCase):
    def iterate(self, seen: list[int], meanwhile: Any = None) -> Deferred[None]:
        async def run() -> None:
            async for received in self.consumer:
                seen.append(received.message_id)
                if meanwhile is not None:
                    await meanwhile

        return Deferred.fromCoroutine(run())

    def test_a_lost_connection_fails_whoever_waits_for_messages(self) -> None:
        self.start()
        seen: list[int] = []
        waiting = [self.consumer.receive(), self.consumer.receive(60_000), self.iterate(seen)]
        self.world.network.link.cut("pulled out")
        for call in waiting:
            self.assertIn("pulled out", str(self.failure(ObjectClosedError, call)))
        self.assertIn("pulled out", str(self.failure(ObjectClosedError, self.consumer.receive())))

    def test_so_does_the_last_attempt_to_reconnect(self) -> None:
        self.start(reconnect_attempts=2, retry_interval=100)
        waiting = [self.consumer.receive(), self.iterate([])]
        self.world.network.brokers.clear()
        self.world.network.link.cut()
        self.assertTrue(all(pending(call) for call in waiting))
        self.world.advance(10)
        for call in waiting:
            self.assertIn("nobody listens", str(self.failure(ObjectClosedError, call)))

    def test_a_connection_that_is_lost_while_the_application_works_fails_its_loop_too(self) -> None:
        self.start()
        seen: list[int] = []
        work: Deferred[None] = Deferred()
        loop = self.iterate(seen, work)
        self.broker.deliver(CHANNEL, message(1))
        self.world.network.link.cut("pulled out")
        work.callback(None)
        self.assertIn("pulled out", str(self.failure(ObjectClosedError, loop)))
        self.assertEqual(seen, [1])

    def test_a_session_that_cannot_be_restored_fails_them_with_the_reason(self) -> None:
        self.start(reconnect_attempts=-1)
        waiting = self.consumer.receive()
        self.broker.answers[CreateSession] = lambda _: ExceptionResponse(105, "AMQ229031: no more")
        self.world.network.link.cut()
        self.world.advance(3)
        self.assertIn("AMQ229031", str(self.failure(ObjectClosedError, waiting)))

    def test_a_receive_that_asks_the_broker_just_then_fails_too(self) -> None:
        self.start()
        self.broker.silent.add(ForceConsumerDelivery)
        waiting = self.consumer.receive_immediate()
        self.world.network.stir()
        self.world.network.link.cut("pulled out")
        self.assertIn("pulled out", str(self.failure(ObjectClosedError, waiting)))

    def test_what_the_application_closes_ends_in_silence(self) -> None:
        for what in ("consumer", "session", "session.factory", "world.locator"):
            self.start()
            seen: list[int] = []
            waiting, loop = self.consumer.receive(), self.iterate(seen)
            self.world.finish(self.close(what))
            self.assertIsNone(self.world.finish(waiting))
            self.assertIsNone(self.world.finish(loop))

    def test_so_does_a_session_that_is_being_closed_when_the_connection_breaks(self) -> None:
        self.start()
        self.broker.silent.add(ConsumerClose)
        loop, waiting = self.iterate([]), self.consumer.receive()
        closing = self.session.close()
        self.world.network.stir()
        self.world.network.link.cut()
        self.world.finish(closing)
        self.assertIsNone(self.world.finish(waiting))
        self.assertIsNone(self.world.finish(loop))


class CommitTests(OrderTestCase):
    def test_it_waits_for_sends_that_wait_for_credits(self) -> None:
        self.start(transacted=True, window=64 * 1024)
        self.world.network.stir()
        self.broker.credits = False
        sends = [self.producer.send(ClientMessage(body=bytes(1024))) for _ in range(200)]
        commit = self.session.commit()
        self.world.network.stir()
        self.assertTrue(pending(commit))
        self.assertEqual(self.broker.got(Commit), [])
        self.grant()
        self.world.finish(commit)
        self.assertTrue(all(send.called for send in sends))
        self.assertEqual(self.told(), ["SESS_SEND 200", "SESS_COMMIT"])

    def test_it_waits_for_a_large_body_that_is_still_read(self) -> None:
        self.start(transacted=True)
        more: Deferred[None] = Deferred()

        async def body() -> AsyncIterator[bytes]:
            yield bytes(150_000)
            await more
            yield bytes(150_000)

        send = self.producer.send(ClientMessage(body_source=body()))
        commit = self.session.commit()
        self.world.network.stir()
        self.assertTrue(pending(commit))
        more.callback(None)
        self.world.finish(commit)
        self.world.finish(send)
        self.assertEqual(self.told(), ["SESS_SEND_LARGE", "SESS_SEND_CONTINUATION 3", "SESS_COMMIT"])

    def test_what_is_begun_after_it_comes_after_it(self) -> None:
        self.start(transacted=True)
        other = self.world.finish(self.session.create_producer("b"))
        [received] = self.receive(1)
        self.block()
        self.sends(2)
        commit = self.session.commit()
        later = [*self.sends(3, other), received.individual_acknowledge(), received.acknowledge(), *self.sends(1)]
        second = self.session.commit()
        self.world.network.stir()
        self.assertEqual(self.told(), [])
        self.grant()
        for call in (commit, *later, second):
            self.world.finish(call)
        self.assertEqual(self.told(), ["SESS_SEND 2", "SESS_COMMIT", "SESS_SEND 4", "SESS_COMMIT"])
        names = self.broker.names(CHANNEL)
        self.assertGreater(names.index("SESS_INDIVIDUAL_ACKNOWLEDGE"), names.index("SESS_COMMIT"))

    def test_a_send_that_fails_meanwhile_rolls_everything_back(self) -> None:
        self.start(transacted=True)
        self.world.finish(self.producer.send(self.session.create_message()))
        self.block()
        sends = self.sends(2)
        commit = self.session.commit()
        self.world.network.stir()
        self.broker.deliver(CHANNEL, ProducerFailCredits(10, "a"))
        self.grant()
        error = self.failure(TransactionRolledBackError, commit)
        self.assertIsInstance(error.__cause__, AddressFullError)
        self.failure(AddressFullError, sends[0])
        self.world.finish(sends[1])
        self.assertEqual(self.told(), ["SESS_SEND 2", "SESS_ROLLBACK"])
        self.world.finish(self.producer.send(self.session.create_message()))
        self.world.finish(self.session.commit())
        self.assertEqual(self.told()[2:], ["SESS_SEND", "SESS_COMMIT"])

    def test_a_send_that_has_failed_before_has_told_its_caller_and_hinders_nothing(self) -> None:
        self.start(transacted=True)
        self.block()
        [send] = self.sends(1)
        self.broker.deliver(CHANNEL, ProducerFailCredits(10, "a"))
        self.failure(AddressFullError, send)
        self.world.finish(self.session.commit())
        self.assertEqual(self.told(), ["SESS_COMMIT"])

    def test_a_rollback_that_fails_is_made_up_for_by_the_next_commit(self) -> None:
        self.start(transacted=True, call_timeout=1000, reconnect_attempts=-1, confirmation_window_size=100_000)
        self.world.finish(self.producer.send(self.session.create_message()))
        self.block()
        [send] = self.sends(1)
        commit = self.session.commit()
        self.broker.silent.add(Rollback)
        self.broker.deliver(CHANNEL, ProducerFailCredits(10, "a"))
        self.world.advance(1.1)
        self.failure(AddressFullError, send)
        self.failure(MQError, commit)
        self.broker.silent.clear()
        self.world.advance(3)
        self.failure(TransactionRolledBackError, self.session.commit())
        self.assertNotIn("SESS_COMMIT", self.told())

    def test_a_session_that_commits_only_acknowledgements_does_not_wait_for_sends(self) -> None:
        """They take effect by themselves, and what is acknowledged may be what makes room for them."""
        self.start()
        session = self.world.session(self.session.factory, auto_commit_acks=False)
        producer = self.world.finish(session.create_producer("a"))
        self.broker.credits = False
        session.flow._addresses["a"].credits.balance = 0
        send: Any = producer.send(session.create_message())
        self.world.finish(session.commit())
        self.assertTrue(pending(send))
        send.addErrback(lambda _: None)

    def refuse(self) -> Any:
        """A commit of a received message that the broker answers with an error; two more messages are buffered behind it."""
        self.start(transacted=True)
        [received] = self.receive(1)
        for number in (2, 3):
            self.broker.deliver(CHANNEL, message(number))
        self.world.finish(received.acknowledge())
        self.broker.silent.add(Commit)
        commit = self.session.commit()
        self.world.network.stir()
        self.broker.silent.clear()
        return commit

    def test_after_one_that_the_broker_refuses_its_messages_come_again_before_those_that_are_buffered(self) -> None:
        commit = self.refuse()
        self.assertEqual(self.consumer.buffered, 2)
        self.broker.deliver(CHANNEL, ExceptionResponse(111, "rolled back"))
        self.failure(TransactionRolledBackError, commit)
        self.assertEqual((self.told(), self.consumer.buffered), (["SESS_ACKNOWLEDGE", "SESS_COMMIT", "SESS_ROLLBACK"], 0))
        again = self.receive(1, 2)
        self.assertEqual([each.message_id for each in again], [1, 2])
        self.world.finish(again[-1].acknowledge())
        self.world.finish(self.session.commit())
        self.assertEqual(self.told()[3:], ["SESS_ACKNOWLEDGE", "SESS_COMMIT"])

    def test_what_was_begun_meanwhile_is_not_rolled_back_with_one_that_the_broker_refuses(self) -> None:
        commit = self.refuse()
        [send] = self.sends(1)
        self.world.finish(send)
        self.broker.deliver(CHANNEL, ExceptionResponse(111, "rolled back"))
        self.failure(TransactionRolledBackError, commit)
        self.world.finish(self.session.commit())
        self.assertEqual(self.told(), ["SESS_ACKNOWLEDGE", "SESS_COMMIT", "SESS_SEND", "SESS_COMMIT"])

    def test_one_of_sends_alone_that_the_broker_refuses_takes_nothing_back(self) -> None:
        self.start(transacted=True)
        self.broker.deliver(CHANNEL, message(1))
        self.world.finish(self.producer.send(self.session.create_message()))
        self.broker.answers[Commit] = lambda _: ExceptionResponse(111, "rolled back")
        self.failure(TransactionRolledBackError, self.session.commit())
        self.assertEqual((self.told(), self.consumer.buffered), (["SESS_SEND", "SESS_COMMIT"], 1))

    def test_a_cancelled_commit_lets_go_on_what_waits_behind_it(self) -> None:
        self.start(transacted=True)
        other = self.world.finish(self.session.create_producer("b"))
        self.block()
        self.sends(1)
        commit: Any = self.session.commit()
        [later] = self.sends(1, other)
        commit.cancel()
        self.failure(CancelledError, commit)
        self.world.finish(later)
        self.grant()
        self.world.finish(self.session.commit())
        self.assertEqual(self.told(), ["SESS_SEND 2", "SESS_COMMIT"])

    def test_a_connection_that_is_lost_for_good_ends_it(self) -> None:
        self.start(transacted=True)
        self.block()
        sends = self.sends(2)
        commit = self.session.commit()
        self.world.network.link.cut("pulled out")
        self.assertIn("pulled out", str(self.failure(ObjectClosedError, commit)))
        for send in sends:
            self.failure(MQError, send)
        self.assertEqual(self.world.runtime.failures, [])


class RollbackTests(OrderTestCase):
    def test_sends_that_wait_are_dropped_and_belong_to_no_transaction(self) -> None:
        self.start(transacted=True)
        self.block()
        sends = self.sends(3)
        self.world.finish(self.session.rollback())
        for send in sends:
            self.failure(TransactionRolledBackError, send)
        self.grant()
        self.world.finish(self.producer.send(self.session.create_message()))
        self.world.finish(self.session.commit())
        self.assertEqual(self.told(), ["SESS_ROLLBACK", "SESS_SEND", "SESS_COMMIT"])

    def test_a_body_that_is_never_read_to_its_end_holds_up_neither_this_nor_the_next_transaction(self) -> None:
        self.start(transacted=True)
        never: Deferred[None] = Deferred()

        async def body() -> AsyncIterator[bytes]:
            yield bytes(150_000)
            await never

        send = self.producer.send(ClientMessage(body_source=body()))
        self.world.finish(self.session.rollback())
        self.world.finish(self.session.commit())
        never.callback(None)
        self.failure(TransactionRolledBackError, send)
        self.assertEqual(self.told(), ["SESS_SEND_LARGE", "SESS_SEND_CONTINUATION", "SESS_ROLLBACK", "SESS_COMMIT"])

    def test_what_is_begun_after_it_is_not_rolled_back(self) -> None:
        self.start(transacted=True)
        rollback = self.session.rollback()
        [send] = self.sends(1)
        self.world.finish(rollback)
        self.world.finish(send)
        self.assertEqual(self.told(), ["SESS_ROLLBACK", "SESS_SEND"])

    def test_it_ends_a_commit_that_waits(self) -> None:
        self.start(transacted=True)
        self.block()
        sends = self.sends(2)
        commit = self.session.commit()
        rollback = self.session.rollback()
        self.world.finish(rollback)
        self.failure(TransactionRolledBackError, commit)
        for send in sends:
            self.failure(TransactionRolledBackError, send)
        self.assertNotIn("SESS_COMMIT", self.told())

    def test_a_session_without_transactions_keeps_its_sends(self) -> None:
        self.start()
        self.block()
        [send] = self.sends(1, durable=False)
        self.world.finish(self.session.rollback())
        self.assertTrue(pending(send))
        self.grant()
        self.world.finish(send)

    def test_a_handler_that_sends_and_acknowledges_meanwhile_is_not_waited_for_in_vain(self) -> None:
        self.start(transacted=True)
        turn: Deferred[None] = Deferred()
        done: list[int] = []

        async def handle(received: ClientMessage) -> None:
            await turn
            await self.producer.send(self.session.create_message())
            await received.acknowledge()
            done.append(received.message_id)

        self.consumer.set_message_handler(handle)
        self.broker.deliver(CHANNEL, message(1))
        rollback = self.session.rollback()
        turn.callback(None)
        self.world.finish(rollback)
        self.assertEqual(done, [1])
