from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.replication.claim import CopyFolder
from tests.support.disk import SimulatedDisk

NODE = "11111111-2222-4333-8444-555555555555"


class CopyFolderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = SimulatedDisk(random.Random(1))

    def opened(self, backup: bool) -> CopyFolder:
        folder = CopyFolder(self.disk, "/data", backup)
        folder.open(lambda: NODE)
        return folder

    def test_a_primary_has_a_node_id_and_a_backup_waits_for_one(self) -> None:
        backup = self.opened(True)
        self.assertEqual(backup.node_id, "")
        backup.rename(NODE)
        backup.release()
        self.disk.crash()
        self.assertEqual((backup.node_id, self.opened(True).node_id), (NODE, NODE))

    def test_a_primary_makes_its_own(self) -> None:
        self.assertEqual(self.opened(False).node_id, NODE)
