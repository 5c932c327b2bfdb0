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

    def test_competing_primaries_are_the_node_of_their_id_whatever_the_folder_was(self) -> None:
        self.opened(False).release()
        other = "66666666-2222-4333-8444-555555555555"
        folder = CopyFolder(self.disk, "/data", False, other)
        folder.open(lambda: NODE)
        self.assertEqual((folder.node_id, folder.owns(NODE), folder.owns(other)), (other, True, True))
        folder.release()
        own = self.opened(False)
        self.assertEqual((own.node_id, own.owns(NODE), own.owns(other)), (other, False, True))
