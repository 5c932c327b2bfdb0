"""A program that only reads a folder finds what the broker recovers from it, after any work, crash or damage."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from hypothesis.stateful import rule

from mqbroker.messaging.ports import Recovered
from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.files.recover import read_folder, salvage
from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.errors import Loss
from mqclient.storageformat.files import Files, folder_name, join
from mqclient.storageformat.frames import HEADER_SIZE, decode_segment_header, read_frames
from mqclient.storageformat.images import find_images
from mqclient.storageformat.replay import References
from mqclient.storageformat.replay_plain import replay_plain
from mqclient.storageformat.surviving import (
    Index,
    PlainPlaces,
    StoreFolders,
    index_of,
    salvaged_index,
    survivors_of,
    survivors_of_page,
)
from tests.support.disk import SimulatedCrash, SimulatedDisk
from tests.unit.storage.files import test_filestore_crashes as storage
from tests.unit.storage.make_fixture import FIXTURES, FOLDERS, fill_branches, fill_pages
from tests.unit.storage.support import BINDINGS, JOURNAL, PAGING, Rig

Found = dict[int, tuple[bytes, References, int, bytes | None]]
"""By message id: buffer, references, branch, large body."""


def folders_of(settings: StoreSettings) -> StoreFolders:
    return StoreFolders(
        settings.journal_directory, settings.bindings_directory, settings.large_messages_directory, settings.paging_directory
    )


def found_by(files: Files, folders: StoreFolders, index: Index) -> tuple[Found, list[Loss]]:
    """All messages of an index, and what could not be read."""
    found: Found = {}
    losses: list[Loss] = []
    survivors = [each for share in index.segments for each in survivors_of(files, share)]
    survivors += [each for page in index.pages for each in survivors_of_page(files, folders.paging or "", page)]
    for each in survivors:
        if isinstance(each, Loss):
            losses.append(each)
            continue
        record = each.record
        references = {each.references: (0, 0)} if isinstance(each.references, int) else each.references
        body = None if record.body_id is None else files.read(join(folders.large_messages, f"{record.body_id}.msg"), 0, record.body_size)
        assert record.message_id not in found, f"{record.message_id} twice"
        found[record.message_id] = (record.buffer, references, each.branch_id, body)
    return found, losses


def read_by_index(disk: Files, settings: StoreSettings) -> Found:
    folders = folders_of(settings)
    found, losses = found_by(disk, folders, index_of(disk, folders))
    assert not losses
    return found


def recovered_by_broker(recovered: Recovered) -> Found:
    found: Found = {}
    branches = [(entry, branch.record.branch_id) for branch in recovered.branches for entry in branch.messages]
    for (message, references), branch_id in [*((entry, 0) for entry in recovered.messages), *branches]:
        body = None if message.large is None else message.large.read(0, 1 << 20)
        table = {each.queue_id: (each.delivery_count, each.scheduled) for each in references}
        found[message.message_id] = (message.buffer, table, branch_id, body)
    return found


class StoreMachine(storage.StoreMachine):
    """The store's own test of crashes, looked at from outside at any moment."""

    def restarted(self, synced: int) -> None:
        disk, settings = self.rig.disk, self.rig.settings
        while True:
            before = read_by_index(disk, settings)
            try:
                recovered = self.rig.start()
                break
            except SimulatedCrash:
                disk.crash()
        expected = recovered_by_broker(recovered)
        assert before == expected
        assert read_by_index(disk, settings) == expected
        self.check(recovered, synced)
        self.adopt(recovered)

    @rule()
    def look(self) -> None:
        """While the store works: what is written now is what a start would find now."""
        assert read_by_index(self.rig.disk, self.rig.settings) == recovered_by_broker(read_folder(self.rig.disk, self.rig.settings))


class AgreementTests(TestCase):
    def test_after_any_work_and_crash(self) -> None:
        storage.run(StoreMachine, 40, 50)

    def test_journals_of_earlier_versions(self) -> None:
        for version in (1, 2, 3):
            rig = Rig()
            for name, folder in FOLDERS.items():
                there = FIXTURES / f"version-{version}" / name
                for file in there.iterdir() if there.is_dir() else ():
                    rig.disk.make_directory(folder)
                    rig.disk.open(f"{folder}/{file.name}").write(0, file.read_bytes())
            found = read_by_index(rig.disk, rig.settings)
            self.assertEqual(found, recovered_by_broker(read_folder(rig.disk, rig.settings)))
            large = [body for _, _, _, body in found.values() if body is not None]
            self.assertEqual(large, [b"large" * 100] * (3 if version == 3 else 1))
            self.assertEqual(sum(bool(branch_id) for _, _, branch_id, _ in found.values()), 1 if version > 1 else 0)

    def test_a_message_that_was_stored_for_one_queue_and_then_for_another_is_there_once(self) -> None:
        rig = Rig()
        rig.start()
        first, second = rig.queue("first"), rig.queue("second")
        message = rig.add(first)
        for queue in (second, first):
            batch = rig.store.begin()
            batch.add_message(message, [queue])
            rig.store.commit(batch)
        rig.settle()
        found = read_by_index(rig.disk, rig.settings)
        self.assertEqual(found, {message.message_id: (message.buffer, {first: (0, 0), second: (0, 0)}, 0, None)})
        rig.acknowledge(second, message)
        rig.settle()
        self.assertEqual(read_by_index(rig.disk, rig.settings)[message.message_id][1], {first: (0, 0)})

    def test_empty_folders(self) -> None:
        index = index_of(SimulatedDisk(Rig().rng), folders_of(Rig().settings))
        self.assertEqual((index.node_id, index.segments, index.pages), (None, [], []))


