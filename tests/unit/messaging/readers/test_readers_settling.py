"""Settling in steps: a crash at any moment leaves a settled beginning, and the next start goes on."""

from __future__ import annotations

from typing import Any
from unittest import TestCase, mock

from mqbroker.messaging.queues.reader import Reader
from mqbroker.messaging.readers.readers import SETTLED_TOGETHER
from mqbroker.messaging.turns import steps
from tests.unit.messaging.paging_support import ALWAYS, Taker, numbered
from tests.unit.messaging.readers.stored import StoredBroker, bodies_of

COUNT = 4 * SETTLED_TOGETHER


def filled(settings: dict[str, dict[str, Any]]) -> StoredBroker:
    broker = StoredBroker(settings)
    broker.make_queue("q")
    for body in numbered(COUNT):
        broker.send(body, settle=False)
    broker.settle()
    return broker


class CrashTests(TestCase):
    def crash_after(self, settings: dict[str, dict[str, Any]], number: int) -> int:
        """Crash when so many things have happened after the request; returns how many messages the next start finds in the journal."""
        broker = filled(settings)
        reader = broker.open()
        found = broker.reserve(reader, 0)
        broker.settle_reader(reader, found.until, wait=False)
        broker.messaging.core.turn.end()
        for _ in range(number):
            if not broker.rig.clock.run_due():
                broker.rig.writer.run_one()
        broker.crash()
        found_again = len(broker.rig.recovered)
        again = broker.open()
        self.assertIn(again.settled, (0, found.until))
        if again.settled:
            self.assertEqual((broker.q.message_count, broker.page_files()), (0, []))
        else:
            self.assertEqual(broker.bodies(0, again.reserved), numbered(COUNT))
            broker.settle_reader(again, again.reserved)
            self.assertEqual(broker.q.message_count, 0)
        broker.restart()
        self.assertEqual((broker.q.message_count, broker.rig.failures), (0, []))
        return found_again

    def test_in_memory(self) -> None:
        with mock.patch.object(steps, "SCANNED_MAX", SETTLED_TOGETHER):
            left = {self.crash_after({}, number) for number in range(10)}
        self.assertTrue({COUNT, 0} < left, left)

    def test_in_pages(self) -> None:
        for number in range(0, 12, 3):
            self.crash_after({"#": ALWAYS}, number)

    def test_it_takes_several_turns(self) -> None:
        """Others come first in between."""
        broker = filled({})
        reader = broker.open()
        found = broker.reserve(reader, 0)
        batches: list[int] = []
        commit = broker.rig.store.commit

        def counted(batch: Any) -> int:
            batches.append(len(batch.changes))
            return commit(batch)

        broker.rig.store.commit = counted  # type: ignore[method-assign]
        broker.settle_reader(reader, found.until)
        self.assertLessEqual(max(batches), SETTLED_TOGETHER)
        self.assertEqual(sum(batches), COUNT + 1)


class SharedTests(TestCase):
    def test_readers_of_pages_settle_for_themselves(self) -> None:
        broker = filled({"#": ALWAYS})
        fast, slow = broker.open("fast"), broker.open("slow")
        found = broker.reserve(fast, 0)
        broker.settle_reader(fast, found.until)
        self.assertEqual(broker.q.message_count, COUNT)
        part = broker.reserve(slow, 0, messages=COUNT // 2)
        self.assertEqual(broker.bodies(0, part.until), numbered(COUNT // 2))
        broker.settle_reader(slow, part.until)
        self.assertEqual(broker.q.message_count, COUNT // 2)
        broker.restart()
        slow = broker.open("slow")
        rest = broker.reserve(slow, slow.settled)
        self.assertEqual(broker.bodies(slow.settled, rest.until), numbered(COUNT // 2, COUNT // 2))
        broker.messaging.readers.remove(broker.q, "slow")
        broker.settle()
        self.assertEqual((broker.q.message_count, broker.page_files()), (0, []))

    def test_consumers_get_what_a_removed_reader_has_left(self) -> None:
        broker = filled({"#": ALWAYS})
        reader = broker.open()
        found = broker.reserve(reader, 0, messages=700)
        broker.settle_reader(reader, found.until)
        broker.messaging.readers.remove(broker.q, "r")
        broker.settle()
        self.assertEqual(Taker(broker, broker.q).drain(), numbered(COUNT - 700, 700))
        self.assertEqual(broker.page_files(), [])

    def test_a_queue_that_is_deleted_takes_its_readers_along(self) -> None:
        broker = filled({})
        reader = broker.open()
        found = broker.reserve(reader, 0)
        broker.messaging.readers.settle(broker.q, "r", reader.epoch, found.until, lambda ticket: None, print)
        broker.messaging.administration.delete_queue(broker.q)
        broker.settle()
        broker.restart()
        broker.make_queue("q")
        self.assertEqual(list(broker.messaging.readers.all()), [])
        self.assertEqual(broker.open().epoch, 1)


class BeginningTests(TestCase):
    """What is gone when a reader is made was not promised to it, and is not lost to it."""

    def read(self, broker: StoredBroker, reader: Reader) -> tuple[bool, list[bytes]]:
        found = broker.reserve(reader, reader.settled)
        block = broker.messaging.readers.read(broker.q, found.after, found.until, 1 << 20, None)
        return block.lost, [body for _, body in bodies_of(block.rows)]

    def test_another_reader_begins_behind_what_the_others_have_settled(self) -> None:
        broker = StoredBroker()
        broker.make_queue("q")
        for body in numbered(20):
            broker.send(body)
        first = broker.open()
        broker.settle_reader(first, broker.reserve(first, 0, messages=5).until)
        self.assertEqual(self.read(broker, broker.open("second")), (False, numbered(15, 5)))
        self.assertEqual(self.read(broker, broker.open("third")), (False, numbered(15, 5)))
        broker.restart()
        self.assertEqual(self.read(broker, broker.open("fourth")), (False, numbered(15, 5)))

    def test_what_consumers_took_out_of_order_before(self) -> None:
        broker = StoredBroker({"#": {**ALWAYS, "max_size_messages": 100, "max_size_bytes": -1}})
        broker.make_queue("q")
        for body in numbered(20):
            broker.send(body)
        broker.reserve(None, 0)
        log = broker.q.log
        assert log is not None
        for reference in log.index.between(0, 1 << 62, 20)[9:10]:
            broker.q.take(reference)
            broker.q.leave_delivery(reference)
            broker.core.let_go(reference)
        self.assertEqual(self.read(broker, broker.open()), (False, numbered(9) + numbered(10, 10)))
