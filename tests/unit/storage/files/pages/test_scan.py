"""Readers of messages in pages: read without being kept, settled page by page, the same after a restart."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from mqbroker.messaging.message.message import Message
from mqclient.wire.message import CoreMessage
from mqclient.wire.properties import INT
from tests.support.late_store import read_now
from tests.unit.messaging.paging_support import Taker, numbered
from tests.unit.messaging.readers.stored import StoredBroker, filled
from tests.unit.messaging.readers.test_reading import MIXED


class PageTests(TestCase):
    def test_a_range_in_pages_is_read_again_and_nothing_comes_into_memory(self) -> None:
        broker = filled()
        self.assertGreater(broker.pages(), 3)
        reader = broker.open()
        found = broker.reserve(reader, 0)
        self.assertEqual(found.messages, 300)
        for size in (1 << 20, 700, 1):
            self.assertEqual(broker.bodies(0, found.until, max_bytes=size), numbered(300))
        self.assertEqual((broker.q.paged, broker.q.references.count), (300, 0))

    def test_settling_lets_the_pages_go(self) -> None:
        broker = filled()
        pages = broker.pages()
        reader = broker.open()
        first = broker.reserve(reader, 0, messages=150)
        self.assertEqual(broker.bodies(0, first.until), numbered(150))
        broker.settle_reader(reader, first.until)
        self.assertEqual((broker.q.message_count, broker.q.messages_acknowledged), (150, 150))
        self.assertLess(broker.pages(), pages)
        second = broker.reserve(reader, first.until)
        self.assertEqual(broker.bodies(first.until, second.until), numbered(150, 150))
        broker.settle_reader(reader, second.until)
        self.assertEqual((broker.q.message_count, broker.pages(), broker.page_files()), (0, 0, []))
        broker.restart()
        self.assertEqual(broker.q.message_count, 0)

    def test_a_restart_changes_nothing(self) -> None:
        for restart in (StoredBroker.restart, StoredBroker.crash):
            broker = filled()
            reader = broker.open()
            first = broker.reserve(reader, 0, messages=100)
            broker.settle_reader(reader, first.until)
            second = broker.reserve(reader, first.until, messages=100, parts=4)
            rows = broker.rows(first.until, second.until)
            restart(broker)
            again = broker.open()
            self.assertEqual((again.epoch, again.settled, again.reserved), (2, first.until, second.until))
            self.assertEqual(broker.rows(first.until, second.until), rows)
            self.assertEqual([body for _, body in rows], numbered(100, 100))
            self.assertEqual(broker.q.message_count, 200)

    def test_memory_and_pages_are_one_row(self) -> None:
        broker = filled(100, MIXED)
        self.assertEqual((broker.q.references.count, broker.q.paged), (20, 80))
        reader = broker.open()
        found = broker.reserve(reader, 0, parts=5)
        self.assertEqual((found.messages, len(found.ends)), (100, 5))
        parts = [broker.bodies(after, end) for after, end in zip((0, *found.ends), found.ends, strict=False)]
        self.assertEqual([body for part in parts for body in part], numbered(100))
        broker.settle_reader(reader, found.ends[1])
        self.assertEqual(broker.bodies(found.ends[1], found.until), [body for part in parts[2:] for body in part])

    def test_what_consumers_had_read_ahead_is_not_read_twice(self) -> None:
        broker = filled(100)
        taker = Taker(broker, broker.q, room=30)
        taker.acknowledge(10)
        taker.leave()
        self.assertGreater(broker.q.references.count, 0)
        reader = broker.open()
        found = broker.reserve(reader, 0)
        self.assertEqual(broker.bodies(0, found.until), numbered(90, 10))
        broker.settle_reader(reader, found.until)
        self.assertEqual((broker.q.message_count, broker.pages()), (0, 0))

    def test_other_queues_of_the_address_keep_what_they_have(self) -> None:
        broker = StoredBroker()
        broker.make_queue("q", "a", routing_type=0)
        broker.make_queue("other", "a", routing_type=0, filter_string="n > 3")
        for number, body in enumerate(numbered(60)):
            broker.send(body, "a", routing_type=0, properties={"n": (INT, number % 8)})
        reader = broker.open()
        found = broker.reserve(reader, 0)
        self.assertEqual(broker.bodies(0, found.until), numbered(60))
        broker.settle_reader(reader, found.until)
        self.assertEqual(broker.q.message_count, 0)
        other = broker.core.queues["other"]
        self.assertEqual(other.message_count, 28)
        found = broker.reserve(None, 0)
        self.assertEqual(found.messages, 0)
        broker.restart()
        other = broker.core.queues["other"]
        self.assertEqual(len(Taker(broker, other).drain()), 28)
        self.assertEqual(broker.page_files(), [])

    def test_pages_of_several_addresses_are_merged(self) -> None:
        broker = StoredBroker()
        broker.make_queue("q", "a.#", routing_type=0)
        bodies = numbered(90)
        for number, body in enumerate(bodies):
            broker.send(body, ("a.x", "a.y", "a.z")[number % 3], routing_type=0)
        reader = broker.open()
        found = broker.reserve(reader, 0, parts=3)
        for size in (1 << 20, 300):
            self.assertEqual(broker.bodies(0, found.until, max_bytes=size), bodies)
        broker.settle_reader(reader, found.ends[0])
        self.assertEqual(broker.bodies(found.ends[0], found.until), bodies[-broker.q.message_count :])

    def test_a_filter_looks_through_pages(self) -> None:
        broker = StoredBroker()
        broker.make_queue("q")
        for number, body in enumerate(numbered(200)):
            broker.send(body, settle=False, properties={"n": (INT, number)})
        broker.settle()
        found = broker.reserve(broker.open(), 0)
        self.assertEqual(broker.bodies(0, found.until, filter="n = 150"), [b"000150"])

    def test_large_messages_in_pages(self) -> None:
        broker = StoredBroker()
        broker.make_queue("q")
        for number in range(5):
            body = broker.rig.store.create_large_body(broker.rig.store.next_id())
            body.append(b"%d" % number * 1000)
            body.complete()
            content = CoreMessage(address="q", durable=True, message_id=broker.rig.store.next_id())
            broker.messaging.sending.send(Message.of(content, body), "q", None, None, broker.context)
        broker.settle()
        reader = broker.open()
        found = broker.reserve(reader, 0)
        rows = broker.rows(0, found.until)
        self.assertEqual([body for _, body in rows], [b"%d" % number * 1000 for number in range(5)])
        broker.restart()
        bodies: list[Any] = []
        broker.messaging.readers.find_body(broker.q, rows[3][0], bodies.append, print)
        broker.settle()
        self.assertEqual(read_now(lambda: bodies[0].read(0, 5000)), b"3" * 1000)
        broker.messaging.readers.find_body(broker.q, rows[3][0] + 100_000, bodies.append, print)
        broker.settle()
        self.assertIsNone(bodies[1])
