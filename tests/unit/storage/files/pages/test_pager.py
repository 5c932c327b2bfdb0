"""Pages are written before what refers to them counts."""

from __future__ import annotations

from tests.unit.messaging.paging_support import Taker, numbered
from tests.unit.storage.files.pages.test_disk import FolderCase
from tests.unit.storage.support import PAGING


class PagerTests(FolderCase):
    def test_files_of_pages_are_closed(self) -> None:
        broker = self.filled(300)
        few = broker.rig.disk.open_files
        self.assertGreater(broker.pages(), 8)
        self.assertLess(few, 5)
        broker.rig.stop()
        self.assertEqual(broker.rig.disk.open_files, 0)

    def test_a_failed_write_of_a_page_acknowledges_nothing(self) -> None:
        broker = self.filled(10)
        broker.rig.disk.fail("sync", OSError("no"))
        ticket = broker.send(b"lost")
        self.assertLess(broker.rig.store.synced, ticket)
        self.assertTrue(broker.rig.store.failed)
        broker.rig.failures.clear()
        broker.crash()
        self.assertIn(Taker(broker, broker.core.queues["q"]).drain(), (numbered(10), [*numbered(10), b"lost"]))

    def test_a_full_disk_loses_nothing(self) -> None:
        broker = self.filled(10)
        disk = broker.rig.disk
        disk.capacity = 1 << 40
        disk.capacity -= disk.free_space(PAGING) - 3000
        sure = 10
        for body in numbered(100, 10):
            ticket = broker.send(body)
            if broker.rig.store.synced >= ticket:
                sure += 1
        self.assertTrue(broker.rig.store.failed)
        self.assertLess(sure, 110)
        broker.rig.failures.clear()
        broker.rig.disk.capacity = None
        broker.rig.disk.end_process()
        broker.start()
        found = Taker(broker, broker.core.queues["q"]).drain()
        self.assertEqual(found[:sure], numbered(sure))
