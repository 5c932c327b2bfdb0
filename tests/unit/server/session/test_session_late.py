"""A session on a store that answers later: what a client asks for comes whole and in order, and no answer overtakes it."""

from __future__ import annotations

from unittest import TestCase, mock

from mqbroker.config.model.configuration import Configuration
from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_FORCED_DELIVERY, decode_message
from tests.support.broker import World, of_kind
from tests.support.late_store import LateStore
from tests.unit.messaging.paging_support import ALWAYS, numbered
from tests.unit.messaging.readers.support import messages
from tests.unit.storage.support import Rig


class LateSessionTests(TestCase):
    def setUp(self) -> None:
        with mock.patch.object(Rig, "store_class", LateStore):
            self.rig = Rig(journal_file_size=16384)
            recovered = self.rig.start()
        configuration = Configuration(security_enabled=False, address_settings={"#": ALWAYS, "memory": {"max_size_bytes": -1}})
        self.world = World(configuration, store=self.rig.store, clock=self.rig.clock, recovered=recovered)
        self.sender = self.world.session()
        for name in ("q", "memory"):
            self.sender.send(wire.CreateQueueV2(name, name, durable=True, routing_type=1))
        self.rig.settle()
        self.sender.take()
        self.session = self.world.peer().open(min_large_message_size=100)

    def publish(self) -> None:
        for body in numbered(30):
            self.sender.publish(body)
        self.rig.settle()

    def publish_large(self, body: bytes, address: str) -> None:
        self.sender.begin_large(address)
        self.sender.chunk(body, len(body), reply=True)
        self.rig.settle()

    def shown(self) -> list[bytes]:
        """Bodies in the order in which they came; b"none" for the answer to a forced delivery."""
        self.rig.settle()
        found = [decode_message(packet.message) for packet in of_kind(self.session.take(), wire.SessionReceive)]
        return [b"none" if KEY_FORCED_DELIVERY in message.properties else message.body for message in found]

    def chunks(self) -> list[bytes]:
        return [packet.chunk for packet in of_kind(self.session.take(), wire.SessionReceiveContinuation)]

    def test_a_consumer_that_does_not_wait_gets_what_is_in_pages_first(self) -> None:
        self.publish()
        self.session.consume()
        self.session.send(wire.ForceConsumerDelivery(0, 1))
        self.assertEqual(self.shown(), [*numbered(30), b"none"])

    def test_a_browser_sees_what_is_in_pages_first(self) -> None:
        self.publish()
        self.session.consume(browse_only=True)
        self.session.send(wire.ForceConsumerDelivery(0, 1))
        self.assertEqual(self.shown(), [*numbered(30), b"none"])
        self.assertEqual(self.world.queue("q").message_count, 30)

    def test_a_large_message_comes_chunk_by_chunk(self) -> None:
        body = bytes(range(250))
        self.publish_large(body, "q")
        self.session.consume()
        self.assertEqual(self.chunks(), [])
        self.rig.settle()
        self.assertEqual(self.chunks(), [body[:100], body[100:200], body[200:]])

    def test_a_large_message_whose_consumer_goes_meanwhile_stays(self) -> None:
        body = bytes(range(250))
        self.publish_large(body, "memory")
        self.session.consume("memory")
        self.assertEqual(self.world.queue("memory").delivering, 1)
        self.session.send(wire.ConsumerClose(0))
        self.rig.settle()
        self.assertEqual(self.chunks(), [])
        self.session.consume("memory", consumer=1)
        self.rig.settle()
        self.assertEqual(b"".join(self.chunks()), body)

    def test_a_reader_is_answered_in_the_order_of_its_requests(self) -> None:
        self.publish()
        self.session.send(wire.ReaderReserve("q", None, 0, 0, -1, -1, -1, 1))
        self.rig.settle()
        (found,) = of_kind(self.session.take(), wire.ReaderRange)
        self.assertEqual(found.messages, 30)
        bodies: list[bytes] = []
        position = found.after
        while position < found.until:
            self.session.send(wire.ReaderRead("q", position, found.until, 1 << 20, None))
            self.session.send(wire.QueueQuery("q"))
            self.rig.settle()
            answer, other = [packet for packet in self.session.take() if packet.RESPONSE]
            assert isinstance(answer, wire.ReaderMessages), answer
            self.assertNotIsInstance(other, wire.ReaderMessages)
            bodies += [message.body for message in messages(answer)]
            position = answer.position
        self.assertEqual(bodies, numbered(30))
