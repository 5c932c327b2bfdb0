"""Failures at awkward moments: what must not hang, not get lost, not be told wrongly, and not be left behind."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock, patch

from twisted.internet.defer import Deferred

from mqclient.core.api import FailoverEvent
from mqclient.errors import (
    ConnectionTimedOutError,
    LargeMessageInterruptedError,
    MQError,
    ObjectClosedError,
    SecurityError,
    UnblockedError,
)
from mqclient.wire.frames import SESSION_CHANNEL
from mqclient.wire.message import CoreMessage, encode_headers
from mqclient.wire.packets import (
    CheckForFailover,
    ConsumerClose,
    CreateConsumer,
    CreateSession,
    CreateSessionResponse,
    DisconnectConsumer,
    ExceptionResponse,
    FlowToken,
    ForceConsumerDelivery,
    Packet,
    PacketsConfirmed,
    QueueQuery,
    ReattachSession,
    ReattachSessionResponse,
    SessionClose,
    SessionReceiveContinuation,
    SessionReceiveLarge,
    SessionSend,
    SessionStop,
)
from tests.support.network import marker, message, pending
from tests.unit.mqclient.core.connection.test_reconnect import CHANNEL, FailoverTestCase, Listener


def large_header(message_id: int, size: int, consumer_id: int = 0) -> SessionReceiveLarge:
    return SessionReceiveLarge(consumer_id, 1, size, encode_headers(CoreMessage(message_id, "q")))


def chunk(body: bytes, continues: bool, consumer_id: int = 0) -> SessionReceiveContinuation:
    return SessionReceiveContinuation(body, continues, consumer_id)


class LimitTests(FailoverTestCase):
    """Waits that are limited as a whole."""

    def flapping(self, **settings: Any) -> None:
        """A broker that takes connections and never restores a session."""
        self.start(call_failover_timeout=2000, call_timeout=500, **settings)
        self.broker.silent.add(QueueQuery)
        self.sent = self.session.queue_query("q")
        self.world.network.stir()
        self.broker.silent.add(ReattachSession)
        self.cut()
        self.waiting = self.session.queue_query("q")

    def test_calls_end_although_connections_come_and_go(self) -> None:
        self.flapping()
        self.world.advance(4)
        self.assertRaises(UnblockedError, self.world.finish, self.sent)
        self.assertRaises(ConnectionTimedOutError, self.world.finish, self.waiting)
        self.assertFalse(self.session.closed)

    def test_so_do_sends(self) -> None:
        self.start(call_failover_timeout=2000, call_timeout=500, block_on_durable_send=False)
        producer = self.world.finish(self.session.create_producer("a"))
        self.broker.silent.add(ReattachSession)
        self.cut()
        send = producer.send(self.session.create_message())
        self.world.advance(4)
        self.assertRaises(ConnectionTimedOutError, self.world.finish, send)

    def test_so_do_calls_that_are_sent_again_each_time(self) -> None:
        self.start(call_failover_timeout=2000, call_timeout=500, confirmation_window_size=1000)
        other = self.world.session(self.factory)
        self.broker.silent.add(QueueQuery)
        sent = self.session.queue_query("q")
        self.world.network.stir()

        def reattach(packet: ReattachSession) -> Packet | None:
            return ReattachSessionResponse(-1, True) if packet.name == self.session.name else None

        self.broker.answers[ReattachSession] = reattach
        self.cut()
        self.world.advance(4)
        self.assertRaises(UnblockedError, self.world.finish, sent)
        self.assertFalse(other.closed)

    def test_several_callers_wait_for_one_reconnect_only_once(self) -> None:
        self.start(call_failover_timeout=2000)
        self.away()
        sessions = [self.factory.create_session() for _ in range(3)]
        self.world.advance(2.1)
        for session in sessions:
            self.assertRaises(ConnectionTimedOutError, self.world.finish, session)

    def test_receive_with_a_timeout_ends_while_the_connection_is_away(self) -> None:
        self.start(call_failover_timeout=-1)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.away()
        receive = consumer.receive(1000)
        self.world.advance(1.1)
        self.assertIsNone(self.world.finish(receive))

    def test_receive_immediate_waits_for_the_connection_and_harms_it_not(self) -> None:
        self.start(call_timeout=1000, call_failover_timeout=5000)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.away()
        receive = consumer.receive_immediate()
        self.world.advance(3)
        self.assertTrue(pending(receive))
        self.back()
        self.assertIsNone(self.world.finish(receive))
        self.assertEqual(self.listener.told.count(FailoverEvent.FAILURE_DETECTED), 1)

    def test_receive_immediate_goes_on_after_a_large_message_that_has_expired(self) -> None:
        self.start()
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        expired = SessionReceiveLarge(0, 1, 4, encode_headers(CoreMessage(1, "q", expiration=1)))
        asked: list[ForceConsumerDelivery] = []

        def deliver(packet: ForceConsumerDelivery) -> None:
            asked.append(packet)
            first = (expired, chunk(b"body", False))
            for each in (*(first if len(asked) == 1 else (message(2),)), marker(packet)):
                self.broker.send(self.world.network.link, CHANNEL, each)

        self.broker.answers[ForceConsumerDelivery] = deliver
        received = self.world.finish(consumer.receive_immediate())
        self.assertEqual(received.message_id, 2)

    def test_a_receive_ends_with_its_consumer_that_could_not_be_recreated(self) -> None:
        self.start(call_timeout=4000)
        self.broker.silent.add(ForceConsumerDelivery)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        receive = consumer.receive_immediate()
        self.world.network.stir()
        self.cut()
        self.assertTrue(pending(receive))
        self.broker.send(self.world.network.link, CHANNEL, DisconnectConsumer(consumer.id))
        self.assertRaises(ObjectClosedError, self.world.finish, receive)
        self.assertTrue(consumer.closed)
        self.assertEqual(self.listener.told.count(FailoverEvent.FAILURE_DETECTED), 1)

    def test_two_receives_asked_while_the_connection_broke(self) -> None:
        self.start(call_timeout=1000)
        self.broker.silent.add(ForceConsumerDelivery)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        receives = [consumer.receive_immediate() for _ in range(2)]
        self.world.network.stir()
        self.broker.silent.clear()
        self.cut()
        for receive in receives:
            self.assertIsNone(self.world.finish(receive))
        self.world.advance(2)
        self.assertEqual(self.listener.told.count(FailoverEvent.FAILURE_DETECTED), 1)

    def test_a_connection_that_is_back_has_the_whole_time_for_a_forced_delivery(self) -> None:
        self.start(call_timeout=1000)
        self.broker.silent.add(ForceConsumerDelivery)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        receive = consumer.receive_immediate()
        self.world.advance(0.8)
        self.cut()
        self.world.advance(0.9)
        self.assertTrue(pending(receive))
        self.broker.deliver(CHANNEL, marker(self.broker.got(ForceConsumerDelivery)[-1]))
        self.assertIsNone(self.world.finish(receive))
        self.assertEqual(self.listener.told.count(FailoverEvent.FAILURE_DETECTED), 1)

    def test_but_no_more_than_that(self) -> None:
        self.start(call_timeout=1000)
        self.broker.silent.add(ForceConsumerDelivery)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        receive = consumer.receive_immediate()
        self.world.advance(0.8)
        self.cut()
        self.world.advance(1.1)
        self.assertRaises(ConnectionTimedOutError, self.world.finish, receive)

    def test_receive_that_waited_too_long_harms_no_connection_that_is_being_restored(self) -> None:
        self.start(call_timeout=10_000, call_failover_timeout=1000)
        self.broker.silent.add(ForceConsumerDelivery)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        receive = consumer.receive_immediate()
        self.world.advance(9)
        self.broker.silent.add(ReattachSession)
        self.cut()
        self.world.advance(2.1)
        self.assertRaises(ConnectionTimedOutError, self.world.finish, receive)
        self.assertFalse(self.world.network.link.closed_by_client)

    def test_receive_in_a_session_that_was_stopped_meanwhile_ends_with_its_connection(self) -> None:
        """The new broker is not asked for it, and the connection must not count as failed because it does not answer."""
        self.start(call_timeout=1000)
        self.broker.silent |= {ForceConsumerDelivery, SessionStop}
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        receive, stop = consumer.receive_immediate(), self.session.stop()
        self.world.network.stir()
        self.cut()
        self.assertRaises(UnblockedError, self.world.finish, stop)
        self.assertIsNone(self.world.finish(receive))
        self.world.advance(1.5)
        self.assertEqual(self.listener.told.count(FailoverEvent.FAILURE_DETECTED), 1)

    def test_body_whose_next_part_does_not_come(self) -> None:
        self.start(call_timeout=1000)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.broker.deliver(CHANNEL, large_header(1, 8))
        self.broker.deliver(CHANNEL, chunk(b"half", True))
        received = self.world.finish(consumer.receive())
        reading = received.large.read()
        self.world.advance(1.1)
        self.assertRaises(ConnectionTimedOutError, self.world.finish, reading)


class OrderlyEndTests(FailoverTestCase):
    """What is left behind."""

    def test_consumer_closed_while_the_connection_is_away_is_closed_on_the_broker(self) -> None:
        self.start(confirmation_window_size=100_000)
        self.broker.reattaches = ReattachSessionResponse(-1, True)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.away()
        self.world.finish(consumer.close())
        self.back()
        self.assertEqual([packet.consumer_id for packet in self.broker.got(ConsumerClose)], [consumer.id])

    def test_but_not_in_a_session_that_was_created_anew(self) -> None:
        self.start()
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.away()
        self.world.finish(consumer.close())
        self.back()
        self.assertEqual(self.broker.got(ConsumerClose, CreateConsumer), [])
        self.world.finish(self.session.queue_query("q"))

    def test_session_closed_while_it_is_reattached_is_closed_on_the_broker(self) -> None:
        """Else the broker would keep it as long as the connection, with consumers that take messages which nobody gets."""
        for answered in (False, True):
            self.start(confirmation_window_size=100_000)
            other = self.world.session(self.factory)
            self.world.finish(self.session.create_consumer("q"))
            self.broker.answers[ReattachSession] = lambda packet: None
            self.cut()
            link, number = self.world.network.link, self.session.channel_id
            reattached = ReattachSessionResponse(-1, True)
            if answered:
                self.broker.deliver(SESSION_CHANNEL, reattached)
            self.world.finish(self.session.close())
            self.broker.deliver(SESSION_CHANNEL, reattached)
            self.broker.deliver(SESSION_CHANNEL, reattached)
            self.assertEqual(self.broker.names(number)[-1:], ["SESS_CLOSE"])
            self.world.finish(other.queue_query("q"))
            self.assertTrue(link.open)

    def test_so_is_one_that_is_created_anew(self) -> None:
        for answered in (False, True):
            self.start()
            other = self.world.session(self.factory)
            self.world.finish(self.session.create_consumer("q"))
            self.broker.silent.add(CreateSession)
            self.cut()
            number = self.session.channel_id
            if answered:
                self.broker.deliver(SESSION_CHANNEL, CreateSessionResponse(self.broker.version))
            self.world.finish(self.session.close())
            for _ in range(2):
                self.broker.deliver(SESSION_CHANNEL, CreateSessionResponse(self.broker.version))
            self.assertEqual(self.broker.names(number)[-1:], ["SESS_CLOSE"])
            self.world.finish(other.queue_query("q"))

    def test_consumer_whose_answer_came_with_the_end_of_the_connection(self) -> None:
        """Under asyncio the caller goes on in the next turn of the loop, when all is over: a receive would wait for ever."""
        self.start(reconnect_attempts=0)
        runtime = self.world.runtime
        answers: list[tuple[Any, Any]] = []
        with patch.object(runtime, "resolve", lambda *answer: answers.append(answer)):
            creating = self.session.create_consumer("q")
            self.world.network.stir()
            self.cut()
        for answer in answers:
            runtime.resolve(*answer)
        self.assertRaises(ObjectClosedError, self.world.finish, creating)
        self.assertEqual(self.session.consumers, ())

    def test_close_that_is_cancelled_leaves_no_session_on_the_broker(self) -> None:
        """It would keep its consumers, which take messages that nobody gets, as long as the connection lives."""
        self.start()
        self.broker.credits = False
        producer = self.world.finish(self.session.create_producer("a"))
        send = producer.send(self.session.create_message())
        closing: Any = self.session.close()
        closing.addErrback(lambda _: None)
        self.world.network.stir()
        self.assertTrue(pending(closing))
        closing.cancel()
        self.world.network.stir()
        self.assertEqual(self.broker.names(CHANNEL)[-1], "SESS_CLOSE")
        self.assertRaises(ObjectClosedError, self.world.finish, send)

    def handling(self) -> tuple[Any, Deferred[None]]:
        """A consumer whose handler has a message, and the end of that handler."""
        self.start()
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        handled: Deferred[None] = Deferred()
        consumer.set_message_handler(lambda _: handled)
        self.broker.deliver(CHANNEL, message(1))
        return consumer, handled

    def test_close_of_a_consumer_that_is_cancelled_closes_it(self) -> None:
        consumer, handled = self.handling()
        closing: Any = consumer.close()
        closing.addErrback(lambda _: None)
        self.world.network.stir()
        self.assertEqual(self.broker.got(ConsumerClose), [])
        closing.cancel()
        self.world.network.stir()
        self.assertEqual(len(self.broker.got(ConsumerClose)), 1)
        self.assertEqual((consumer.closed, self.session.consumers), (True, ()))
        handled.callback(None)

    def test_start_while_a_stop_waits_for_a_handler(self) -> None:
        """The stop would come to the broker last, and a session that is started as far as its callers know would get nothing more."""
        _, handled = self.handling()
        stop, start = self.session.stop(), self.session.start()
        handled.callback(None)
        for call in (stop, start):
            self.world.finish(call)
        self.assertEqual(self.broker.names(CHANNEL)[-1], "SESS_START")
        self.assertTrue(self.session.started)

    def test_close_of_all_that_is_cancelled_ends_the_connection(self) -> None:
        """It would live for ever, and connect again after each failure."""
        self.start()
        for closes in (self.factory.close, self.world.locator.close):
            if self.factory.closed:
                self.factory = self.world.factory()
                self.session = self.world.session(self.factory)
            self.broker.silent.add(SessionClose)
            closing: Any = closes()
            closing.addErrback(lambda _: None)
            self.world.network.stir()
            closing.cancel()
            self.assertTrue(self.factory.closed)
            self.assertTrue(self.world.network.link.closed_by_client)
            self.assertEqual(self.world.clock.getDelayedCalls(), [])

    def test_closing_while_the_network_still_connects(self) -> None:
        self.start()
        asked: list[Deferred[Any]] = []

        def connect(*_: Any) -> Deferred[Any]:
            asked.append(Deferred())
            return asked[-1]

        self.world.network.connect = connect  # type: ignore[method-assign]
        self.cut()
        self.assertEqual(len(asked), 1)
        self.world.finish(self.factory.close())
        self.assertTrue(asked[0].called, "the attempt goes on although nobody wants it")
        self.assertEqual((self.world.clock.getDelayedCalls(), self.world.runtime.failures), ([], []))

    def test_closing_while_the_broker_is_silent(self) -> None:
        self.start()
        self.broker.silent.add(CheckForFailover)
        self.cut()
        self.world.finish(self.factory.close())
        self.assertTrue(self.world.network.link.closed_by_client)
        self.assertEqual((self.world.clock.getDelayedCalls(), self.world.runtime.failures), ([], []))

    def test_connecting_that_is_cancelled_leaves_no_connection(self) -> None:
        self.start()
        self.broker.topology = []
        opening: Any = self.world.locator.create_session_factory()
        self.world.network.stir()
        opening.addErrback(lambda _: None)
        opening.cancel()
        self.assertTrue(self.world.network.link.closed_by_client)

    def test_peer_that_does_not_read_the_farewell(self) -> None:
        self.start()
        link = self.world.network.link
        link.close = lambda: None  # type: ignore[method-assign]  # what was written never leaves
        self.world.finish(self.factory.close())
        self.assertFalse(link.closed_by_client)
        self.world.advance(6)
        self.assertTrue(link.closed_by_client)

    def test_connection_that_breaks_right_after_each_reconnect(self) -> None:
        self.start(retry_interval=100)
        for _ in range(3):
            self.cut()
        count = len(self.world.network.links)
        self.assertLessEqual(count, 3)
        self.world.advance(0.15)
        self.assertEqual(len(self.world.network.links), count + 1)
        self.world.finish(self.session.queue_query("q"))

    def test_no_interval(self) -> None:
        self.start(retry_interval=0, max_retry_interval=0)
        self.away()
        before = len(self.world.network.tried)
        self.world.clock.advance(0)
        self.world.clock.advance(0)
        self.assertEqual(len(self.world.network.tried), before)
        self.back()
        self.world.finish(self.session.queue_query("q"))

    def test_listeners_of_a_session_that_the_broker_does_not_want_back(self) -> None:
        for error, kind in ((105, SecurityError), (104, MQError)):
            self.start()
            other = self.world.session(self.factory)
            listener = Listener()
            self.session.add_failure_listener(listener)
            self.session.add_failover_listener(listener.event)
            self.broker.answers[CreateSession] = lambda packet, error=error: (
                ExceptionResponse(error, "no") if packet.session_channel_id == CHANNEL else self.broker._answers(packet)[0]
            )
            self.cut()
            self.assertEqual(listener.told[-2], FailoverEvent.FAILOVER_FAILED)
            self.assertEqual(listener.told[-1][0::2], ("failed", False))
            self.assertTrue(issubclass(listener.told[-1][1], kind))
            self.assertTrue(self.session.closed)
            self.world.finish(other.queue_query("q"))


class NumberingTests(FailoverTestCase):
    def test_what_a_recreation_sends_is_counted(self) -> None:
        """The broker counts it: its confirmations must not be taken for those of the messages that follow."""
        self.start(confirmation_window_size=100_000)
        self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.cut()
        producer = self.world.finish(self.session.create_producer("a"))
        self.broker.silent.add(SessionSend)
        sends = [producer.send(self.session.create_message(), acknowledgement_handler=Mock()) for _ in range(3)]
        self.world.network.stir()
        for send in sends:
            self.world.finish(send)
        counted = [packet for number, packet in self.broker.received_packets if number == CHANNEL and packet.COUNTED]
        before = counted.index(next(packet for packet in counted if isinstance(packet, SessionSend)))
        self.assertGreater(before, 0)
        kept = self.session.channel.protocol.replay
        self.broker.deliver(CHANNEL, PacketsConfirmed(before - 1))
        unconfirmed = len(kept())
        self.assertGreaterEqual(unconfirmed, len(sends))
        self.broker.deliver(CHANNEL, PacketsConfirmed(before))
        self.assertEqual(len(kept()), unconfirmed - 1)


class LargeMessageTests(FailoverTestCase):
    def test_credits_of_a_body_that_was_not_read_before_a_rollback(self) -> None:
        self.start(consumer_window_size=1000)
        session = self.world.session(self.factory, auto_commit_acks=False)
        consumer = self.world.finish(session.create_consumer("q"))
        self.world.finish(session.start())
        self.broker.deliver(CHANNEL + 1, large_header(1, 800))
        self.broker.deliver(CHANNEL + 1, chunk(bytes(800), False))
        received = self.world.finish(consumer.receive())
        granted = sum(packet.credits for packet in self.broker.got(FlowToken))
        self.world.finish(session.rollback())
        self.assertGreater(sum(packet.credits for packet in self.broker.got(FlowToken)), granted + 800)
        self.assertRaises(LargeMessageInterruptedError, self.world.finish, received.large.read())

    def test_credits_for_a_body_while_other_messages_hold_the_window(self) -> None:
        """Little was taken, too little to give credits back for, and what else was granted is held by a message that waits behind."""
        self.start(consumer_window_size=1000)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.broker.deliver(CHANNEL, message(1, body=bytes(800)))
        self.broker.deliver(CHANNEL, SessionReceiveLarge(0, 1, 300, encode_headers(CoreMessage(2, "q", priority=9))))
        received = self.world.finish(consumer.receive())
        self.assertEqual((received.message_id, self.broker.got(FlowToken)[1:]), (2, []))
        body = received.large.read()
        self.world.network.stir()
        self.assertEqual([packet.credits for packet in self.broker.got(FlowToken)[1:]], [received.frame_size])
        self.broker.deliver(CHANNEL, chunk(bytes(300), False))
        self.assertEqual(self.world.finish(body), bytes(300))

    def test_marker_that_overtakes_what_follows_a_large_message(self) -> None:
        """A broker answers at once while chunks are under way, and delivers what comes behind the large message later."""
        self.start()
        consumer = self.world.finish(self.session.create_consumer("q", browse_only=True))
        self.world.finish(self.session.start())
        self.broker.deliver(CHANNEL, large_header(1, 8))
        self.assertEqual(self.world.finish(consumer.receive_immediate()).message_id, 1)
        receive = consumer.receive_immediate()
        self.world.network.stir()
        self.assertTrue(pending(receive))
        self.broker.deliver(CHANNEL, chunk(bytes(4), True))
        self.broker.silent.add(ForceConsumerDelivery)
        self.broker.deliver(CHANNEL, chunk(bytes(4), False))
        self.broker.deliver(CHANNEL, message(2))
        self.broker.deliver(CHANNEL, marker(self.broker.got(ForceConsumerDelivery)[-1]))
        self.assertEqual(self.world.finish(receive).message_id, 2)

    def test_marker_that_waits_for_a_large_message_to_be_taken(self) -> None:
        """A broker that answers after the last chunk only, which the credits of a small window do not let through."""
        self.start(consumer_window_size=1000)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.broker.silent.add(ForceConsumerDelivery)
        receive = consumer.receive_immediate()
        self.world.network.stir()
        self.broker.deliver(CHANNEL, large_header(1, 2000))
        self.broker.deliver(CHANNEL, chunk(bytes(1000), True))
        self.assertEqual(self.world.finish(receive).message_id, 1)
