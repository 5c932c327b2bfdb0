"""Ring queues, as sessions and management meet them."""

from __future__ import annotations

import json
from typing import Any

from mqbroker.config.model.configuration import AddressConfiguration, Configuration, QueueConfiguration
from mqbroker.messaging.queues import ring
from mqclient.errors import IllegalStateError
from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY
from mqclient.wire.properties import LONG
from tests.support.broker import World, message_id
from tests.unit.messaging.paging_support import ALWAYS, PagingBroker, Taker, numbered
from tests.unit.server.management.test_service import REPLIES, ManagementCase


class RingCase(ManagementCase):
    settings: dict[str, dict[str, Any]] = {"small.#": {"default_ring_size": 1}}

    def setUp(self) -> None:
        self.world = World(Configuration(security_enabled=False, address_settings=self.settings))
        self.session = self.world.session()
        self.session.ok(wire.CreateQueueV2(REPLIES, REPLIES, durable=False, temporary=True, routing_type=1))
        self.session.consume(REPLIES, 99)
        self.session.create_queue("q", ring_size=3)
        self.queue = self.world.queue("q")

    def put(self, *bodies: bytes, **headers: Any) -> None:
        for body in bodies:
            self.session.publish(body, **headers)

    def waiting(self) -> list[bytes]:
        return [reference.message.decoded().body for reference in self.queue.references]


class RingTests(RingCase):
    def test_the_newest_messages_wait(self) -> None:
        self.put(*numbered(5))
        self.assertEqual(self.waiting(), numbered(3, 2))
        self.assertEqual((self.queue.message_count, self.queue.messages_added, self.queue.messages_replaced), (3, 5, 2))
        self.assertEqual(len(self.world.store.entries("ack")), 2)
        self.assertEqual(self.call("queue.q", "removeAllMessages"), 3)
        memory = self.queue.address.memory
        self.assertEqual((self.queue.total_count, self.queue.persistent_size, memory.size, memory.messages), (0, 0, 0, 0))

    def test_what_is_next_in_turn_gives_way(self) -> None:
        self.put(b"1", b"2")
        self.put(b"high", priority=9)
        self.put(b"3")
        self.assertEqual(self.waiting(), [b"1", b"2", b"3"])

    def test_nothing_gives_way_before_the_newer_one_is_stored(self) -> None:
        self.put(b"1", b"2", b"3")
        self.world.store.held = True
        self.put(b"4")
        self.assertEqual((self.waiting(), self.world.store.entries("ack")), ([b"1", b"2", b"3"], []))
        self.world.store.sync()
        self.world.clock.advance(0.1)
        self.assertEqual((self.waiting(), len(self.world.store.entries("ack"))), ([b"2", b"3", b"4"], 1))

    def test_what_is_in_delivery_does_not_count(self) -> None:
        other = self.world.session()
        other.consume()
        self.put(*numbered(5))
        packets = other.received()
        self.assertEqual((len(packets), self.queue.delivering, self.queue.message_count), (5, 5, 5))
        other.send(wire.Acknowledge(0, message_id(packets[0]), False))
        other.peer.lose()
        self.assertEqual((self.waiting(), self.queue.messages_replaced, self.queue.delivering), (numbered(3, 2), 1, 0))

    def test_what_comes_back_to_a_full_ring_is_removed_itself(self) -> None:
        other = self.world.session()
        self.put(b"low", priority=1)
        other.consume()
        other.server_session.consumers.by_id[0].unlimited = False
        other.server_session.consumers.by_id[0].update_ready()
        self.put(b"1", b"2", b"3", priority=9)
        other.peer.lose()
        self.assertEqual((self.waiting(), self.queue.messages_replaced), ([b"1", b"2", b"3"], 1))

    def test_size_zero_is_for_consumers_that_are_there(self) -> None:
        self.session.create_queue("zero", ring_size=0)
        self.session.publish(b"lost", "zero")
        self.session.consume("zero")
        self.session.publish(b"seen", "zero")
        self.assertEqual(self.session.bodies(), [b"seen"])
        self.assertEqual(self.world.queue("zero").messages_replaced, 1)

    def test_scheduled_messages_do_not_count(self) -> None:
        due = self.world.clock.wall_ms() + 10_000
        self.put(*numbered(3), properties={KEY_SCHEDULED_DELIVERY: (LONG, due)})
        self.put(b"now")
        self.assertEqual((self.waiting(), self.queue.scheduled.count, self.queue.message_count), ([b"now"], 3, 4))
        self.world.clock.advance(11)
        self.assertEqual((self.queue.references.count, self.queue.messages_replaced), (3, 1))

    def test_a_paused_queue(self) -> None:
        self.call("queue.q", "pause")
        self.put(*numbered(5))
        self.assertEqual(self.waiting(), numbered(3, 2))


