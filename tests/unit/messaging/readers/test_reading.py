"""Readers of messages in pages: read without being kept, settled page by page, the same after a restart."""

from __future__ import annotations

from typing import Any
from unittest import TestCase, mock

from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.message.message import Message
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY, CoreMessage
from mqclient.wire.properties import INT, LONG
from tests.support.clock import FakeClock
from tests.unit.messaging.paging_support import ALWAYS, PagingBroker, Taker, numbered
from tests.unit.messaging.readers.stored import StoredBroker, xid

MIXED = {"#": {**ALWAYS, "max_size_messages": 20, "max_size_bytes": -1}}
"""The first twenty messages stay in memory."""


def filled(count: int = 300, settings: dict[str, dict[str, Any]] | None = None) -> StoredBroker:
    broker = StoredBroker(settings)
    broker.make_queue("q")
    for body in numbered(count):
        broker.send(body, settle=False)
    broker.settle()
    return broker


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
        self.assertEqual(bodies[0].read(0, 5000), b"3" * 1000)
        broker.messaging.readers.find_body(broker.q, rows[3][0] + 100_000, bodies.append, print)
        broker.settle()
        self.assertIsNone(bodies[1])


class LateTests(TestCase):
    """What becomes visible late goes behind what was handed out, also in pages and after a restart."""

    def check(self, broker: StoredBroker, count: int, late: list[bytes]) -> None:
        reader = broker.open("check")
        found = broker.reserve(reader, 0)
        rows = broker.rows(0, found.until)
        self.assertEqual([body for _, body in rows], [*numbered(count), *late])
        self.assertEqual([number for number, _ in rows], sorted({number for number, _ in rows}))

    def test_transactions(self) -> None:
        for settings in (None, MIXED, {}):
            broker = StoredBroker(settings)
            broker.make_queue("q")
            transaction = Transaction()
            broker.send(b"late", transaction=transaction)
            for body in numbered(40):
                broker.send(body)
            reader = broker.open()
            first = broker.reserve(reader, 0)
            broker.messaging.settlement.commit(transaction, broker.context)
            broker.settle()
            self.assertEqual(broker.bodies(0, first.until), numbered(40))
            self.check(broker, 40, [b"late"])
            broker.restart()
            self.assertEqual(broker.bodies(0, first.until), numbered(40))
            self.check(broker, 40, [b"late"])

    def test_prepared_branches(self) -> None:
        for settings in (None, MIXED, {}):
            broker = StoredBroker(settings)
            broker.make_queue("q")
            branch = broker.branches.start(xid(1), "owner")
            broker.send(b"late", transaction=branch.transaction)
            broker.branches.prepare(xid(1))
            for body in numbered(40):
                broker.send(body)
            reader = broker.open()
            first = broker.reserve(reader, 0)
            broker.restart()
            broker.branches.commit(xid(1), False, broker.context)
            broker.settle()
            self.assertEqual(broker.bodies(0, first.until), numbered(40))
            self.check(broker, 40, [b"late"])
            broker.crash()
            self.check(broker, 40, [b"late"])
            self.assertEqual(broker.q.message_count, 41)

    def test_scheduled_messages(self) -> None:
        for settings in (None, MIXED, {}):
            for restart in (None, StoredBroker.restart, StoredBroker.crash):
                broker = StoredBroker(settings)
                broker.make_queue("q")
                due = broker.rig.clock.wall_ms() + 5000
                broker.send(b"late", properties={KEY_SCHEDULED_DELIVERY: (LONG, due)})
                for body in numbered(40):
                    broker.send(body)
                reader = broker.open()
                first = broker.reserve(reader, 0)
                self.assertEqual(broker.bodies(0, first.until), numbered(40))
                if restart is not None:
                    restart(broker)
                broker.advance(6)
                self.assertEqual(broker.bodies(0, first.until), numbered(40), (settings, restart))
                broker.advance(6)
                self.check(broker, 40, [b"late"])

    def test_scheduled_messages_that_become_due_while_the_broker_is_away(self) -> None:
        """They are not settled with what was handed out before."""
        real = FakeClock.wall_ms
        for settings in (None, MIXED, {}):
            for restart in (StoredBroker.restart, StoredBroker.crash):
                broker = StoredBroker(settings)
                broker.make_queue("q")
                due = broker.rig.clock.wall_ms() + 5000
                broker.send(b"late", properties={KEY_SCHEDULED_DELIVERY: (LONG, due)})
                for body in numbered(40):
                    broker.send(body)
                reader = broker.open()
                first = broker.reserve(reader, 0)
                self.assertEqual(broker.bodies(0, first.until), numbered(40))
                broker.settle_reader(reader, first.until)
                with mock.patch.object(FakeClock, "wall_ms", lambda clock: real(clock) + 60_000):
                    restart(broker)
                    broker.advance(6)
                    following = broker.reserve(broker.open(), first.until)
                    self.assertEqual(broker.bodies(first.until, following.until), [b"late"], (settings, restart))

    def test_what_was_due_before_there_was_a_reader_keeps_its_id(self) -> None:
        """Also when the clock of the broker that starts again is behind."""
        for settings in ({}, MIXED):
            for restart in (StoredBroker.restart, StoredBroker.crash):
                broker = StoredBroker(settings)
                broker.make_queue("q")
                broker.send(b"due", properties={KEY_SCHEDULED_DELIVERY: (LONG, broker.rig.clock.wall_ms() + 1000)})
                broker.advance(2)
                reader = broker.open()
                rows = broker.rows(0, broker.reserve(reader, 0).until)
                self.assertEqual([body for _, body in rows], [b"due"])
                restart(broker)
                self.assertEqual(broker.rows(0, rows[0][0]), rows, (settings, restart))

    def test_pages_ascend_without_readers_too(self) -> None:
        """So that a reader that comes later finds them in order."""
        broker = PagingBroker()
        broker.make_queue("q")
        transaction = Transaction()
        broker.send(b"late", transaction=transaction)
        for body in numbered(20):
            broker.send(body)
        broker.messaging.settlement.commit(transaction, broker.context)
        broker.settle()
        ids = [message.message_id for message in broker.core.queues["q"].pages.unread()]
        self.assertEqual(ids, sorted(ids))
