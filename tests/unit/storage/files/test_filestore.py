"""The file store: what survives, when it is acknowledged, and what refuses a start."""

from __future__ import annotations

import errno
import uuid
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase as TestCase

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import AddressRecord, QueueRecord, RecoveredDuplicateId, RecoveredReference
from mqbroker.storage.disk.nodelock import STATE_ACTIVE, STATE_PAUSED
from mqbroker.storage.errors import ForeignJournalError, JournalDamagedError, StorageError, StoreLockedError
from mqbroker.storage.files.filestore import ID_BLOCK
from mqbroker.storage.files.journal.journal import LATE_WRITE_SECONDS, Journal
from mqclient.storageformat.files import TEMPORARY
from mqclient.storageformat.frames import HEADER_SIZE, decode_segment_header, read_frames
from mqclient.wire.message import CoreMessage, encode_message
from tests.unit.storage.support import BINDINGS, JOURNAL, Rig, ids, make_message, settings


class RecoveryTests(TestCase):
    def test_everything_comes_back(self) -> None:
        rig = Rig()
        rig.start()
        store = rig.store
        batch = store.begin()
        address = AddressRecord(store.next_id(), "orders.ä", frozenset({0, 1}), auto_created=True)
        queue = QueueRecord(
            store.next_id(), "q", "orders.ä", 0, "color = 'red'", {"exclusive": True, "max-consumers": 3, "user": None, "g": "x"}
        )
        batch.put_address(address)
        batch.put_queue(queue)
        other = QueueRecord(store.next_id(), "other", "orders.ä", 1)
        batch.put_queue(other)
        batch.put_setting("address-settings", "orders.#", '{"a":1}')
        batch.add_duplicate_id("orders.ä", b"\x00one", store.next_id())
        batch.add_duplicate_id("orders.ä", b"two", store.next_id())
        first = make_message(store, b"first", "orders.ä")
        both = make_message(store, b"both", "orders.ä")
        batch.add_message(first, [queue.queue_id])
        batch.add_message(both, [queue.queue_id, other.queue_id])
        batch.delivery_count(queue.queue_id, both, 7)
        batch.schedule(other.queue_id, both, 1_800_000_000_000)
        store.commit(batch)
        for recovered in (rig.restart(), rig.crash(), rig.restart()):
            self.assertEqual(recovered.addresses, [address])
            self.assertEqual(recovered.queues, [queue, other])
            self.assertEqual(recovered.settings, {("address-settings", "orders.#"): '{"a":1}'})
            self.assertEqual(
                [(entry.cache, entry.duplicate_id) for entry in recovered.duplicate_ids], [("orders.ä", b"\x00one"), ("orders.ä", b"two")]
            )
            self.assertEqual(ids(recovered), [first.message_id, both.message_id])
            for before, (after, _) in zip((first, both), recovered.messages, strict=True):
                self.assertEqual((after.buffer, after.headers, after.address), (before.buffer, before.headers, before.address))
            self.assertEqual(recovered.messages[0][1], [RecoveredReference(queue.queue_id)])
            self.assertEqual(
                recovered.messages[1][1],
                [RecoveredReference(queue.queue_id, 7), RecoveredReference(other.queue_id, 0, 1_800_000_000_000)],
            )

    def test_what_is_done_with_does_not_come_back(self) -> None:
        rig = Rig()
        rig.start()
        store = rig.store
        queue, other = rig.queue("q"), rig.queue("other")
        one, shared, kept = rig.add(queue), rig.add(queue, other), rig.add(queue)
        record_id = store.next_id()
        batch = store.begin()
        batch.acknowledge(queue, one)
        batch.acknowledge(queue, shared)
        batch.add_duplicate_id("a", b"gone", record_id)
        batch.put_setting("users", "bob", "{}")
        batch.put_address(AddressRecord(900, "gone", frozenset({1})))
        store.commit(batch)
        batch = store.begin()
        batch.delete_duplicate_id(record_id)
        batch.delete_setting("users", "bob")
        batch.delete_address(900)
        store.commit(batch)
        recovered = rig.restart()
        self.assertEqual(ids(recovered), [shared.message_id, kept.message_id])
        self.assertEqual(recovered.messages[0][1], [RecoveredReference(other)])
        self.assertEqual((recovered.duplicate_ids, recovered.settings, recovered.addresses), ([], {}, []))
        (message, _) = recovered.messages[0]
        rig.acknowledge(other, message)
        self.assertEqual(ids(rig.restart()), [kept.message_id])

    def test_messages_of_a_deleted_queue_are_gone(self) -> None:
        rig = Rig()
        rig.start()
        queue, other = rig.queue("q"), rig.queue("other")
        rig.add(queue)
        shared = rig.add(queue, other)
        batch = rig.store.begin()
        batch.delete_queue(queue)
        rig.store.commit(batch)
        rig.settle()
        recovered = rig.restart()
        self.assertEqual(
            [(message.message_id, refs) for message, refs in recovered.messages], [(shared.message_id, [RecoveredReference(other)])]
        )

    def test_more_references_can_be_added_later(self) -> None:
        rig = Rig()
        rig.start()
        queue, other = rig.queue("q"), rig.queue("other")
        message = rig.add(queue)
        batch = rig.store.begin()
        batch.add_message(message, [other])
        batch.acknowledge(queue, message)
        rig.store.commit(batch)
        recovered = rig.restart()
        self.assertEqual(recovered.messages[0][1], [RecoveredReference(other)])

    def test_an_address_that_differs_from_the_one_in_the_message_survives(self) -> None:
        rig = Rig()
        rig.start()
        queue = rig.queue()
        encoded = encode_message(CoreMessage(address="from.the.client", durable=True))
        batch = rig.store.begin()
        batch.add_message(Message.received(encoded, rig.store.next_id(), "a"), [queue])
        batch.add_message(Message.received(encode_message(CoreMessage()), rig.store.next_id(), "b\ud800"), [queue])
        rig.store.commit(batch)
        recovered = rig.restart()
        self.assertEqual([message.address for message, _ in recovered.messages], ["a", "b\ud800"])

    def test_duplicate_ids_come_oldest_first_whatever_was_moved(self) -> None:
        rig = Rig(journal_compact_min_files=1, journal_compact_percentage=100)
        rig.start()
        queue = rig.queue()
        for number in range(10):
            batch = rig.store.begin()
            batch.add_duplicate_id("a", b"%d" % number, rig.store.next_id())
            rig.store.commit(batch)
            rig.acknowledge(queue, rig.add(queue, body=bytes(1500)))
            rig.settle()
        recovered = rig.restart()
        self.assertEqual([entry.duplicate_id for entry in recovered.duplicate_ids], [b"%d" % number for number in range(10)])
        self.assertIsInstance(recovered.duplicate_ids[0], RecoveredDuplicateId)


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


