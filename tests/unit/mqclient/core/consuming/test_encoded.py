"""Consumers whose messages are not decoded."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.consuming.encoded import EncodedConsumer
from mqclient.errors import QueueDoesNotExistError
from mqclient.wire.message import CoreMessage, encode_message
from mqclient.wire.packets import (
    Acknowledge,
    ConsumerClose,
    CreateConsumer,
    DisconnectConsumer,
    ExceptionResponse,
    Expired,
    FlowToken,
    ForceConsumerDelivery,
    IndividualAcknowledge,
    ReceiveHeld,
    ReturnMessages,
    SessionReceive,
    SessionReceiveContinuation,
    SessionReceiveLarge,
)
from tests.support.network import ScriptedBroker
from tests.unit.mqclient.core.sending.test_encoded_sends import CHANNEL, link_world


class Heard:
    """Keeps what comes."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, int]] = []
        self.large: list[object] = []
        self.gone = 0

    def message_received(self, message: bytes, delivery_count: int, frame_size: int) -> None:
        self.messages.append((message, delivery_count))

    def large_received(self, packet: SessionReceiveLarge, frame_size: int) -> None:
        self.large.append(packet.headers)

    def chunk_received(self, chunk: bytes, frame_size: int, continues: bool) -> None:
        self.large.append((chunk, continues))

    def held_received(self, message_id: int, delivery_count: int) -> None:
        self.large.append((message_id, delivery_count))

    def disconnected(self) -> None:
        self.gone += 1


class EncodedConsumerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.world = link_world(self.broker)
        self.session = self.world.session(self.world.factory())
        self.heard = Heard()

    def open(self) -> EncodedConsumer:
        consumer: EncodedConsumer = self.world.finish(self.session.create_encoded_consumer("q", "a = 1", self.heard, priority=3))
        return consumer

    def test_it_asks_for_what_it_is_to_get(self) -> None:
        self.open()
        self.assertEqual(self.broker.got(CreateConsumer), [CreateConsumer(0, "q", "a = 1", False, True, 3)])
        self.assertEqual(self.broker.got(FlowToken), [])

    def test_messages_come_as_they_are(self) -> None:
        self.open()
        data = encode_message(CoreMessage(7, "q", body=b"x"))
        self.broker.deliver(CHANNEL, SessionReceive(data, 0, 2))
        self.broker.deliver(CHANNEL, SessionReceiveLarge(0, 1, 5, b"headers"))
        self.broker.deliver(CHANNEL, SessionReceiveContinuation(b"abc", True, 0))
        self.broker.deliver(CHANNEL, SessionReceiveContinuation(b"de", False, 0))
        self.broker.deliver(CHANNEL, ReceiveHeld(0, 9, 3))
        self.assertEqual(self.heard.messages, [(data, 2)])
        self.assertEqual(self.heard.large, [b"headers", (b"abc", True), (b"de", False), (9, 3)])

    def test_what_is_said_of_them(self) -> None:
        consumer = self.open()
        consumer.grant(5)
        consumer.force()
        consumer.acknowledge_until(1)
        consumer.acknowledge([2, 3])
        consumer.expired(4)
        consumer.give_back([5, 6], counted=True)
        self.world.network.stir()
        kinds = (FlowToken, ForceConsumerDelivery, Acknowledge, IndividualAcknowledge, Expired, ReturnMessages)
        self.assertEqual(
            self.broker.got(*kinds),
            [
                FlowToken(0, 5),
                ForceConsumerDelivery(0, 0),
                Acknowledge(0, 1, False),
                IndividualAcknowledge(0, 2, False),
                IndividualAcknowledge(0, 3, False),
                Expired(0, 4),
                ReturnMessages(0, True, (5, 6)),
            ],
        )

    def test_a_refused_one_hears_nothing(self) -> None:
        self.broker.answers[CreateConsumer] = lambda packet: ExceptionResponse(100, "no such queue", None)
        self.assertRaises(QueueDoesNotExistError, self.open)
        self.assertEqual(self.session.encoded_consumers, {})

    def test_one_that_the_broker_has_ended_is_told(self) -> None:
        self.open()
        self.broker.deliver(CHANNEL, DisconnectConsumer(0))
        self.broker.deliver(CHANNEL, SessionReceive(encode_message(CoreMessage(7, "q")), 0, 1))
        self.assertEqual((self.heard.gone, self.heard.messages), (1, []))

    def test_it_is_closed(self) -> None:
        consumer = self.open()
        closing = self.world.runtime.spawn(consumer.close())
        self.world.finish(closing)
        self.assertEqual(self.broker.got(ConsumerClose), [ConsumerClose(0)])

    def test_closing_one_whose_connection_is_lost_does_nothing(self) -> None:
        consumer = self.open()
        self.world.network.link.cut()
        self.world.finish(self.world.runtime.spawn(consumer.close()))