def make(**settings: Any) -> Rig:
    """A stopped store with segments, a branch, a large message, and pages."""
    rig = Rig(3, journal_file_size=2048, journal_compact_min_files=0, **settings)
    rig.start()
    queue = rig.queue()
    for number in range(20):
        message = rig.add(queue, body=bytes([number]) * 400)
        if number % 3 == 0:
            rig.acknowledge(queue, message)
        rig.settle()
    fill_branches(rig, queue)
    fill_pages(rig, bool(settings.get("compress_pages")))
    rig.stop()
    return rig


class DamageTests(TestCase):
    """Damage at every kind of place: the strict index refuses what a start refuses, the other one saves what the recovery saves."""

    def check(self, rig: Rig, strict: bool) -> None:
        folders = folders_of(rig.settings)
        if strict:
            with self.assertRaises(JournalDamagedError) as start:
                Rig.start(_on(rig))
            with self.assertRaises(JournalDamagedError) as reader:
                index_of(rig.disk, folders)
            self.assertEqual(str(reader.exception), str(start.exception))
        saved = salvage(rig.disk, rig.settings)
        found, losses = found_by(rig.disk, folders, index := salvaged_index(rig.disk, folders))
        self.assertEqual(found, recovered_by_broker(saved.recovered))
        # What is read twice, for the index and for the messages, is told twice; what the broker sums up is told piece by piece.
        told = {(loss.file, loss.offset, loss.reason) for loss in (*index.losses, *losses)}
        self.assertEqual(told, {(loss.file, loss.offset, loss.reason) for loss in saved.losses if loss.size})

    def places(self, rig: Rig, path: str) -> list[int]:
        data = rig.disk.read(path)
        frames = list(read_frames(memoryview(data), decode_segment_header(data).seed))
        return [position for frame in frames for position in (frame.offset, frame.offset + 5, frame.offset + 9, frame.end - 1)]

    def test_a_flipped_bit_in_a_closed_segment(self) -> None:
        rig = make()
        name = rig.files()[2]
        for position in (20, *self.places(rig, f"{JOURNAL}/{name}")):
            rig.disk.flip_bit(f"{JOURNAL}/{name}", position)
            self.check(rig, strict=True)
            rig.disk.flip_bit(f"{JOURNAL}/{name}", position)

    def test_a_flipped_bit_in_a_page(self) -> None:
        for compress in (False, True):
            rig = make(compress_pages=compress)
            folder = f"{PAGING}/{folder_name('paged')}"
            path = f"{folder}/{next(name for name in rig.disk.list(folder) if name.endswith('.page'))}"
            for position in self.places(rig, path):
                rig.disk.flip_bit(path, position)
                self.check(rig, strict=False)
                rig.disk.flip_bit(path, position)

    def test_a_page_is_missing_or_cut_off(self) -> None:
        rig = make()
        folder = f"{PAGING}/{folder_name('paged')}"
        path = f"{folder}/{next(name for name in rig.disk.list(folder) if name.endswith('.page'))}"
        data = rig.disk.read(path)
        rig.disk.remove(path)
        folders = folders_of(rig.settings)
        for content in (None, data[: HEADER_SIZE + 100], data[:10]):
            if content is not None:
                rig.disk.open(path).write(0, content)
            found, losses = found_by(rig.disk, folders, index_of(rig.disk, folders))
            self.assertEqual([loss.file for loss in losses], [path])
            self.assertNotIn(b"paged", b"".join(buffer for buffer, _, _, _ in found.values()))
            if content is not None:
                rig.disk.remove(path)

    def test_a_segment_is_missing_or_cut_off(self) -> None:
        rig = make()
        path = f"{JOURNAL}/{rig.files()[1]}"
        data = rig.disk.read(path)
        rig.disk.remove(path)
        with self.assertRaises(JournalDamagedError):
            index_of(rig.disk, folders_of(rig.settings))
        rig.disk.open(path).write(0, data[:700])
        self.check(rig, strict=True)

    def test_a_torn_tail_is_the_end(self) -> None:
        rig = make()
        path = f"{JOURNAL}/{rig.files()[-1]}"
        data = rig.disk.read(path)
        last = list(read_frames(memoryview(data), decode_segment_header(data).seed))[-1]
        for position in (last.offset, last.end - 1):
            rig.disk.flip_bit(path, position)
            self.assertEqual(read_by_index(rig.disk, rig.settings), recovered_by_broker(read_folder(rig.disk, rig.settings)))
            rig.disk.flip_bit(path, position)

    def test_bindings_are_lost(self) -> None:
        rig = make()
        rig.disk.remove(f"{BINDINGS}/{rig.files(BINDINGS)[-1]}")
        with self.assertRaises(JournalDamagedError):
            index_of(rig.disk, folders_of(rig.settings))

    def test_a_file_that_has_become_another_segment_is_no_damage(self) -> None:
        """As it happens while a broker works: the caller begins anew."""
        rig = make()
        index = index_of(rig.disk, folders_of(rig.settings))
        share = index.segments[0]
        rig.disk.remove(share.file.path)
        with self.assertRaises(OSError):
            list(survivors_of(rig.disk, share))
        rig.disk.open(share.file.path).write(0, rig.disk.read(index.segments[1].file.path))
        with self.assertRaises(OSError):
            list(survivors_of(rig.disk, share))

    def test_the_index_holds_no_content(self) -> None:
        rig = make()
        state = replay_plain(find_images(rig.disk, JOURNAL, BINDINGS), PlainPlaces(), buffers=False)
        held = [stored.record for stored in state.messages.values()]
        self.assertTrue(held)
        self.assertFalse(any(record.buffer for record in held))


def _on(rig: Rig) -> Rig:
    """Another process on a copy of the disk."""
    other = Rig(5, journal_file_size=2048, journal_compact_min_files=0)
    other.disk.replace(rig.disk.files())
    return other
