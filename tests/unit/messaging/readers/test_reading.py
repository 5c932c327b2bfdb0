"""Readers of messages in pages: read without being kept, settled page by page, the same after a restart."""

from __future__ import annotations

from unittest import TestCase, mock

from mqbroker.messaging.delivery.transaction import Transaction
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY
from mqclient.wire.properties import LONG
from tests.support.clock import FakeClock
from tests.unit.messaging.paging_support import ALWAYS, PagingBroker, Taker, numbered, unread
from tests.unit.messaging.readers.stored import StoredBroker, xid

MIXED = {"#": {**ALWAYS, "max_size_messages": 20, "max_size_bytes": -1}}
"""The first twenty messages stay in memory."""


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
        ids = [message.message_id for message in unread(broker.core.queues["q"])]
        self.assertEqual(ids, sorted(ids))

    def test_messages_that_come_into_memory_are_read_once(self) -> None:
        """A place that is kept holds what was read from a page and not given yet."""
        broker = StoredBroker({"#": ALWAYS})
        broker.make_queue("q")
        for body in numbered(5):
            broker.send(body)
        reader = broker.open()
        given = broker.reserve(reader, 0)
        rows = broker.rows(0, given.until)
        self.assertEqual(broker.rows(0, rows[1][0]), rows[:2])
        # Without any reader messages keep their ids when they come into memory.
        broker.messaging.readers.remove(broker.q, reader.name)
        Taker(broker, broker.q, room=1)
        self.assertGreater(broker.q.references.count, 2)
        self.assertEqual(broker.rows(rows[1][0], given.until), rows[2:])
