"""What is saved of damaged folders with pages, and that every message is named that is not."""

from __future__ import annotations

import errno
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.ports import Recovered
from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.files.recover import read_folder, salvage, salvage_state
from mqclient.storageformat.files import folder_name
from mqclient.storageformat.frames import HEADER_SIZE, decode_segment_header, encode_frame, read_frames
from mqclient.storageformat.page_messages import claimed_ids
from tests.support.disk import SECTOR
from tests.unit.messaging.paging_support import ALWAYS, PagingBroker, Taker
from tests.unit.storage.support import JOURNAL, Rig

PAGING = "/data/paging"


def ids(recovered: Recovered) -> set[int]:
    return {message.message_id for message, _ in recovered.messages}


class SalvageTests(SynchronousTestCase):
    def make(self, **settings: bool) -> None:
        rig = Rig(1, journal_file_size=2048, journal_compact_min_files=0, **settings)
        self.broker = PagingBroker({"#": {**ALWAYS, "page_size_bytes": 1200}}, rig=rig)
        for name in ("s1", "s2"):
            self.broker.make_queue(name, "t", 0)
        for number in range(60):
            body = b"x" * 4000 if number % 20 == 7 else b"%06d" % number * 8
            self.broker.send(body, "t", routing_type=0, durable=number != 30)
        taker = Taker(self.broker, self.broker.core.queues["s1"], room=20)
        self.acknowledged = len(taker.acknowledge(10))
        taker.roll_back()
        self.broker.messaging.stop()
        self.broker.rig.stop()
        self.disk, self.settings = self.broker.rig.disk, self.broker.rig.settings
        self.before = ids(read_folder(self.disk, self.settings))

    def frames(self, path: str) -> list[tuple[int, int]]:
        data = self.disk.read(path)
        return [(each.offset, each.end) for each in read_frames(memoryview(data), decode_segment_header(data).seed)]

    def check_journal(self) -> int:
        """Flip bits in every frame of the journal; returns how often messages were lost."""
        lossy = 0
        for name in self.broker.rig.files():
            path = f"{JOURNAL}/{name}"
            for offset, end in self.frames(path):
                for position in (offset + 5, (offset + end) // 2, end - 1):
                    self.disk.flip_bit(path, position)
                    saved = salvage(self.disk, self.settings)
                    lost = self.before - ids(saved.recovered)
                    self.assertLessEqual(lost, {each for loss in saved.losses for each in loss.message_ids}, (name, offset, position))
                    lossy += bool(lost)
                    self.disk.flip_bit(path, position)
        return lossy

    def test_lost_records_about_pages_name_the_messages(self) -> None:
        self.make()
        self.assertGreater(self.check_journal(), 10)

    def test_so_they_do_in_packed_pages(self) -> None:
        self.make(compress_pages=True)
        self.assertGreater(self.check_journal(), 10)

    def test_lost_acknowledgements_name_the_messages_that_come_again(self) -> None:
        self.make()
        found: set[int] = set()
        for name in self.broker.rig.files():
            path = f"{JOURNAL}/{name}"
            for _, end in self.frames(path):
                self.disk.flip_bit(path, end - 1)
                found.update(each for loss in salvage(self.disk, self.settings).losses for each in loss.message_ids)
                self.disk.flip_bit(path, end - 1)
        self.assertGreater(self.acknowledged, 5)
        self.assertLessEqual(set(sorted(self.before)[: self.acknowledged]), found)

    def test_the_whole_folder_has_no_losses(self) -> None:
        self.make()
        saved = salvage_state(self.disk, self.settings)
        self.assertEqual((saved.losses, saved.without_page), ([], []))

    def test_a_damaged_place_of_a_page_names_its_messages(self) -> None:
        self.make()
        lossy = 0
        for name in self.broker.page_files():
            path = f"{PAGING}/{folder_name('t')}/{name}"
            for offset, end in self.frames(path):
                for position in (offset + 1, offset + 9, end - 1):
                    self.disk.flip_bit(path, position)
                    saved = salvage(self.disk, self.settings)
                    lost = self.before - ids(saved.recovered)
                    (loss,) = saved.losses
                    self.assertEqual((loss.file, loss.offset, loss.size), (path, offset, end - offset))
                    lossy += bool(lost)
                    self.assertLessEqual(lost, set(loss.message_ids))
                    with self.assertRaises(JournalDamagedError) as refused:
                        read_folder(self.disk, self.settings)
                    self.assertEqual(refused.exception.message_ids, loss.message_ids)
                    self.disk.flip_bit(path, position)
        self.assertGreater(lossy, 50)

    def test_a_sector_of_a_page_that_cannot_be_read_costs_what_is_in_its_frames(self) -> None:
        self.make()
        bad = max((f"{PAGING}/{folder_name('t')}/{name}" for name in self.broker.page_files()), key=lambda path: len(self.frames(path)))
        read = self.disk.read

        def fails(path: str, offset: int = 0, size: int = -1) -> bytes:
            if path == bad and offset < 2 * SECTOR and (size < 0 or offset + size > SECTOR):
                raise OSError(errno.EIO, "input/output error", path)
            return read(path, offset, size)

        hit = [frame for frame in self.frames(bad) if frame[0] < 2 * SECTOR and frame[1] > SECTOR]
        self.assertLess(len(hit), len(self.frames(bad)))
        with mock.patch.object(self.disk, "read", fails), mock.patch("mqclient.storageformat.files.UNREADABLE_PIECE", SECTOR):
            saved = salvage(self.disk, self.settings)
        (loss,) = saved.losses
        self.assertEqual((loss.file, loss.offset, loss.offset + loss.size), (bad, hit[0][0], hit[-1][1]))
        self.assertLessEqual(len(self.before - ids(saved.recovered)), len(hit))

    def test_any_bit_of_a_page(self) -> None:
        self.make()
        path = f"{PAGING}/{folder_name('t')}/{self.broker.page_files()[1]}"
        (offset, end), *_ = self.frames(path)
        data = bytearray(self.disk.read(path))
        named = set()
        for position in range(offset, end):
            data[position] ^= 1 << position % 8
            named.update(claimed_ids(bytes(data), offset, end))
            data[position] ^= 1 << position % 8
        self.assertTrue(named & self.before)

    def test_what_was_never_committed_is_not_saved(self) -> None:
        """A crash may leave messages in a page beyond the place up to which the journal says that it counts."""
        self.make()
        path = f"{PAGING}/{folder_name('t')}/{self.broker.page_files()[-1]}"
        data = self.disk.read(path)
        seed = decode_segment_header(data).seed
        *_, last = read_frames(memoryview(data), seed)
        stray = bytes(last.content).replace(max(self.before).to_bytes(8, "big"), (999_999).to_bytes(8, "big"))
        file = self.disk.open(path)
        file.write(last.end, encode_frame([stray], seed, last.end, 0))
        file.close()
        self.assertEqual(ids(read_folder(self.disk, self.settings)), self.before)
        self.disk.flip_bit(path, last.offset + 9)
        self.assertLess(ids(salvage(self.disk, self.settings).recovered), self.before)

    def test_a_damaged_header_of_a_page_costs_nothing_but_is_told(self) -> None:
        self.make()
        path = f"{PAGING}/{folder_name('t')}/{self.broker.page_files()[0]}"
        for position in (0, 10, HEADER_SIZE - 1):
            self.disk.flip_bit(path, position)
            saved = salvage(self.disk, self.settings)
            self.assertEqual(([loss.file for loss in saved.losses], ids(saved.recovered)), ([path], self.before))
            self.disk.flip_bit(path, position)