class SizeTests(RingCase):
    def test_address_settings_and_the_answer_to_a_query(self) -> None:
        self.session.create_queue("small.q")
        for name, size in (("q", 3), ("small.q", 1)):
            answer = self.session.call(wire.QueueQuery(name))
            assert isinstance(answer, wire.QueueQueryResponseV3)
            self.assertEqual(answer.ring_size, size)

    def test_management_changes_the_size(self) -> None:
        self.patch(ring, "REMOVED_TOGETHER", 2)
        for size, left in ((-1, 9), (2, 2), (5, 2)):
            self.call("broker", "updateQueue", json.dumps({"name": "q", "ring-size": size}))
            self.world.clock.advance(0.1)
            self.assertEqual(self.attribute("queue.q", "RingSize"), size)
            if size < 0:
                self.put(*numbered(9))
            self.assertEqual(self.queue.message_count, left)
        self.assertEqual(self.waiting(), numbered(2, 7))
        self.assertEqual(self.attribute("queue.q", "MessagesReplaced"), 7)

    def test_a_start_with_another_size(self) -> None:
        self.put(*numbered(3))
        queue = QueueConfiguration("q", "q", 1, ring_size=2, configuration_managed=True)
        problems: list[str] = []
        self.world.messaging.deploy([AddressConfiguration("q", frozenset((1,)), [queue])], warn=problems.append)
        self.assertEqual(problems, [])
        self.world.clock.advance(0.1)
        self.assertEqual(self.waiting(), numbered(2, 1))

    def test_a_queue_of_the_configuration_that_has_another_kind_is_told(self) -> None:
        queue = QueueConfiguration("q", "q", 1, ring_size=3, last_value=True, configuration_managed=True)
        problems: list[str] = []
        self.world.messaging.deploy([AddressConfiguration("q", frozenset((1,)), [queue])], warn=problems.append)
        (problem,) = problems
        self.assertIn("was created with last-value-key none", problem)
        self.assertFalse(self.queue.definition.last_value)

    def test_readers(self) -> None:
        readers = self.world.messaging.readers
        with self.assertRaisesRegex(IllegalStateError, "ring queue"):
            readers.open(self.queue, "r", 0, lambda *found: None, lambda error: None)
        self.session.create_queue("read")
        queue = self.world.queue("read")
        readers.open(queue, "r", 0, lambda *found: None, lambda error: None)
        self.assertTrue(queue.has_readers)
        self.assertIn("has readers", self.fails("broker", "updateQueue", json.dumps({"name": "read", "ring-size": 5})))
        self.assertEqual(queue.definition.ring_size, -1)
        wanted = QueueConfiguration("read", "read", 1, ring_size=5, configuration_managed=True)
        problems: list[str] = []
        self.world.messaging.deploy([AddressConfiguration("read", frozenset((1,)), [wanted])], warn=problems.append)
        (problem,) = problems
        self.assertIn("has readers", problem)


class PagedRingTests(ManagementCase):
    def setUp(self) -> None:
        """No broker of its own."""

    def test_messages_in_pages_count_once_they_are_read(self) -> None:
        broker = PagingBroker({"#": ALWAYS})
        queue = broker.make_queue("q", ring_size=5)
        for body in numbered(200):
            broker.send(body)
        self.assertEqual((queue.paged, queue.messages_replaced), (200, 0))
        taker = Taker(broker, queue, 1)
        self.assertEqual(taker.bodies, numbered(1))
        for _ in range(50):
            broker.settle()
        self.assertEqual((queue.references.count, queue.paged), (5, 0))
        broker.restart()
        queue = broker.core.queues["q"]
        self.assertEqual(Taker(broker, queue).drain()[-5:], numbered(5, 195))
        memory = queue.address.memory
        self.assertEqual((queue.total_count, memory.size, memory.messages, broker.pages()), (0, 0, 0, 0))
