"""Segments that are trimmed when nothing in them is live."""

from __future__ import annotations

from unittest import TestCase, mock

from mqbroker.storage.files.journal.segments import SPARES_MAX
from mqclient.storageformat.files import TEMPORARY
from tests.support.disk import SimulatedFile
from tests.unit.storage.files.journal.test_compaction import started
from tests.unit.storage.support import BINDINGS, JOURNAL, ids


class TrimTests(TestCase):
    def test_dead_segments_go_without_compaction(self) -> None:
        rig, queue = started(journal_compact_min_files=0)
        for _ in range(100):
            rig.acknowledge(queue, rig.add(queue, body=bytes(500)))
            rig.settle()
        self.assertLessEqual(len(rig.files()), 2)

    def test_a_live_message_keeps_all_that_came_after_it(self) -> None:
        """Acknowledgements behind it may be what keeps others dead."""
        rig, queue = started(journal_compact_min_files=0)
        kept = rig.add(queue)
        for _ in range(100):
            rig.acknowledge(queue, rig.add(queue, body=bytes(500)))
            rig.settle()
        self.assertGreater(len(rig.files()), 10)
        self.assertEqual(ids(rig.restart()), [kept.message_id])
        rig.acknowledge(queue, rig.recovered[kept.message_id])
        rig.settle()
        self.assertLessEqual(len(rig.files()), 2)

    def test_nothing_is_removed_before_that_is_on_the_disk(self) -> None:
        rig, queue = started()
        messages = [rig.add(queue, body=bytes(1500)) for _ in range(10)]
        rig.settle()
        files = rig.files()
        rig.acknowledge(queue, *messages)
        while rig.clock.run_due():
            pass
        self.assertEqual(rig.files(), files)
        rig.settle()
        self.assertLess(len(rig.files()), len(files))

    def test_removed_files_that_a_crash_brings_back_are_ignored(self) -> None:
        rig, queue = started()
        messages = [rig.add(queue, body=bytes(1500)) for _ in range(10)]
        rig.settle()
        old = {name: rig.disk.read(f"{JOURNAL}/{name}") for name in rig.files()}
        rig.acknowledge(queue, *messages)
        rig.settle()
        rig.stop()
        back = sorted(set(old) - set(rig.files()))[0]
        rig.disk.open(f"{JOURNAL}/{back}").write(0, old[back])
        self.assertEqual(ids(rig.start()), [])
        self.assertNotIn(back, rig.files())

    def test_files_are_used_again(self) -> None:
        """Old files become new ones, also across crashes, and an orderly stop leaves none of them over."""

        def spare() -> int:
            return len([name for name in rig.disk.list(JOURNAL) if name.endswith(TEMPORARY)])

        rig, queue = started()
        for _ in range(200):
            rig.acknowledge(queue, rig.add(queue, body=bytes(300)))
            rig.settle()
        self.assertEqual(spare(), 1)
        rig.acknowledge(queue, *[rig.add(queue, body=bytes(300)) for _ in range(100)])
        kept = rig.add(queue)
        rig.settle()
        self.assertEqual(spare(), SPARES_MAX)
        self.assertEqual(ids(rig.crash()), [kept.message_id])
        for _ in range(20):
            rig.acknowledge(queue, rig.add(queue, body=bytes(300)))
            rig.settle()
        self.assertEqual(ids(rig.crash()), [kept.message_id])
        rig.stop()
        self.assertEqual(spare(), 0)

    def test_small_writes_to_a_new_file_have_zeros_written_ahead_of_them(self) -> None:
        """Their syncs then overwrite what was written before; large writes and files that are used again need none."""
        rig, queue = started(journal_file_size=400_000)
        writes: list[tuple[int, int, bool]] = []
        write = SimulatedFile.write

        def noted(file: SimulatedFile, offset: int, data: bytes) -> None:
            writes.append((offset, len(data), not any(data)))
            write(file, offset, data)

        with mock.patch.object(SimulatedFile, "write", noted):
            first = rig.add(queue)
            rig.settle()
            self.assertEqual(len(writes), 1)  # within the zeros of the very first frame
            second = rig.add(queue, body=bytes(270_000))
            rig.settle()
            third = rig.add(queue)
            rig.settle()
            (offset, size, _), zeros = writes[-2:]
            self.assertEqual(zeros, (offset + size, 400_000 - offset - size, True))
            fourth = rig.add(queue, body=bytes(270_000))
            rig.settle()
            self.assertEqual([size for _, size, empty in writes if empty], [zeros[1]])
            rig.acknowledge(queue, first, second, third)
            rig.settle()
            writes.clear()
            last = [rig.add(queue, body=bytes(size)) for size in (270_000, 10)]
            rig.settle()
            rig.settle()
            self.assertEqual(len(rig.files()), 2)
            self.assertEqual([size for _, size, empty in writes if empty], [])
        self.assertEqual(ids(rig.crash()), [message.message_id for message in (fourth, *last)])

    def test_restarts_do_not_pile_up_files(self) -> None:
        rig, queue = started()
        kept = rig.add(queue)
        for _ in range(40):
            self.assertEqual(ids(rig.restart()), [kept.message_id])
        self.assertLessEqual(len(rig.files()), rig.settings.journal_compact_min_files + 2)
        self.assertLessEqual(len(rig.files(BINDINGS)), rig.settings.journal_compact_min_files + 2)
