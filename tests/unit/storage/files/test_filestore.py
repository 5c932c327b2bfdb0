"""The file store: what survives, when it is acknowledged, and what refuses a start."""

from __future__ import annotations

import errno
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase as TestCase

from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.files.filestore import ID_BLOCK
from mqbroker.storage.files.journal.journal import Journal
from mqclient.storageformat.frames import HEADER_SIZE, decode_segment_header, read_frames
from tests.unit.storage.support import BINDINGS, JOURNAL, Rig, ids


class IdTests(TestCase):
    def test_ids_go_on_after_an_orderly_stop(self) -> None:
        rig = Rig()
        rig.start()
        last = [rig.store.next_id() for _ in range(10)][-1]
        rig.restart()
        self.assertEqual(rig.store.next_id(), last + 1)

    def test_no_id_is_used_again_after_a_crash(self) -> None:
        """Not even one that was never written down."""
        rig = Rig()
        rig.start()
        for _ in range(5):
            last = max(rig.store.next_id() for _ in range(10))
            rig.crash()
            self.assertGreater(rig.store.next_id(), last)

    def test_the_next_block_is_asked_for_in_time(self) -> None:
        rig = Rig()
        rig.start()
        for _ in range(3 * ID_BLOCK // 2 + 10):
            last = rig.store.next_id()
            if not last & 0xFFFFF:
                rig.settle()
        rig.settle()
        self.assertGreater(last, ID_BLOCK)
        rig.crash()
        self.assertGreater(rig.store.next_id(), last)

    def test_one_turn_may_use_several_blocks(self) -> None:
        """What is stored under such an id is never on the disk without the block that the id is from."""
        with mock.patch("mqbroker.storage.files.filestore.ID_BLOCK", 16):
            for seed in range(20):
                rig = Rig(seed)
                rig.start()
                batch = rig.store.begin()
                for _ in range(100):
                    last = rig.store.next_id()
                batch.put_setting("kind", "key", str(last))
                rig.store.commit(batch)
                if seed % 2:
                    rig.settle()
                recovered = rig.crash()
                found = recovered.settings.get(("kind", "key"))
                self.assertEqual(found, str(last) if seed % 2 else found)
                if found is not None:
                    self.assertGreater(rig.store.next_id(), last)

    def test_ids_can_be_had_before_a_group_is_filled(self) -> None:
        with mock.patch("mqbroker.storage.files.filestore.ID_BLOCK", 16):
            rig = Rig()
            rig.start()
            rig.store.ensure_ids(200)
            ticket = rig.store.ticket()
            for _ in range(200):
                rig.store.next_id()
            self.assertEqual(rig.store.ticket(), ticket)

    def test_a_first_id_can_be_given(self) -> None:
        rig = Rig()
        store = rig.make()
        store.open()
        store.load(first_id=5000)
        self.assertEqual(store.next_id(), 5000)


class FailureTests(TestCase):
    def setUp(self) -> None:
        self.rig = Rig()
        self.rig.start()
        self.queue = self.rig.queue()
        self.acknowledged = self.rig.add(self.queue)
        self.rig.settle()

    def check_ended(self) -> None:
        rig = self.rig
        self.assertTrue(rig.store.failed)
        self.assertEqual(len(rig.failures), 1)
        synced = rig.store.synced
        called: list[int] = []
        rig.add(self.queue)
        rig.store.when_synced(rig.store.ticket(), called.append, 1)
        rig.store.when_synced(0, called.append, 2)
        rig.settle()
        self.assertEqual((called, rig.store.synced), ([], synced))
        self.assertLess(rig.store.synced, rig.store.ticket())

    def test_a_failure_of_the_store_itself_is_final(self) -> None:
        """Before a write and after one: a store that neither wrote nor failed would let everybody wait for ever."""
        for name in ("write_steps", "written"):
            self.setUp()

            def fails(*arguments: object) -> None:
                raise LookupError("nothing found")

            assert self.rig.store.pager is not None
            with mock.patch.object(self.rig.store.pager, name, fails), mock.patch.object(Journal, "_log") as log:
                self.rig.queue("other")
                called: list[int] = []
                self.rig.store.when_synced(self.rig.store.ticket(), called.append, 1)
                self.rig.settle()
            self.assertEqual((called, self.rig.failures), ([], ["LookupError: nothing found"]))
            log.failure.assert_called_once()
            self.check_ended()

    def test_a_failed_sync_is_final(self) -> None:
        """Also when the next sync would succeed, and for what was committed while it ran."""
        rig = self.rig
        rig.disk.fail("sync", OSError(errno.EIO, "broken"))
        called: list[int] = []
        rig.add(self.queue)
        rig.store.when_synced(rig.store.ticket(), called.append, 1)
        rig.clock.run_due()
        rig.add(self.queue)
        rig.store.when_synced(rig.store.ticket(), called.append, 2)
        rig.settle()
        self.assertEqual(called, [])
        self.assertIn("broken", rig.failures[0])
        self.check_ended()
        self.assertIn(self.acknowledged.message_id, ids(rig.crash()))

    def test_a_failed_sync_before_a_removal_is_final_too(self) -> None:
        """Without datasync nothing else was synced by then; a later sync would succeed and leave a hole."""
        for seed in range(10):
            rig = Rig(seed, journal_datasync=False, journal_file_size=2048, journal_compact_min_files=0)
            rig.start()
            queue = rig.queue()
            messages = [rig.add(queue, body=bytes(600)) for _ in range(6)]
            rig.settle()
            rig.disk.fail("sync", OSError(errno.EIO, "broken"))
            rig.acknowledge(queue, *messages[:3])
            rig.settle()
            self.assertEqual(rig.disk.failures, 1)
            self.assertIn("broken", rig.failures[0])
            rig.store.abort()
            rig.settle()
            rig.start()
            rig.crash()

    def test_what_a_failed_sync_left_in_memory_is_stored_by_the_next_start(self) -> None:
        """The process ends, its machine does not: the system takes those pages for written, and a later crash forgets them."""
        for seed in range(10):
            rig = Rig(seed)
            rig.start()
            queue = rig.queue()
            rig.settle()
            rig.disk.fail("sync", OSError(errno.EIO, "broken"))
            message = rig.add(queue)
            rig.settle()
            rig.disk.end_process()
            self.assertEqual(ids(rig.start()), [message.message_id])
            self.assertEqual(ids(rig.crash()), [message.message_id])

    def test_a_full_disk_is_final_and_loses_nothing(self) -> None:
        rig = self.rig
        rig.disk.capacity = (
            rig.disk.free_space("") * 0 + sum(rig.disk.size(f"{JOURNAL}/{name}") for name in rig.disk.list(JOURNAL)) + 20_000
        )
        acknowledged = [self.acknowledged.message_id]
        while not rig.store.failed:
            message = rig.add(self.queue, body=bytes(700))
            rig.store.when_synced(rig.store.ticket(), acknowledged.append, message.message_id)
            rig.settle()
        self.check_ended()
        self.assertGreater(len(acknowledged), 5)
        rig.disk.capacity = None
        recovered = ids(rig.crash())
        self.assertLessEqual(set(acknowledged), set(recovered))

    def test_a_failing_rename_is_final(self) -> None:
        rig = self.rig
        rig.disk.fail("rename", OSError(errno.EIO, "broken"))
        for _ in range(10):
            rig.add(self.queue, body=bytes(1000))
            rig.settle()
        self.check_ended()

    def test_a_file_that_cannot_be_removed_is_no_failure(self) -> None:
        rig = self.rig
        rig.disk.fail("remove", OSError(errno.EIO, "broken"))
        rig.acknowledge(self.queue, self.acknowledged)
        for _ in range(20):
            # Files that have grown are not used again.
            rig.acknowledge(self.queue, rig.add(self.queue, body=bytes(20_000)))
            rig.settle()
        self.assertEqual(rig.disk.failures, 1)
        self.assertFalse(rig.store.failed)
        self.assertEqual(ids(rig.crash()), [])

    def test_stop_after_a_failure_frees_the_folder(self) -> None:
        rig = self.rig
        rig.disk.fail("sync", OSError(errno.EIO, "broken"))
        rig.add(self.queue)
        rig.settle()
        rig.stop()
        self.assertEqual(rig.disk.locks, set())

    def test_a_failure_during_the_stop_still_ends_it(self) -> None:
        rig = self.rig
        rig.disk.fail("sync", OSError(errno.EIO, "broken"))
        rig.add(self.queue)
        rig.stop()
        self.assertEqual(len(rig.failures), 1)
        self.assertEqual(rig.disk.locks, set())

    def test_an_unreadable_file_refuses_the_start_and_frees_the_folder(self) -> None:
        rig = self.rig
        rig.stop()
        rig.make().open()
        rig.disk.fail("read", OSError(errno.EIO, "broken"), after=1)
        with self.assertRaises(OSError):
            rig.store.load()
        self.assertEqual(rig.disk.locks, set())


class DamageTests(TestCase):
    def setUp(self) -> None:
        self.rig = Rig(journal_compact_min_files=0)
        self.rig.start()
        self.queue = self.rig.queue()
        self.messages = []
        for number in range(30):
            self.messages.append(self.rig.add(self.queue, body=bytes([number]) * 500))
            self.rig.settle()
        self.segments = [f"{JOURNAL}/{name}" for name in self.rig.files()]
        self.assertGreater(len(self.segments), 3)

    def frames(self, path: str) -> list[tuple[int, int]]:
        data = self.rig.disk.read(path)
        return [(frame.offset, frame.end) for frame in read_frames(memoryview(data), decode_segment_header(data).seed)]

    def refused(self) -> JournalDamagedError:
        self.rig.make().open()
        with self.assertRaises(JournalDamagedError) as caught:
            self.rig.store.load()
        self.assertEqual(self.rig.disk.locks, set())
        return caught.exception

    def test_a_flipped_bit_in_a_closed_segment_refuses_the_start(self) -> None:
        self.rig.stop()
        path = self.segments[1]
        offset, end = self.frames(path)[2]
        self.rig.disk.flip_bit(path, end - 40)
        error = self.refused()
        self.assertEqual((error.file, error.offset), (path, offset))
        contained = [message.message_id for message in self.messages if bytes(message.buffer) in self.rig.disk.read(path)]
        self.assertTrue(set(error.message_ids) & {message.message_id for message in self.messages})
        self.assertGreater(len(error.message_ids), 2)
        self.assertTrue(contained)
        self.assertIn("mqbroker data recover", str(error))
        self.assertIn(str(offset), str(error))

    def test_any_flipped_bit_in_a_closed_segment_refuses_the_start(self) -> None:
        self.rig.stop()
        path = self.segments[1]
        _, end = self.frames(path)[-1]
        for offset in range(0, end, 97):
            self.rig.disk.flip_bit(path, offset, offset % 8)
            self.refused()
            self.rig.disk.flip_bit(path, offset, offset % 8)
        self.assertEqual(len(ids(self.rig.start())), 30)

    def test_damage_before_what_is_durable_in_the_last_segment_refuses_the_start(self) -> None:
        self.rig.disk.end_process()
        path = self.segments[-1]
        frames = self.frames(path)
        self.assertGreater(len(frames), 1)
        self.rig.disk.flip_bit(path, frames[0][1] - 1)
        error = self.refused()
        self.assertEqual((error.file, error.offset), (path, frames[0][0]))

    def test_damage_of_the_last_write_looks_like_a_torn_one(self) -> None:
        self.rig.disk.end_process()
        path = self.segments[-1]
        offset, end = self.frames(path)[-1]
        self.rig.disk.flip_bit(path, end - 1)
        recovered = self.rig.start()
        self.assertEqual(ids(recovered), [message.message_id for message in self.messages[:-1]])
        self.assertGreater(offset, HEADER_SIZE)

    def test_after_an_orderly_stop_the_last_message_is_safe_from_that(self) -> None:
        """The stop leaves a frame behind it, which says that everything before was durable."""
        path = self.segments[-1]
        _, end = self.frames(path)[-1]
        self.rig.stop()
        self.rig.disk.flip_bit(path, end - 1)
        self.assertEqual(self.refused().file, path)

    def test_a_missing_segment_refuses_the_start(self) -> None:
        self.rig.stop()
        self.rig.disk.remove(self.segments[1])
        error = self.refused()
        self.assertEqual(error.file, self.segments[1])
        self.assertIn("missing", str(error))

    def test_a_segment_under_another_name_refuses_the_start(self) -> None:
        self.rig.stop()
        self.rig.disk.rename(self.segments[2], self.segments[1])
        self.rig.disk.open(self.segments[2]).write(0, self.rig.disk.read(self.segments[1]))
        self.assertIn("under another name", str(self.refused()))

    def test_a_shortened_closed_segment_refuses_the_start(self) -> None:
        """Also when it was cut between two frames, so that every checksum is right."""
        self.rig.stop()
        path = self.segments[1]
        data = self.rig.disk.read(path)
        offset = self.frames(path)[2][0]
        self.rig.disk.remove(path)
        self.rig.disk.open(path).write(0, data[:offset])
        self.assertEqual(self.refused().offset, offset)

    def test_damaged_bindings_refuse_the_start(self) -> None:
        self.rig.restart()
        self.rig.stop()
        path = f"{BINDINGS}/{self.rig.files(BINDINGS)[0]}"
        self.rig.disk.flip_bit(path, HEADER_SIZE + 20)
        self.assertEqual(self.refused().file, path)

    def test_lost_bindings_refuse_the_start(self) -> None:
        """They would look like an empty journal, and every message like one whose queue was deleted."""
        self.rig.stop()
        for name in self.rig.files(BINDINGS):
            self.rig.disk.remove(f"{BINDINGS}/{name}")
        self.assertIn("more of them were durable", str(self.refused()))

    def test_segments_of_another_node_are_refused(self) -> None:
        self.rig.stop()
        self.rig.disk.open(f"{JOURNAL}/server.lock").write(3, bytes(16))
        self.assertIn("belongs to node", str(self.refused()))

    def test_a_refused_start_changes_nothing(self) -> None:
        self.rig.stop()
        self.rig.disk.flip_bit(self.segments[1], 200)
        before = {name: self.rig.disk.read(f"{JOURNAL}/{name}") for name in self.rig.files()}
        self.refused()
        self.assertEqual({name: self.rig.disk.read(f"{JOURNAL}/{name}") for name in self.rig.files()}, before)
