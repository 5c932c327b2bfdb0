"""Page files: their form on the disk, what is left of them, damage, and reading them without a broker."""

from __future__ import annotations

import errno
from unittest import TestCase, mock

from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.files.recover import read_folder, refill, salvage
from mqclient.storageformat.files import folder_name
from mqclient.storageformat.frames import HEADER_SIZE
from tests.support.disk import DISK_FAILS
from tests.unit.messaging.paging_support import PagingBroker, Taker, body_of, numbered
from tests.unit.storage.support import JOURNAL, PAGING, Rig


class FolderCase(TestCase):
    def filled(self, count: int = 100, **settings: bool) -> PagingBroker:
        broker = PagingBroker(rig=Rig(1, journal_file_size=16384, **settings))
        broker.make_queue("q")
        for body in numbered(count):
            broker.send(body)
        return broker

    def page(self, broker: PagingBroker, index: int) -> str:
        return f"{PAGING}/{folder_name('q')}/{broker.page_files()[index]}"


class FolderTests(FolderCase):
    def test_names(self) -> None:
        broker = self.filled(10)
        (name,) = broker.rig.disk.list(PAGING)
        self.assertTrue(name.startswith("q-"))
        self.assertEqual(broker.rig.disk.read(f"{PAGING}/{name}/address.txt"), b"q\n")
        odd = [folder_name(address) for address in ("a/b", "a_b", "..", "ä" * 200, "")]
        self.assertEqual(len(set(odd)), 5)
        self.assertFalse([name for name in odd if "/" in name or name.startswith(".") or len(name) > 100])

    def test_folders_stay_or_go(self) -> None:
        for purge in (False, True):
            broker = self.filled(100, purge_page_folders=purge)
            taker = Taker(broker, broker.core.queues["q"])
            for _ in range(2):
                taker.drain()
                self.assertEqual(len(broker.rig.disk.list(PAGING)), 0 if purge else 1)
                broker.send(b"again")

    def test_what_belongs_to_somebody_else_is_left_alone(self) -> None:
        """A file where folders are expected, and a folder that no address has, which this process may not even look into."""
        broker = self.filled(100)
        disk = broker.rig.disk
        disk.open(f"{PAGING}/notes").close()
        disk.make_directory(f"{PAGING}/lost+found")
        listed = disk.list

        def refuses(directory: str) -> list[str]:
            if directory == f"{PAGING}/lost+found":
                raise PermissionError(errno.EACCES, "permission denied", directory)
            return listed(directory)

        with mock.patch.object(disk, "list", refuses):
            broker.restart()
            self.assertEqual(Taker(broker, broker.core.queues["q"]).drain(), numbered(100))
            broker.messaging.stop()
            broker.rig.stop()
            disk.flip_bit(f"{JOURNAL}/{broker.rig.files()[0]}", HEADER_SIZE + 5)
            salvage(disk, broker.rig.settings)
        self.assertLess({"lost+found", "notes"}, set(disk.list(PAGING)))

    def test_a_page_that_cannot_be_removed_keeps_no_other(self) -> None:
        """Neither a page of its own address, which all go at once, nor a page or the folder of another."""
        broker = self.filled(100, purge_page_folders=True)
        stays = broker.page_files()[0]
        broker.make_queue("other")
        broker.send(b"one", "other")
        broker.rig.disk.fail("remove", OSError(errno.EIO, DISK_FAILS))
        broker.messaging.administration.delete_queue(broker.core.queues["q"])
        broker.messaging.administration.delete_queue(broker.core.queues["other"])
        broker.settle()
        self.assertEqual(broker.rig.disk.list(PAGING), [folder_name("q")])
        self.assertEqual(broker.page_files(), [stays])
        broker.restart()
        self.assertEqual(broker.page_files(), [])

    def test_packed_pages_are_smaller_and_read_by_everybody(self) -> None:
        sizes = []
        for compress in (False, True):
            broker = PagingBroker({"#": {"max_size_bytes": 0}}, rig=Rig(1, journal_file_size=65536, compress_pages=compress))
            broker.make_queue("q")
            for body in numbered(100):
                broker.send(body * 30, settle=False)
            broker.settle()
            sizes.append(broker.rig.disk.size(self.page(broker, 0)))
            broker.rig.settings = Rig(1, journal_file_size=65536, compress_pages=not compress).settings
            broker.restart()
            self.assertEqual(Taker(broker, broker.core.queues["q"]).drain(), [body * 30 for body in numbered(100)])
        self.assertLess(sizes[1] * 3, sizes[0])


class ReadingTests(TestCase):
    def setUp(self) -> None:
        self.broker = PagingBroker(rig=Rig(1, journal_file_size=16384))
        self.broker.make_queue("s1", "t", 0)
        self.broker.make_queue("s2", "t", 0)
        for number, body in enumerate(numbered(100)):
            self.broker.send(body, "t", routing_type=0, durable=number != 50)
        taker = Taker(self.broker, self.broker.core.queues["s1"], room=20)
        taker.acknowledge(10)
        taker.roll_back()
        self.broker.messaging.stop()
        self.broker.rig.stop()
        self.rig = self.broker.rig

    def test_a_folder_is_read_with_its_pages(self) -> None:
        for recovered in (read_folder(self.rig.disk, self.rig.settings), salvage(self.rig.disk, self.rig.settings).recovered):
            self.assertEqual([body_of(message) for message, _ in recovered.messages], [body for body in numbered(100) if body != b"000050"])
            self.assertEqual([len(references) for _, references in recovered.messages], [1] * 10 + [2] * 89)
            first = recovered.messages[10][1]
            self.assertEqual(sorted(reference.delivery_count for reference in first), [0, 1])

    def test_salvage_of_a_damaged_page(self) -> None:
        name = self.broker.page_files()[1]
        path = f"{PAGING}/{folder_name('t')}/{name}"
        self.rig.disk.flip_bit(path, HEADER_SIZE + 40)
        with self.assertRaises(JournalDamagedError):
            read_folder(self.rig.disk, self.rig.settings)
        saved = salvage(self.rig.disk, self.rig.settings)
        (loss,) = saved.losses
        self.assertEqual((loss.file, loss.offset), (path, HEADER_SIZE))
        self.assertEqual(len(saved.recovered.messages), 98)
        new = Rig(2)
        new.start()
        refill(saved.recovered, new.store)
        new.settle()
        self.assertEqual(len(new.restart().messages), 98)
