"""Group commits of the journal, and the order of its writes."""

from __future__ import annotations

from unittest import mock

from twisted.trial.unittest import SynchronousTestCase as TestCase

from mqbroker.storage.files.journal.journal import LATE_WRITE_SECONDS, SOON_MAX
from tests.support.disk import SimulatedFile
from tests.unit.storage.files.journal.test_compaction import started
from tests.unit.storage.support import Rig, ids, make_message


class GroupCommitTests(TestCase):
    def setUp(self) -> None:
        self.rig = Rig()
        self.rig.start()
        self.queue = self.rig.queue()
        self.rig.settle()

    def test_nothing_is_acknowledged_before_the_sync(self) -> None:
        rig = self.rig
        called: list[int] = []
        rig.add(self.queue)
        rig.store.when_synced(rig.store.ticket(), called.append, 1)
        before = rig.store.synced
        rig.clock.run_due()
        self.assertEqual((rig.writer.waiting, called, rig.store.synced), (1, [], before))
        rig.writer.run()
        self.assertEqual((called, rig.store.synced), ([1], rig.store.ticket()))

    def test_one_write_per_turn_and_one_under_way(self) -> None:
        """While one write runs the next batch gathers, however large, and follows at once."""
        rig = self.rig
        for _ in range(5):
            rig.add(self.queue)
        rig.clock.run_due()
        self.assertEqual(rig.writer.waiting, 1)
        for _ in range(300):
            rig.add(self.queue, body=bytes(1000))
        rig.clock.run_due()
        self.assertEqual(rig.writer.waiting, 1)
        self.assertGreater(rig.store.backlog, 300_000)
        rig.writer.run_one()
        self.assertEqual(rig.writer.waiting, 1)
        rig.writer.run_one()
        self.assertEqual((rig.store.synced, rig.store.backlog), (rig.store.ticket(), 0))

    def test_flush_does_not_wait_for_the_turn(self) -> None:
        self.rig.add(self.queue)
        self.rig.store.flush()
        self.assertEqual(self.rig.writer.waiting, 1)
        self.assertFalse(self.rig.clock.run_due())

    def test_the_loop_makes_the_frame_of_a_small_write_that_comes_next(self) -> None:
        """A greater one, and one behind other work of the disk thread, is left to the thread."""
        rig, queue = started(journal_file_size=400_000)
        rig.settle()
        with mock.patch.object(SimulatedFile, "write_soon", autospec=True, side_effect=SimulatedFile.write_soon) as soon:
            for size, busy, made in ((10, False, 1), (SOON_MAX, False, 1), (10, True, 1), (10, False, 2)):
                rig.add(queue, body=bytes(size))
                if busy:
                    rig.writer.submit([lambda: None], lambda error: None)
                rig.store.flush()
                self.assertEqual(soon.call_count, made)
                rig.settle()
        self.assertEqual(len(ids(rig.crash())), 4)

    def test_a_waiter_that_raises_does_not_keep_the_others(self) -> None:
        rig = self.rig
        called: list[int] = []
        rig.add(self.queue)
        rig.store.when_synced(rig.store.ticket(), lambda: 1 // 0)
        rig.store.when_synced(rig.store.ticket(), called.append, 1)
        rig.settle()
        self.assertEqual(called, [1])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_acknowledgements_share_a_write_with_what_comes_next(self) -> None:
        rig = self.rig
        first, second = rig.add(self.queue), rig.add(self.queue)
        rig.settle()
        rig.acknowledge(self.queue, first)
        rig.store.flush()
        rig.clock.run_due()
        self.assertEqual((rig.writer.waiting, rig.store.synced), (0, rig.store.ticket() - 1))
        third = rig.add(self.queue)
        rig.store.flush()
        self.assertEqual(rig.writer.waiting, 1)
        rig.writer.run_one()
        self.assertEqual(rig.store.synced, rig.store.ticket())
        self.assertEqual(ids(rig.crash()), [second.message_id, third.message_id])

    def test_acknowledgements_that_nobody_waits_for_are_written_soon(self) -> None:
        rig = self.rig
        message = rig.add(self.queue)
        rig.settle()
        rig.acknowledge(self.queue, message)
        rig.clock.advance(LATE_WRITE_SECONDS / 2)
        self.assertEqual(rig.writer.waiting, 0)
        rig.clock.advance(LATE_WRITE_SECONDS)
        self.assertEqual(rig.writer.waiting, 1)
        rig.writer.run_one()
        self.assertEqual(rig.store.synced, rig.store.ticket())

    def test_acknowledgements_that_somebody_waits_for_are_written_at_once(self) -> None:
        rig = self.rig
        message = rig.add(self.queue)
        rig.settle()
        called: list[int] = []
        rig.acknowledge(self.queue, message)
        rig.store.when_synced(rig.store.ticket(), called.append, 1)
        rig.clock.run_due()
        self.assertEqual(rig.writer.waiting, 1)
        rig.writer.run_one()
        self.assertEqual(called, [1])

    def test_acknowledgements_during_a_write_are_written_soon_after_it(self) -> None:
        rig = self.rig
        message = rig.add(self.queue)
        rig.settle()
        rig.add(self.queue)
        rig.store.flush()
        rig.acknowledge(self.queue, message)
        rig.writer.run_one()
        self.assertEqual((rig.writer.waiting, rig.store.synced), (0, rig.store.ticket() - 1))
        rig.clock.advance(LATE_WRITE_SECONDS)
        rig.writer.run_one()
        self.assertEqual(rig.store.synced, rig.store.ticket())

    def test_work_that_a_waiter_causes_is_written_too(self) -> None:
        rig = self.rig
        message = rig.add(self.queue)
        rig.store.when_synced(rig.store.ticket(), rig.acknowledge, self.queue, message)
        rig.settle()
        self.assertEqual(ids(rig.crash()), [])

    def test_an_uncommitted_batch_changes_nothing(self) -> None:
        rig = self.rig
        kept = rig.add(self.queue)
        batch = rig.store.begin()
        batch.acknowledge(self.queue, kept)
        batch.add_message(make_message(rig.store), [self.queue])
        self.assertEqual(ids(rig.restart()), [kept.message_id])
