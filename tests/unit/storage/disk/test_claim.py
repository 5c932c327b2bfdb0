"""The folder of a broker that shares it with nobody, alone and beside data that are elsewhere."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.disk.claim import OwnFolder, WithOwnFolder
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


class Shared:
    """The right to data that are elsewhere; knows what it was told."""

    token = "t"

    def __init__(self) -> None:
        self.node_id = ""
        self.told: list[str] = []
        self.problem: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return lambda: self._tell(name)

    def owns(self, node_id: str) -> bool:
        return node_id == self.node_id

    def open(self, missing: Callable[[], str]) -> None:
        self._tell("open")
        self.node_id = missing()

    def _tell(self, name: str) -> None:
        self.told.append(name)
        if self.problem is not None:
            raise self.problem


class WithOwnFolderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = SimulatedDisk(random.Random(1))
        self.disk.make_directory("/data")
        self.shared: Any = Shared()
        self.lock = NodeLock(self.disk, "/data")
        self.claim = WithOwnFolder(self.shared, OwnFolder(self.disk, "/data"))

    def test_both_are_told_of_everything_and_the_shared_one_has_the_say(self) -> None:
        self.claim.open(lambda: NODE)
        self.assertEqual((self.claim.node_id, self.claim.token, self.claim.owns(NODE), self.claim.owns("")), (NODE, "t", True, False))
        self.claim.node_id = self.shared.node_id = "other"
        self.assertEqual(self.claim.node_id, "other")
        self.claim.activated()
        self.assertEqual(self.lock.state(), STATE_ACTIVE)
        self.claim.check()
        self.claim.leave()
        self.assertEqual(self.lock.state(), STATE_PAUSED)
        self.claim.withdraw()
        self.assertEqual(self.lock.state(), STATE_FIRST_TIME)
        self.claim.release()
        self.assertEqual(self.shared.told, ["open", "activated", "check", "leave", "withdraw", "release"])
        OwnFolder(self.disk, "/data").open(lambda: NODE)

    def test_a_second_process_of_the_same_instance_is_refused_before_it_asks_others(self) -> None:
        self.claim.open(lambda: NODE)
        second = WithOwnFolder(self.shared, OwnFolder(self.disk, "/data"))
        self.assertRaises(StoreLockedError, second.open, lambda: NODE)
        self.assertEqual(self.shared.told, ["open"])

    def test_the_folder_is_free_whatever_fails_elsewhere(self) -> None:
        self.shared.problem = OSError("nobody answers")
        self.assertRaises(OSError, self.claim.open, lambda: NODE)
        self.shared.problem = None
        self.claim.open(lambda: NODE)
        self.shared.problem = OSError("nobody answers")
        self.assertRaises(OSError, self.claim.release)
        OwnFolder(self.disk, "/data").open(lambda: NODE)
