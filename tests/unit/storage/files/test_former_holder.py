"""A folder that a second broker takes while the first one still writes, as when NFS loses a lock: what the first does is without effect."""

from __future__ import annotations

import random
from collections.abc import Callable
from unittest import TestCase

from mqbroker.messaging.ports import Recovered
from mqbroker.storage.disk.epoch import Epoch
from mqbroker.storage.errors import FencedError
from mqbroker.storage.files.filestore import FORMER_IDS, FileStore
from tests.support.clock import FakeClock
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter
from tests.unit.storage.support import BINDINGS, JOURNAL, LARGE, PAGING, Rig, ids

NODE = "01234567-89ab-4cde-8f01-23456789abcd"


class TakenFolder:
    """A claim without locks: whoever opens the folder has it."""

    def __init__(self, epoch: Epoch) -> None:
        self.node_id = NODE
        self.check = epoch.check
        self.left: list[str] = []
        self.when_activated: Callable[[], object] = lambda: None
        self._epoch = epoch

    @property
    def token(self) -> str:
        return self._epoch.token

    @property
    def epoch(self) -> int:
        return self._epoch.number

    def owns(self, node_id: str) -> bool:
        return node_id == self.node_id

    def open(self, missing: Callable[[], str]) -> None:
        self._epoch.begin()

    def activated(self) -> None:
        self.when_activated()

    def withdraw(self) -> None:
        self.check()

    def leave(self) -> None:
        self.check()
        self.left.append("in order")

    def release(self) -> None: ...


class Holder(Rig):
    """One of several brokers on one disk."""

    def __init__(self, disk: SimulatedDisk, seed: int) -> None:
        super().__init__(seed, journal_file_size=1024, bindings_file_size=1024)
        self.disk = disk

    def make(self) -> FileStore:
        self.clock = FakeClock()
        self.writer = SimulatedDiskWriter()
        self.claim = TakenFolder(Epoch(self.disk, JOURNAL, self.rng.randbytes))
        self.store = self.store_class(
            self.settings, self.disk, self.writer, self.clock, self.rng.randbytes, self.failures.append, self.claim
        )
        return self.store

    def work(self, queue_id: int, count: int, size: int = 300) -> list[int]:
        """Hand over messages; gives the list that gets the ids of those that are durable."""
        done: list[int] = []
        for _ in range(count):
            message = self.add(queue_id, body=bytes(size))
            self.store.when_synced(self.store.last, done.append, message.message_id)
        self.store.flush()
        return done

    def large(self, queue_id: int) -> None:
        body = self.store.create_large_body(self.store.next_id())
        body.append(bytes(500))
        body.complete()


