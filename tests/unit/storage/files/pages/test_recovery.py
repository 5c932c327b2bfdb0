"""Pages at a start."""

from __future__ import annotations

import errno
from unittest import mock

from mqbroker.storage.disk.claim import OwnFolder
from mqbroker.storage.errors import JournalDamagedError
from mqclient.storageformat.files import folder_name
from tests.unit.messaging.paging_support import PagingBroker, Taker, numbered
from tests.unit.storage.files.pages.test_disk import FolderCase
from tests.unit.storage.support import PAGING


class RecoveryTests(FolderCase):
    def test_what_a_crash_leaves_is_removed(self) -> None:
        broker = self.filled()
        stray = f"{PAGING}/{folder_name('q')}/999999999.page"
        broker.rig.disk.open(stray).close()
        broker.restart()
        self.assertFalse(broker.rig.disk.exists(stray))
        self.assertEqual(Taker(broker, broker.core.queues["q"]).drain(), numbered(100))

    def test_a_page_that_is_missing_or_cut_off_stops_the_start(self) -> None:
        broker = self.filled()
        path = self.page(broker, 1)
        broker.rig.stop()
        whole = broker.rig.disk.read(path)
        broker.rig.disk.remove(path)
        with self.assertRaisesRegex(JournalDamagedError, "cannot be read"):
            broker.start()
        for content, reason in ((whole[:-100], "the page ends here"), (bytes(len(whole)), "not a journal segment")):
            file = broker.rig.disk.open(path)
            file.write(0, content)
            file.close()
            with self.assertRaisesRegex(JournalDamagedError, reason):
                broker.start()
            broker.rig.disk.remove(path)
        file = broker.rig.disk.open(path)
        file.write(0, whole)
        file.close()
        broker.start()
        self.assertEqual(Taker(broker, broker.core.queues["q"]).drain(), numbered(100))

    def with_pages_to_be_dropped(self, count: int = 10) -> PagingBroker:
        """A broker that has stopped, and whose pages hold messages that do not survive."""
        broker = self.filled(0)
        for body in numbered(count):
            broker.send(body, durable=False)
        broker.messaging.stop()
        broker.rig.stop()
        return broker

    def test_on_a_full_disk_refused_starts_take_no_room_while_there_are_pages_to_be_dropped(self) -> None:
        for missing in (1, 16384, 16384 + 4096 - 1):
            broker = self.with_pages_to_be_dropped()
            rig = broker.rig
            self.assertTrue(broker.page_files())
            before = rig.disk.files()
            rig.disk.capacity = rig.disk.used + 16384 + 4096 - missing
            for _ in range(3):
                with self.assertRaisesRegex(OSError, "no space"):
                    rig.start()
                self.assertEqual(rig.disk.files(), before)
                self.assertEqual((rig.disk.locks, rig.disk.open_files), (set(), 0))
            rig.disk.capacity = None
            rig.start()
            self.assertEqual(broker.page_files(), [])

    def test_what_was_dropped_stays_dropped_when_a_start_is_given_up(self) -> None:
        broker = self.with_pages_to_be_dropped()
        rig = broker.rig
        for _ in range(2):
            store = rig.make()
            store.open()
            store.load()
            store.withdraw()
            rig.settle()
            self.assertEqual((broker.page_files(), rig.disk.open_files), ([], 0))
        rig.start()

    def test_what_was_dropped_stays_dropped_when_a_start_fails_after_that(self) -> None:
        broker = self.with_pages_to_be_dropped(1)
        rig = broker.rig
        store = rig.make()
        store.open()
        with mock.patch.object(OwnFolder, "activated", side_effect=OSError(errno.ENOSPC, "no space")), self.assertRaises(OSError):
            store.load()
        self.assertEqual((broker.page_files(), rig.disk.open_files), ([], 0))
        rig.disk.crash()
        rig.start()