class OrderOfWritesTests(TestCase):
    """What reaches the disk first, seen by an observer."""

    def test_the_observer_sees_every_byte(self) -> None:
        """A copy made of what the observer was told is a folder that recovers the same."""
        rig = Rig()
        store = rig.make()
        store.open()
        store.load()
        copy: dict[str, bytearray] = {path: bytearray(rig.disk.read(path)) for path in self.paths(rig)}

        class Observer:
            def written(self, path: str, offset: int, data: bytes | bytearray) -> None:
                file = copy.setdefault(path, bytearray())
                file.extend(bytes(max(0, offset + len(data) - len(file))))
                file[offset : offset + len(data)] = data

            def removed(self, path: str) -> None:
                del copy[path]

        store.observe(Observer())
        queue = rig.queue()
        for _ in range(20):
            message = rig.add(queue, body=bytes(1000))
            rig.settle()
            rig.acknowledge(queue, message)
        body = store.create_large_body(store.next_id())
        body.append(b"abc")
        body.append(b"def")
        body.complete()
        rig.settle()
        self.assertEqual(sorted(copy), self.paths(rig))
        for path in self.paths(rig):
            self.assertEqual(copy[path], rig.disk.read(path)[: len(copy[path])])

    @staticmethod
    def paths(rig: Rig) -> list[str]:
        found = []
        for directory in (JOURNAL, BINDINGS, rig.settings.large_messages_directory):
            found += [f"{directory}/{name}" for name in rig.disk.list(directory) if "lock" not in name and not name.endswith(TEMPORARY)]
        return sorted(found)


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
