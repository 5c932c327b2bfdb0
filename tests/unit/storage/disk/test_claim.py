"""The folder of a broker that shares it with nobody."""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.disk.claim import OwnFolder
from mqbroker.storage.disk.epoch import EPOCH_FILE
from mqbroker.storage.disk.nodelock import STATE_ACTIVE, STATE_FAILING_BACK, STATE_FIRST_TIME, STATE_PAUSED, NodeLock
from mqbroker.storage.errors import StoreLockedError
from tests.support.disk import SimulatedDisk

NODE = "01234567-89ab-4cde-8f01-23456789abcd"


class OwnFolderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = SimulatedDisk(random.Random(1))
        self.disk.make_directory("/data")
        self.disk.sync_directory("/")
        self.lock = NodeLock(self.disk, "/data")
        self.claim = OwnFolder(self.disk, "/data")

    def test_the_state_tells_how_far_the_broker_is(self) -> None:
        self.claim.open(lambda: NODE)
        self.assertEqual((self.claim.node_id, self.lock.state()), (NODE, STATE_FAILING_BACK))
        self.claim.activated()
        self.assertEqual(self.lock.state(), STATE_ACTIVE)
        self.claim.leave()
        self.assertEqual(self.lock.state(), STATE_PAUSED)

    def test_a_start_that_is_taken_back_leaves_the_state_as_it_was(self) -> None:
        for found in (STATE_FIRST_TIME, STATE_ACTIVE):
            self.lock.write_state(found)
            self.claim.open(lambda: NODE)
            self.claim.withdraw()
            self.claim.release()
            self.assertEqual(self.lock.state(), found)

    def test_a_second_broker_is_refused_until_the_first_has_left(self) -> None:
        self.claim.open(lambda: NODE)
        other = OwnFolder(self.disk, "/data")
        self.assertRaises(StoreLockedError, other.open, lambda: NODE)
        self.claim.release()
        other.open(lambda: "not needed")
        self.assertEqual(other.node_id, NODE)

    def test_former_holders_of_a_folder_that_was_shared_find_its_epoch_gone(self) -> None:
        file = self.disk.open(f"/data/{EPOCH_FILE}")
        file.write(0, b"7")
        file.close()
        self.claim.open(lambda: NODE)
        self.assertFalse(self.disk.exists(f"/data/{EPOCH_FILE}"))

    def test_an_open_that_fails_frees_the_folder(self) -> None:
        def fail() -> str:
            raise OSError("no entropy")

        self.assertRaises(OSError, self.claim.open, fail)
        OwnFolder(self.disk, "/data").open(lambda: NODE)
