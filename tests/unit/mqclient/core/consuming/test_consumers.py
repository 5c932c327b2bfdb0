"""Consumers: credits, handlers, acknowledgements, the end."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.errors import (
    IllegalStateError,
    ObjectClosedError,
)
from mqclient.wire.packets import (
    Acknowledge,
    ConsumerClose,
    CreateConsumer,
    DisconnectConsumer,
    ExceptionResponse,
    FlowToken,
    ForceConsumerDelivery,
    IndividualAcknowledge,
)
from tests.support.network import ScriptedBroker, World, message, pending
from tests.unit.mqclient.core.connection.test_connection import CHANNEL


class ConsumerCase(SynchronousTestCase):
    def start(self, session: dict[str, Any] | None = None, consumer: dict[str, Any] | None = None, **settings: Any) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker, **settings)
        self.session = self.world.session(**(session or {}))
        self.consumer = self.world.finish(self.session.create_consumer("q", **(consumer or {})))
        self.world.finish(self.session.start())

    def credits(self) -> list[int]:
        return [packet.credits for packet in self.broker.got(FlowToken)]

    def acknowledged(self) -> list[tuple[str, int]]:
        return [(packet.NAME, packet.message_id) for packet in self.broker.got(Acknowledge, IndividualAcknowledge)]

    def take(self) -> ClientMessage:
        found: ClientMessage | None = self.world.finish(self.consumer.receive(0))
        assert found is not None
        return found


class ConsumerTests(ConsumerCase):
    def test_endless_receive_ends_when_closed_or_cancelled(self) -> None:
        self.start()
        cancelled, closed = self.consumer.receive(), self.consumer.receive()
        self.world.advance(100, step=5)
        cancelled.cancel()
        self.assertRaises(CancelledError, self.world.finish, cancelled)
        self.broker.deliver(CHANNEL, message(1))
        self.assertEqual(self.world.finish(closed).message_id, 1)
        last = self.consumer.receive()
        self.world.finish(self.session.close())
        self.assertIsNone(self.world.finish(last))
        self.assertRaises(ObjectClosedError, self.world.finish, self.consumer.receive())

    def test_window_kinds(self) -> None:
        for window, expected in ((-1, [-1]), (1, [1]), (1024 * 1024, [7777])):
            self.start(consumer={"window_size": window})
            if window == 1024 * 1024:
                self.broker.queue_info["default_consumer_window_size"] = 7777
                self.world.finish(self.consumer.close())
                self.world.finish(self.session.create_consumer("q"))
                self.assertEqual(self.credits()[1:], expected)
            else:
                self.assertEqual(self.credits(), expected)
        self.start(consumer={"window_size": 1})
        self.broker.deliver(CHANNEL, message(1))
        size = self.take().frame_size
        self.assertEqual(self.credits(), [1, size])

    def test_acknowledgements_are_batched(self) -> None:
        self.start(ack_batch_size=200)
        for number in range(5):
            self.broker.deliver(CHANNEL, message(number, body=b"x" * 40))
        for _ in range(4):
            self.world.finish(self.take().acknowledge())
        self.assertEqual(self.acknowledged(), [("SESS_ACKNOWLEDGE", 2)])
        self.world.finish(self.session.flush_acknowledgements())
        self.assertEqual(self.acknowledged()[1:], [("SESS_ACKNOWLEDGE", 3)])
        self.world.finish(self.consumer.close())
        self.assertEqual(len(self.acknowledged()), 2)

    def test_mixed_priorities_are_acknowledged_one_by_one(self) -> None:
        self.start(ack_batch_size=10_000)
        self.broker.deliver(CHANNEL, message(1))
        self.world.finish(self.take().acknowledge())
        for number, priority in ((2, 4), (3, 8)):
            self.broker.deliver(CHANNEL, message(number, priority=priority))
        self.assertEqual(self.acknowledged(), [("SESS_ACKNOWLEDGE", 1)])
        first, second = self.take(), self.take()
        self.assertEqual((first.message_id, second.message_id), (3, 2))
        self.world.finish(second.acknowledge())
        self.assertEqual(self.acknowledged()[1:], [("SESS_INDIVIDUAL_ACKNOWLEDGE", 3), ("SESS_INDIVIDUAL_ACKNOWLEDGE", 2)])

    def test_acknowledging_twice_or_in_a_browser_sends_nothing(self) -> None:
        self.start(ack_batch_size=0)
        self.broker.deliver(CHANNEL, message(1))
        received = self.take()
        self.world.finish(received.individual_acknowledge())
        self.world.finish(received.acknowledge())
        self.assertEqual(len(self.acknowledged()), 1)
        self.start(ack_batch_size=0, consumer={"browse_only": True})
        self.broker.deliver(CHANNEL, message(1, delivery_count=0))
        self.world.finish(self.take().acknowledge())
        self.assertEqual(self.acknowledged(), [])
        self.start(ack_batch_size=0, pre_acknowledge=True)
        self.broker.deliver(CHANNEL, message(1))
        self.world.finish(self.take().acknowledge())
        self.assertEqual(self.acknowledged(), [])

    def test_blocking_acknowledgement(self) -> None:
        self.start(ack_batch_size=0, block_on_acknowledge=True)
        self.broker.answers[Acknowledge] = lambda packet: ExceptionResponse(104, "unknown message")
        self.broker.deliver(CHANNEL, message(1))
        self.assertRaises(IllegalStateError, self.world.finish, self.take().acknowledge())

    def test_handler(self) -> None:
        self.start()
        seen: list[int] = []

        def handle(received: ClientMessage) -> None:
            seen.append(received.message_id)
            if received.message_id == 1:
                raise RuntimeError("the application's")

        self.consumer.set_message_handler(handle)
        for number in (1, 2):
            self.broker.deliver(CHANNEL, message(number))
        self.assertEqual(seen, [1, 2])
        self.assertEqual([str(error) for error in self.world.runtime.failures], ["the application's"])
        self.assertRaises(IllegalStateError, self.world.finish, self.consumer.receive())
        self.consumer.set_message_handler(None)
        self.broker.deliver(CHANNEL, message(3))
        self.assertEqual(self.take().message_id, 3)

    def test_slow_handler_is_waited_for_when_closing(self) -> None:
        self.start(on_message_close_timeout=1000)
        turn = self.world.runtime.create_future()
        self.consumer.set_message_handler(lambda received: turn)
        self.broker.deliver(CHANNEL, message(1))
        close = self.consumer.close()
        self.world.advance(0.5)
        self.assertEqual(self.broker.got(ConsumerClose), [])
        self.world.advance(0.6)
        self.world.finish(close)
        self.assertEqual(len(self.broker.got(ConsumerClose)), 1)
        self.assertIn("onMessageCloseTimeout", self.world.runtime.warnings[0])

    def test_handler_may_close_its_session(self) -> None:
        self.start()
        closes = []
        self.consumer.set_message_handler(lambda received: closes.append(self.session.close()))
        self.broker.deliver(CHANNEL, message(1))
        self.world.finish(closes[0])

    def test_handler_with_window_zero(self) -> None:
        self.start(consumer_window_size=0)
        turn = self.world.runtime.create_future()
        self.consumer.set_message_handler(lambda received: turn)
        self.world.network.stir()
        delivery = message(1)
        self.broker.deliver(CHANNEL, delivery)
        self.assertEqual(len(self.credits()), 2)
        self.world.runtime.resolve(turn, None)
        self.world.network.stir()
        size = 13 + len(delivery.message) + 12
        self.assertEqual(self.credits(), [1, size - 1, 1])

    def test_stopped_session_gives_nothing(self) -> None:
        self.start()
        self.broker.deliver(CHANNEL, message(1))
        self.world.finish(self.session.stop())
        call = self.consumer.receive(100)
        self.world.advance(0.2)
        self.assertIsNone(self.world.finish(call))
        self.assertEqual(self.broker.got(ForceConsumerDelivery), [])
        waiting = self.consumer.receive()
        self.world.finish(self.session.start())
        self.assertEqual(self.world.finish(waiting).message_id, 1)

    def test_rate(self) -> None:
        self.start(consumer_max_rate=1)
        for number in (1, 2):
            self.broker.deliver(CHANNEL, message(number))
        self.take()
        call = self.consumer.receive(5000)
        self.world.advance(0.9)
        self.assertTrue(pending(call))
        self.world.advance(0.2)
        self.assertEqual(self.world.finish(call).message_id, 2)

    def test_destroyed_queue_closes_the_consumer(self) -> None:
        self.start()
        call = self.consumer.receive()
        self.broker.deliver(CHANNEL, DisconnectConsumer(0))
        self.assertIn("queue was deleted", str(self.assertRaises(ObjectClosedError, self.world.finish, call)))
        self.assertRaises(ObjectClosedError, self.world.finish, self.consumer.receive())
        self.assertTrue(self.consumer.closed)
        self.assertEqual(len(self.broker.got(ConsumerClose)), 1)

    def test_consumer_of_a_cancelled_call_is_closed_again(self) -> None:
        self.start()
        self.broker.silent.add(CreateConsumer)
        create: Any = self.session.create_consumer("q")
        self.world.network.stir()
        create.cancel()
        self.assertRaises(CancelledError, self.world.finish, create)
        self.broker.deliver(CHANNEL, self.broker._info("q"))
        self.assertEqual([packet.consumer_id for packet in self.broker.got(ConsumerClose)], [1])