class FormerHolderTests(TestCase):
    def setUp(self) -> None:
        self.disk = SimulatedDisk(random.Random(1))
        for path in (JOURNAL, BINDINGS, LARGE, PAGING):
            self.disk.make_directory(path)
        self.first = self.started(1)
        self.queue = self.first.queue()
        self.first.settle()

    def started(self, seed: int) -> Holder:
        holder = Holder(self.disk, seed)
        self.recovered: Recovered = holder.start()
        return holder

    def test_what_it_writes_is_not_acknowledged_and_it_ends(self) -> None:
        second = self.started(2)
        done = self.first.work(self.queue, 1)
        self.first.settle()
        self.assertEqual((done, self.first.store.failed), ([], True))
        self.assertIn("another broker has taken this folder", self.first.failures[0])
        self.assertFalse(second.store.failed)

    def test_it_does_not_note_an_orderly_end(self) -> None:
        self.started(2)
        self.first.store.stop(lambda: None)
        self.first.settle()
        self.assertEqual(self.first.claim.left, [])

    def test_the_new_holder_has_ids_of_its_own(self) -> None:
        before = self.first.store.next_id()
        second = self.started(2)
        self.assertGreaterEqual(second.store.next_id(), before + FORMER_IDS)

    def test_wherever_it_was_held_up_nothing_of_the_new_holder_suffers(self) -> None:
        """Its write begins several segments; it goes on after any of its steps, when the new holder has begun as many."""
        held_up = 0
        while True:
            self.setUp()
            done = self.first.work(self.queue, 12)
            self.first.queue("another")
            self.first.store.flush()
            steps, report = self.first.writer._batches.popleft()
            for step in steps[:held_up]:
                step()
            if held_up == len(steps):
                report(None)
            acknowledged = list(done)
            second = self.started(2)
            self.assertLessEqual(set(acknowledged), set(ids(self.recovered)))
            kept = second.work(self.queue, 12)
            second.settle()
            self.assertEqual(len(kept), 12)
            error: Exception | None = None
            try:
                for step in steps[held_up:]:
                    step()
            except Exception as failure:
                error = failure
            if held_up < len(steps):
                report(error)
            self.first.settle()
            self.assertEqual(done, acknowledged)
            more = second.work(self.queue, 3)
            second.settle()
            third = self.started(3)
            self.assertLessEqual({*acknowledged, *kept, *more}, set(ids(self.recovered)))
            self.assertFalse(third.store.failed)
            if held_up == len(steps):
                break
            self.assertIsNotNone(error, f"held up after {held_up} of {len(steps)} steps")
            held_up += 1
        self.assertGreater(held_up, 10)

    def test_a_segment_that_it_publishes_at_the_last_moment_replaces_none(self) -> None:
        """It has made sure of its epoch before the new holder came, and goes on when that one has published its own."""
        self.first.work(self.queue, 12)
        steps, _ = self.first.writer._batches.popleft()
        names = [getattr(getattr(step, "func", step), "__name__", "") for step in steps]
        published = names.index("_publish")
        for step in steps[:published]:
            step()
        second = Holder(self.disk, 2)
        store = second.make()
        second.claim.when_activated = lambda: self.assertRaises(FileExistsError, steps[published])
        store.open()
        store.load()
        kept = second.work(self.queue, 3)
        second.settle()
        self.started(3)
        self.assertLessEqual(set(kept), set(ids(self.recovered)))
        self.assertEqual(len(kept), 3)

    def test_a_file_that_it_has_open_is_not_used_again(self) -> None:
        """Its next write would go into a segment of the new holder."""
        message = self.first.add(self.queue)
        self.first.settle()
        self.first.add(self.queue, body=bytes(700))
        self.first.store.flush()
        second = self.started(2)
        second.acknowledge(self.queue, second.recovered[message.message_id])
        kept = [*second.work(self.queue, 30)]
        second.settle()
        late = second.work(self.queue, 30)
        second.settle()
        self.first.settle()
        self.assertTrue(self.first.store.failed)
        self.started(3)
        self.assertLessEqual({*kept, *late}, set(ids(self.recovered)))

    def test_a_start_that_is_overtaken_takes_nothing_back_that_the_other_has_read(self) -> None:
        second = Holder(self.disk, 2)
        store = second.make()
        store.open()
        store.load()
        third = self.started(3)
        kept = third.work(self.queue, 1)
        third.settle()
        second.store.withdraw()
        second.settle()
        self.started(4)
        self.assertEqual(ids(self.recovered), kept)

    def test_a_start_that_is_overtaken_before_it_reads_touches_nothing_of_the_other(self) -> None:
        """Bodies that the other one writes while the journal is read are named by nothing that was read."""
        late = Holder(self.disk, 3)
        late.make().open(NODE)
        second = self.started(2)
        second.work(self.queue, 2)
        second.large(self.queue)
        second.settle()
        before = self.disk.files()
        with self.assertRaises(FencedError):
            late.store.load()
        self.assertTrue(before == self.disk.files())

    def test_a_start_that_is_overtaken_calls_nothing_damaged(self) -> None:
        late = Holder(self.disk, 3)
        late.make().open(NODE)
        self.started(2)
        newest = max(path for path in self.disk.files() if path.startswith(JOURNAL) and path.endswith(".mqj"))
        self.disk.flip_bit(newest, 3)  # as if it was read in the middle of a write
        with self.assertRaises(FencedError):
            late.store.load()

    def test_bodies_of_a_later_holder_are_no_orphans(self) -> None:
        second = self.started(2)
        second.large(self.queue)
        second.settle()
        names = self.disk.list(LARGE)
        self.assertEqual(len(names), 1)
        self.first.store._bodies.remove_orphans((), self.first.store._own_ids)
        self.assertEqual(self.disk.list(LARGE), names)
