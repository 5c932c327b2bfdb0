"""Reading a folder without a broker, and saving what can be saved from a damaged one."""

from __future__ import annotations

import errno
import random
from dataclasses import replace
from unittest import TestCase, mock

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import AddressRecord, RecoveredReference
from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.files.recover import Salvage, read_folder, read_settings, refill, salvage, salvage_state
from mqclient.storageformat.frames import decode_segment_header, read_frames
from mqclient.storageformat.records import BindingGoneRecord, decode_records
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY, CoreMessage
from mqclient.wire.properties import LONG
from tests.support.disk import SECTOR
from tests.unit.messaging.paging_support import PagingBroker
from tests.unit.storage.support import BINDINGS, JOURNAL, LARGE, Rig, ids


def snapshot(rig: Rig) -> dict[str, bytes]:
    paths = [f"{folder}/{name}" for folder in (JOURNAL, BINDINGS, LARGE) for name in rig.disk.list(folder)]
    return {path: rig.disk.read(path) for path in paths}


class SalvageTests(TestCase):
    def setUp(self) -> None:
        self.rig = Rig(journal_compact_min_files=0)
        self.rig.start()
        self.queue = self.rig.queue()
        batch = self.rig.store.begin()
        batch.put_address(AddressRecord(self.rig.store.next_id(), "a", frozenset({1})))
        batch.put_setting("kind", "key", "{}")
        batch.add_duplicate_id("a", b"dup", self.rig.store.next_id())
        batch.add_duplicate_ids("a", 3, b"onetwo", self.rig.store.next_id())
        self.rig.store.commit(batch)
        self.messages = []
        for number in range(20):
            self.messages.append(self.rig.add(self.queue, body=bytes([number]) * 500))
            self.rig.settle()
        self.large = self.add_large(b"large" * 1000)
        self.rig.settle()
        self.sent = [message.message_id for message in self.messages] + [self.large.message_id]

    def add_large(self, content: bytes) -> Message:
        store = self.rig.store
        body = store.create_large_body(store.next_id())
        body.append(content)
        body.complete()
        message = Message.of(CoreMessage(message_id=store.next_id(), address="a", durable=True), body)
        batch = store.begin()
        batch.add_message(message, [self.queue])
        batch.delivery_count(self.queue, message, 3)
        batch.schedule(self.queue, message, 77)
        store.commit(batch)
        return message

    def segment(self, index: int) -> tuple[str, list[tuple[int, int]]]:
        """A file and its frames (offset, end)."""
        path = f"{JOURNAL}/{self.rig.files()[index]}"
        data = self.rig.disk.read(path)
        return path, [(each.offset, each.end) for each in read_frames(memoryview(data), decode_segment_header(data).seed)]

    def test_a_whole_folder_is_read_without_loss_and_left_as_it_is(self) -> None:
        self.rig.stop()
        before = snapshot(self.rig)
        saved = salvage(self.rig.disk, self.rig.settings)
        self.assertEqual((ids(saved.recovered), saved.losses), (self.sent, []))
        strict = read_folder(self.rig.disk, self.rig.settings)
        self.assertEqual(ids(strict), self.sent)
        for recovered in (saved.recovered, strict):
            body = recovered.messages[-1][0].large
            assert body is not None
            self.assertEqual(body.read(0, 10_000), b"large" * 1000)
        self.assertEqual(snapshot(self.rig), before)

    def test_a_flipped_bit_costs_what_is_in_its_frame_and_that_is_listed(self) -> None:
        self.rig.stop()
        path, frames = self.segment(1)
        for offset, end in frames:
            for position in (offset, offset + 5, offset + 9, offset + 14, end - 100):
                self.rig.disk.flip_bit(path, position)
                with self.assertRaises(JournalDamagedError):
                    read_folder(self.rig.disk, self.rig.settings)
                saved = salvage(self.rig.disk, self.rig.settings)
                (loss,) = saved.losses
                self.assertEqual((loss.file, loss.offset, loss.size), (path, offset, end - offset))
                lost = set(self.sent) - set(ids(saved.recovered))
                self.assertEqual(len(lost), 1)
                self.assertLessEqual(lost, set(loss.message_ids))
                self.rig.disk.flip_bit(path, position)

    def test_each_of_several_damaged_frames_is_listed(self) -> None:
        self.rig.stop()
        path, frames = self.segment(1)
        for position in (5, 9, 20):
            for damaged in (frames[:2], frames[1:4], frames):
                for offset, _ in damaged:
                    self.rig.disk.flip_bit(path, offset + position)
                saved = salvage(self.rig.disk, self.rig.settings)
                lost = set(self.sent) - set(ids(saved.recovered))
                self.assertEqual(len(lost), len(damaged))
                if position < 16:
                    self.assertLessEqual(lost, {message_id for loss in saved.losses for message_id in loss.message_ids})
                for offset, _ in damaged:
                    self.rig.disk.flip_bit(path, offset + position)

    def test_damage_in_the_last_segment(self) -> None:
        self.rig.disk.end_process()
        path, frames = self.segment(-1)
        self.assertGreater(len(frames), 1)
        self.rig.disk.flip_bit(path, frames[0][1] - 1)
        saved = salvage(self.rig.disk, self.rig.settings)
        self.assertEqual([(loss.file, loss.offset) for loss in saved.losses], [(path, frames[0][0])])
        self.assertEqual(len(ids(saved.recovered)), 20)

    def test_a_torn_last_write_is_no_loss(self) -> None:
        self.rig.disk.end_process()
        path, frames = self.segment(-1)
        self.rig.disk.flip_bit(path, frames[-1][1] - 1)
        saved = salvage(self.rig.disk, self.rig.settings)
        self.assertEqual((saved.losses, len(ids(saved.recovered))), ([], 20))

    def test_a_damaged_header_costs_nothing_but_is_told(self) -> None:
        self.rig.stop()
        path, _ = self.segment(1)
        self.rig.disk.flip_bit(path, 70)
        saved = salvage(self.rig.disk, self.rig.settings)
        self.assertEqual([(loss.file, loss.offset) for loss in saved.losses], [(path, 0)])
        self.assertEqual(ids(saved.recovered), self.sent)

    def test_frames_of_one_write_behind_a_damaged_one_are_read_when_their_end_is_lost(self) -> None:
        """The end of a segment stands in the header of the next one."""
        rig = Rig(journal_file_size=1 << 19)
        rig.start()
        queue = rig.queue()
        sent = [rig.add(queue, body=bytes(60_000)).message_id for _ in range(12)]
        rig.stop()
        path, following = (f"{JOURNAL}/{name}" for name in rig.files())
        data = rig.disk.read(path)
        frame = [*read_frames(memoryview(data), decode_segment_header(data).seed)][4]
        rig.disk.flip_bit(following, 70)
        rig.disk.flip_bit(path, frame.offset)
        saved = salvage(rig.disk, rig.settings)
        self.assertEqual([(loss.file, loss.offset) for loss in saved.losses], [(path, frame.offset), (following, 0)])
        (lost,) = set(sent) - set(ids(saved.recovered))
        self.assertEqual(saved.losses[0].message_ids, (lost,))

    def test_a_missing_segment_is_told(self) -> None:
        self.rig.stop()
        path, _ = self.segment(1)
        self.rig.disk.remove(path)
        saved = salvage(self.rig.disk, self.rig.settings)
        self.assertEqual([loss.file for loss in saved.losses], [path])
        self.assertLess(len(ids(saved.recovered)), 21)

    def test_the_oldest_segments_are_told_too(self) -> None:
        self.rig.stop()
        oldest = self.rig.files()[:2]
        for name in oldest:
            self.rig.disk.remove(f"{JOURNAL}/{name}")
        with self.assertRaisesRegex(JournalDamagedError, "missing"):
            read_folder(self.rig.disk, self.rig.settings)
        (loss,) = salvage(self.rig.disk, self.rig.settings).losses
        self.assertEqual((loss.file, loss.reason), (f"{JOURNAL}/{oldest[-1]}", "missing: the segments from 1 to 2"))

    def test_segments_that_are_not_needed_any_more_are_no_loss(self) -> None:
        rig = Rig()
        rig.start()
        queue = rig.queue()
        messages = [rig.add(queue, body=bytes(500)) for _ in range(20)]
        rig.acknowledge(queue, *messages[:10])
        rig.settle()
        self.assertNotIn("mqbroker-data-00000001.mqj", rig.files())
        rig.stop()
        saved = salvage(rig.disk, rig.settings)
        self.assertEqual((saved.losses, ids(saved.recovered)), ([], [each.message_id for each in messages[10:]]))

    def test_a_segment_cut_off_is_told(self) -> None:
        self.rig.stop()
        path, frames = self.segment(1)
        data = self.rig.disk.read(path)
        self.rig.disk.remove(path)
        self.rig.disk.open(path).write(0, data[: frames[2][1]])
        (loss,) = salvage(self.rig.disk, self.rig.settings).losses
        self.assertEqual((loss.file, loss.offset, loss.offset + loss.size), (path, frames[2][1], frames[-1][1]))

    def salvage_without(self, bad: str, first: int, end: int) -> Salvage:
        """Salvage on a disk that cannot read these bytes of a file, and so not the whole file."""
        read = self.rig.disk.read

        def fails(path: str, offset: int = 0, size: int = -1) -> bytes:
            if path == bad and offset < end and (size < 0 or offset + size > first):
                raise OSError(errno.EIO, "input/output error", path)
            return read(path, offset, size)

        with mock.patch.object(self.rig.disk, "read", fails):
            return salvage(self.rig.disk, self.rig.settings)

    def test_a_sector_that_cannot_be_read_costs_what_is_in_its_frames_and_that_is_listed(self) -> None:
        self.rig.stop()
        self.enterContext(mock.patch("mqclient.storageformat.files.UNREADABLE_PIECE", SECTOR))
        for index in (0, 1, -2):
            path, frames = self.segment(index)
            for sector in (1, 3, 5):
                first, end = sector * SECTOR, (sector + 1) * SECTOR
                hit = [frame for frame in frames if frame[0] < end and frame[1] > first]
                saved = self.salvage_without(path, first, end)
                (loss,) = saved.losses
                self.assertEqual((loss.file, loss.offset, loss.offset + loss.size), (path, hit[0][0], hit[-1][1]))
                self.assertEqual(len(set(self.sent) - set(ids(saved.recovered))), len(hit))

    def test_a_header_that_cannot_be_read_costs_no_other_file(self) -> None:
        self.rig.stop()
        self.enterContext(mock.patch("mqclient.storageformat.files.UNREADABLE_PIECE", SECTOR))
        for index in range(4):
            path, frames = self.segment(index)
            saved = self.salvage_without(path, 0, SECTOR)
            self.assertEqual({loss.file for loss in saved.losses}, {path})
            self.assertGreaterEqual(len(ids(saved.recovered)), len(self.sent) - len(frames))

    def test_a_file_of_which_nothing_can_be_read_costs_no_other(self) -> None:
        self.rig.stop()
        path, frames = self.segment(1)
        saved = self.salvage_without(path, 0, 1 << 20)
        self.assertEqual([loss.file for loss in saved.losses], [path])
        self.assertIn("cannot be read", saved.losses[0].reason)
        self.assertEqual(len(ids(saved.recovered)), len(self.sent) - len(frames))

    def test_a_file_that_is_no_segment_is_told(self) -> None:
        self.rig.stop()
        path, _ = self.segment(1)
        self.rig.disk.remove(path)
        self.rig.disk.open(path).write(0, b"nonsense")
        (loss,) = salvage(self.rig.disk, self.rig.settings).losses
        self.assertEqual(loss.file, path)
        self.assertIn("cut off", loss.reason)

    def test_a_lost_body_costs_its_message(self) -> None:
        self.rig.stop()
        (name,) = self.rig.disk.list(LARGE)
        self.rig.disk.remove(f"{LARGE}/{name}")
        saved = salvage(self.rig.disk, self.rig.settings)
        self.assertEqual([(loss.file, loss.message_ids) for loss in saved.losses], [(f"{LARGE}/{name}", (self.large.message_id,))])
        self.assertEqual(ids(saved.recovered), self.sent[:-1])

    def test_a_body_that_the_disk_cannot_read_costs_its_message(self) -> None:
        self.rig.stop()
        (name,) = self.rig.disk.list(LARGE)
        saved = self.salvage_without(f"{LARGE}/{name}", 3 * SECTOR, 4 * SECTOR)
        self.assertEqual([(loss.file, loss.message_ids) for loss in saved.losses], [(f"{LARGE}/{name}", (self.large.message_id,))])
        self.assertEqual(ids(saved.recovered), self.sent[:-1])

    def test_messages_whose_queue_is_lost_are_listed(self) -> None:
        self.rig.stop()
        path = f"{BINDINGS}/{self.rig.files(BINDINGS)[0]}"
        data = self.rig.disk.read(path)
        for frame in read_frames(memoryview(data), decode_segment_header(data).seed):
            self.rig.disk.flip_bit(path, frame.offset + 8)
        with self.assertRaisesRegex(JournalDamagedError, "more of them were durable"):
            read_folder(self.rig.disk, self.rig.settings)
        saved = salvage(self.rig.disk, self.rig.settings)
        self.assertEqual(ids(saved.recovered), [])
        self.assertEqual(saved.losses[-1].message_ids, tuple(self.sent))

    def test_so_they_are_where_the_bindings_lie_in_the_folder_of_the_journal(self) -> None:
        rig = Rig()
        rig.settings = replace(rig.settings, bindings_directory=f"{JOURNAL}/bindings")
        rig.start()
        sent = [rig.add(rig.queue()).message_id for _ in range(3)]
        rig.stop()
        path = f"{JOURNAL}/bindings/{rig.files(f'{JOURNAL}/bindings')[0]}"
        data = rig.disk.read(path)
        for frame in read_frames(memoryview(data), decode_segment_header(data).seed):
            rig.disk.flip_bit(path, frame.offset + 8)
        saved = salvage(rig.disk, rig.settings)
        self.assertEqual(ids(saved.recovered), [])
        self.assertEqual(saved.losses[-1].message_ids, tuple(sent))

    def test_what_was_saved_fills_a_new_folder(self) -> None:
        self.rig.stop()
        path, frames = self.segment(1)
        self.rig.disk.flip_bit(path, frames[0][1] - 100)
        saved = salvage(self.rig.disk, self.rig.settings)
        target = Rig(2)
        store = target.make()
        store.open(self.rig.store.node_id)
        store.load(saved.next_id)
        called: list[int] = []
        store.when_synced(refill(saved.recovered, store), called.append, 1)
        target.settle()
        self.assertEqual(called, [1])
        recovered = target.restart()
        self.assertEqual(ids(recovered), ids(saved.recovered))
        self.assertEqual(target.store.node_id, self.rig.store.node_id)
        self.assertEqual([queue.name for queue in recovered.queues], ["q"])
        self.assertEqual([address.name for address in recovered.addresses], ["a"])
        self.assertEqual(recovered.settings, {("kind", "key"): "{}"})
        self.assertEqual([entry.duplicate_id for entry in recovered.duplicate_ids], [b"dup", b"one", b"two"])
        large, references = recovered.messages[-1]
        assert large.large is not None
        self.assertEqual(large.large.read(0, 10_000), b"large" * 1000)
        self.assertEqual(references, [RecoveredReference(self.queue, 3, 77)])
        self.assertGreater(target.store.next_id(), max(self.sent))
        self.assertEqual(saved.node_id and saved.node_id.hex(), self.rig.store.node_id.replace("-", ""))

    def test_any_noise_is_survived(self) -> None:
        """Whatever is written anywhere into the files, salvage ends, and saves no message that was not sent."""
        self.rig.stop()
        rng = random.Random(5)
        contents = {message.message_id: message.buffer for message in (*self.messages, self.large)}
        paths = [f"{JOURNAL}/{name}" for name in self.rig.files()] + [f"{BINDINGS}/{name}" for name in self.rig.files(BINDINGS)]
        for _ in range(60):
            path = rng.choice(paths)
            offset = rng.randrange(self.rig.disk.size(path))
            self.rig.disk.open(path).write(offset, rng.randbytes(rng.choice((1, 4, 100, 1000))))
            for message, _ in salvage(self.rig.disk, self.rig.settings).recovered.messages:
                self.assertEqual(message.buffer, contents[message.message_id])


