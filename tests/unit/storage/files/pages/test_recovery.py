"""Pages at a start."""

from __future__ import annotations

from mqbroker.storage.errors import JournalDamagedError
from mqclient.storageformat.files import folder_name
from tests.unit.messaging.paging_support import Taker, numbered
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
