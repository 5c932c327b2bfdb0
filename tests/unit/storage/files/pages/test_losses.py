"""Pages that cannot be read."""

from __future__ import annotations

from mqclient.storageformat.frames import HEADER_SIZE
from tests.unit.messaging.paging_support import Taker, numbered
from tests.unit.storage.files.pages.test_disk import FolderCase


class LossTests(FolderCase):
    def test_damage_is_noticed_when_it_is_read_and_costs_nothing_else(self) -> None:
        broker = self.filled()
        path = self.page(broker, 1)
        broker.rig.disk.flip_bit(path, HEADER_SIZE + 40)
        taker = Taker(broker, broker.core.queues["q"])
        seen = taker.drain()
        self.assertEqual(seen, numbered(len(seen)))
        self.assertLess(len(seen), 60)
        self.assertTrue(broker.rig.store.failed)
        self.assertIn("a page cannot be read", broker.rig.failures[0])
        self.assertNotIn("none could be read", broker.rig.failures[0])

    def test_pages_that_were_never_synced_may_be_lost_with_the_machine(self) -> None:
        broker = self.filled(100, journal_datasync=False)
        broker.rig.disk.end_process()
        broker.start()
        self.assertEqual(broker.core.queues["q"].message_count, 100)
        for body in numbered(100, 100):
            broker.send(body)
        broker.crash()
        found = Taker(broker, broker.core.queues["q"]).drain()
        self.assertEqual(sorted(found), found)
        self.assertLessEqual(set(found), set(numbered(200)))
        self.assertEqual((broker.rig.failures, broker.page_files()), ([], []))