class SettingsTests(TestCase):
    def test_settings_are_read_without_the_messages(self) -> None:
        rig = Rig()
        rig.start()
        queue = rig.queue()
        batch = rig.store.begin()
        batch.put_setting("kind", "key", '"old"')
        batch.put_setting("kind", "gone", "1")
        rig.store.commit(batch)
        rig.add(queue)
        batch = rig.store.begin()
        batch.put_setting("kind", "key", '"new"')
        batch.delete_setting("kind", "gone")
        rig.store.commit(batch)
        rig.settle()
        self.assertEqual(read_settings(rig.disk, rig.settings), {("kind", "key"): '"new"'})


class LostQueueTests(TestCase):
    def test_of_two_queues_of_one_name_the_younger_is_there(self) -> None:
        """That the older one was deleted stands in a lost place."""
        rig = Rig()
        rig.start()
        old = rig.queue("q")
        lost = rig.add(old)
        rig.settle()
        batch = rig.store.begin()
        batch.delete_queue(old)
        rig.store.commit(batch)
        rig.settle()
        new = rig.queue("q")
        kept = rig.add(new)
        rig.settle()
        rig.stop()
        path = f"{BINDINGS}/{rig.files(BINDINGS)[0]}"
        data = rig.disk.read(path)
        (gone,) = (
            frame
            for frame in read_frames(memoryview(data), decode_segment_header(data).seed)
            if any(isinstance(record, BindingGoneRecord) for record in decode_records(frame.content))
        )
        rig.disk.flip_bit(path, gone.end - 1)
        saved = salvage(rig.disk, rig.settings)
        self.assertEqual([queue.queue_id for queue in saved.recovered.queues], [new])
        self.assertEqual(ids(saved.recovered), [kept.message_id])
        self.assertIn(lost.message_id, saved.losses[-1].message_ids)

    def test_a_message_that_keeps_another_queue_is_named_too(self) -> None:
        rig = Rig()
        rig.start()
        kept = rig.queue("kept")
        rig.settle()
        lost = rig.queue("lost")
        rig.settle()
        message = rig.add(kept, lost)
        rig.settle()
        other = rig.add(kept)
        rig.settle()
        rig.restart()
        rig.stop()
        for name in rig.files(BINDINGS):
            path = f"{BINDINGS}/{name}"
            if b'"lost"' in (data := rig.disk.read(path)):
                rig.disk.flip_bit(path, data.index(b'"lost"') + 2)
        rig.disk.crash()
        saved = salvage_state(rig.disk, rig.settings)
        self.assertEqual(saved.without_queue, [message.message_id])
        self.assertEqual(sorted(saved.state.messages), [message.message_id, other.message_id])


class PageTests(TestCase):
    def test_a_message_in_a_page_keeps_its_time(self) -> None:
        """The store is told of a schedule only when that is no longer what the message itself says."""
        broker = PagingBroker()
        broker.make_queue("q")
        due = broker.rig.clock.wall_ms() + 5000
        broker.send(b"at once")
        broker.send(b"later", properties={KEY_SCHEDULED_DELIVERY: (LONG, due)})
        broker.settle()
        found = read_folder(broker.rig.disk, broker.rig.settings).messages
        self.assertEqual([reference.scheduled for _, references in found for reference in references], [0, due])
