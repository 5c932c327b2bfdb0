"""Folders of a store: their creation, their lock, and what refuses a start."""

from __future__ import annotations

import errno
import uuid

from twisted.trial.unittest import SynchronousTestCase as TestCase

from mqbroker.storage.disk.nodelock import STATE_ACTIVE, STATE_PAUSED
from mqbroker.storage.errors import FencedError, ForeignJournalError, StorageError, StoreLockedError
from mqbroker.storage.files.folders import JOURNAL_MARK, MARK
from tests.unit.storage.support import BINDINGS, JOURNAL, Rig, ids, settings


class FolderTests(TestCase):
    def test_new_folders_are_there_after_a_crash_with_what_was_stored_in_them(self) -> None:
        for seed in range(10):
            rig = Rig(seed)
            rig.start()
            queue = rig.queue()
            message = rig.add(queue)
            rig.settle()
            self.assertEqual(ids(rig.crash()), [message.message_id])

    def test_a_second_broker_is_refused(self) -> None:
        rig = Rig()
        rig.start()
        first = rig.store
        with self.assertRaisesRegex(StoreLockedError, "another broker uses this folder"):
            rig.make().open()
        self.assertFalse(first.failed)

    def test_the_folder_is_free_after_stop_and_after_abort(self) -> None:
        rig = Rig()
        rig.start()
        rig.stop()
        rig.start()
        rig.store.abort()
        rig.settle()
        rig.start()

    def test_abort_writes_nothing(self) -> None:
        rig = Rig()
        rig.start()
        queue = rig.queue()
        rig.settle()
        called: list[int] = []
        rig.add(queue)
        rig.store.when_synced(rig.store.ticket(), called.append, 1)
        operations = rig.disk.operations
        synced = rig.store.synced
        self.assertLess(synced, rig.store.ticket())
        rig.store.abort()
        rig.settle()
        self.assertEqual((called, rig.disk.operations), ([], operations))
        self.assertEqual(rig.disk.open_files, 0)
        self.assertEqual(ids(rig.start()), [])

    def test_a_start_that_is_given_up_leaves_the_folder_as_it_was(self) -> None:
        rig = Rig()
        rig.start()
        queue = rig.queue()
        message = rig.add(queue)
        rig.stop()
        before = rig.disk.files()
        for write_begins in (False, True):
            store = rig.make()
            store.open()
            store.load()
            rig.queue("deployed")
            if write_begins:
                store.flush()
            store.withdraw()
            rig.settle()
            self.assertEqual(rig.disk.files(), before)
            self.assertEqual((rig.disk.locks, rig.disk.open_files), (set(), 0))
        self.assertEqual(ids(rig.start()), [message.message_id])

    def test_a_start_whose_store_fails_leaves_the_folder_as_it_was_unless_it_may_be_another_brokers(self) -> None:
        rig = Rig()
        rig.start()
        message = rig.add(rig.queue())
        rig.stop()
        before = rig.disk.files()
        for error in (OSError(errno.EIO, "broken"), FencedError("the lock is lost")):
            store = rig.make()
            store.open()
            store.load()
            store.fail(error)
            store.withdraw()
            rig.settle()
            new = rig.disk.files().keys() - before.keys()
            self.assertEqual(bool(new), isinstance(error, FencedError), new)
            self.assertEqual((rig.disk.locks, rig.disk.open_files), (set(), 0))
        self.assertEqual(ids(rig.start()), [message.message_id])

    def test_on_a_full_disk_refused_starts_take_no_room(self) -> None:
        for missing in (1, 4096, 8192 - 1):
            rig = Rig()
            rig.start()
            message = rig.add(rig.queue())
            rig.stop()
            before = rig.disk.files()
            rig.disk.capacity = rig.disk.used + 8192 - missing
            for _ in range(3):
                with self.assertRaisesRegex(OSError, "no space"):
                    rig.start()
                self.assertEqual(rig.disk.files(), before)
                self.assertEqual((rig.disk.locks, rig.disk.open_files), (set(), 0))
            rig.disk.capacity = None
            self.assertEqual(ids(rig.start()), [message.message_id])

    def test_what_somebody_may_have_been_told_of_stays_when_a_start_is_given_up(self) -> None:
        rig = Rig()
        rig.start()
        rig.add(rig.queue())
        rig.settle()
        rig.store.withdraw()
        rig.settle()
        self.assertEqual(len(ids(rig.start())), 1)

    def test_stop_writes_what_is_left_and_calls_those_who_wait(self) -> None:
        rig = Rig()
        rig.start()
        queue = rig.queue()
        message = rig.add(queue)
        called: list[str] = []
        rig.store.when_synced(rig.store.ticket(), called.append, "stored")
        rig.store.stop(lambda: called.append("stopped"))
        rig.settle()
        self.assertEqual(called, ["stored", "stopped"])
        self.assertEqual(rig.disk.open_files, 0)
        self.assertEqual(ids(rig.start()), [message.message_id])

    def test_a_store_that_was_only_opened_can_be_stopped(self) -> None:
        rig = Rig()
        rig.make().open()
        rig.stop()
        self.assertEqual(rig.disk.locks, set())

    def test_server_lock_has_state_and_node_id(self) -> None:
        """Byte 0 the state, two zeros as text, 16 bytes of node id."""
        rig = Rig()
        rig.start()
        node = uuid.UUID(rig.store.node_id).bytes
        self.assertEqual(rig.disk.read(f"{JOURNAL}/server.lock"), STATE_ACTIVE + b"00" + node)
        rig.stop()
        self.assertEqual(rig.disk.read(f"{JOURNAL}/server.lock"), STATE_PAUSED + b"00" + node)
        rig.start()
        self.assertEqual(uuid.UUID(rig.store.node_id).bytes, node)
        rig.crash()
        self.assertEqual(uuid.UUID(rig.store.node_id).bytes, node)

    def test_the_lock_file_may_be_elsewhere(self) -> None:
        rig = Rig(lock_directory="/elsewhere")
        rig.start()
        self.assertIn("server.lock", rig.disk.list("/elsewhere"))
        self.assertNotIn("server.lock", rig.disk.list(JOURNAL))

    def test_a_lost_server_lock_is_made_anew_with_the_same_node_id(self) -> None:
        rig = Rig()
        rig.start()
        node_id = rig.store.node_id
        rig.stop()
        rig.disk.remove(f"{JOURNAL}/server.lock")
        rig.start()
        self.assertEqual(rig.store.node_id, node_id)

    def test_an_empty_folder_takes_the_node_id_it_is_given(self) -> None:
        rig = Rig()
        wanted = str(uuid.UUID(int=77))
        rig.make().open(wanted)
        self.assertEqual(rig.store.node_id, wanted)

    def test_a_real_artemis_journal_is_left_alone(self) -> None:
        for directory, name in ((JOURNAL, "activemq-data-1.amq"), (BINDINGS, "activemq-bindings-2.bindings")):
            rig = Rig()
            rig.disk.open(f"{directory}/{name}").close()
            operations = rig.disk.operations
            with self.assertRaisesRegex(ForeignJournalError, "artemis data exp.*mqbroker data imp"):
                rig.make().open()
            self.assertEqual((rig.disk.operations, rig.disk.list(directory)), (operations, [name]))

    def test_artemis_finds_a_journal_that_it_cannot_read(self) -> None:
        """Artemis reads files by their suffix, and a version of 1 or 2 in the first four bytes; it removes those below 16 bytes."""
        for directory, suffix in ((JOURNAL, ".amq"), (BINDINGS, ".bindings")):
            rig = Rig()
            rig.start()
            (name,) = (name for name in rig.disk.list(directory) if name.endswith(suffix))
            path = f"{directory}/{name}"
            self.assertEqual(len(rig.disk.read(path)), 4096)
            self.assertNotIn(int.from_bytes(rig.disk.read(path, 0, 4), "big"), (1, 2))
            rig.add(rig.queue())
            rig.crash()
            rig.stop()
            before = rig.disk.files()
            rig.make().open()
            rig.stop()
            self.assertEqual(rig.disk.files()[path], before[path])

    def test_a_mark_that_a_crash_has_left_empty_is_written_again(self) -> None:
        rig = Rig()
        rig.disk.open(f"{JOURNAL}/{JOURNAL_MARK}").close()
        rig.start()
        self.assertEqual(rig.disk.read(f"{JOURNAL}/{JOURNAL_MARK}"), MARK)

    def test_a_mark_that_artemis_has_made_longer_stays(self) -> None:
        rig = Rig()
        file = rig.disk.open(f"{JOURNAL}/{JOURNAL_MARK}")
        file.write(0, MARK + bytes(100))
        file.close()
        rig.start()
        self.assertEqual(rig.disk.size(f"{JOURNAL}/{JOURNAL_MARK}"), len(MARK) + 100)

    def test_a_missing_folder_is_an_error_where_it_may_not_be_created(self) -> None:
        with self.assertRaisesRegex(StorageError, "create-bindings-dir"):
            Rig(create_bindings_directory=False).make().open()
        with self.assertRaisesRegex(StorageError, "create-journal-dir"):
            Rig(create_journal_directory=False).make().open()

    def test_impossible_settings_are_refused(self) -> None:
        for changes in (
            {"journal_file_size": 10},
            {"bindings_file_size": 1 << 31},
            {"journal_compact_percentage": 101},
            {"journal_compact_min_files": -1},
        ):
            with self.assertRaises(ValueError):
                settings(**changes)
