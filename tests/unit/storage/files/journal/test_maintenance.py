"""Compaction goes on in small steps and ends."""

from __future__ import annotations

from unittest import TestCase, mock

from mqbroker.storage.files.journal.compaction import STEP_BYTES, STEP_RECORDS
from tests.unit.storage.files.journal.test_compaction import started
from tests.unit.storage.support import BINDINGS, ids


class MaintenanceTests(TestCase):
    def test_one_turn_moves_a_bounded_number(self) -> None:
        """A million live messages do not stop the loop: each written batch brings one step of the compaction."""
        rig, queue = started(journal_file_size=256 * 1024, journal_compact_min_files=1, journal_compact_percentage=60)
        messages = [rig.add(queue, body=b"") for _ in range(6000)]
        rig.settle()
        first = rig.files()[0]
        rig.acknowledge(queue, *(message for message in messages if message.message_id % 4))
        rig.settle()
        with mock.patch.object(rig.disk, "write", wraps=rig.disk.write) as write:
            rig.acknowledge(queue, rig.add(queue, body=bytes(260_000)))
            rig.settle()
        written = [len(call.args[3]) for call in write.call_args_list if any(call.args[3])]  # not the zeros ahead of what is written
        self.assertNotIn(first, rig.files())
        steps = [size for size in written if size < 260_000]
        self.assertGreater(len(steps), 1500 // STEP_RECORDS)
        self.assertLess(max(steps), STEP_BYTES + 4096)
        self.assertEqual(ids(rig.restart()), [message.message_id for message in messages if message.message_id % 4 == 0])

    def test_bindings_are_compacted(self) -> None:
        rig, _ = started(bindings_file_size=1024, journal_compact_min_files=3, journal_compact_percentage=50)
        for number in range(300):
            batch = rig.store.begin()
            batch.put_setting("kind", "key", f"{number}")
            rig.store.commit(batch)
            rig.settle()
        self.assertLessEqual(len(rig.files(BINDINGS)), 6)
        recovered = rig.restart()
        self.assertEqual(recovered.settings, {("kind", "key"): "299"})
        self.assertEqual([queue.name for queue in recovered.queues], ["q"])

    def test_it_comes_to_an_end_whatever_the_percentage(self) -> None:
        rig, queue = started(journal_compact_min_files=1, journal_compact_percentage=100)
        kept = [rig.add(queue, body=bytes(900)).message_id for _ in range(50)]
        rig.settle()
        self.assertEqual(ids(rig.restart()), kept)
