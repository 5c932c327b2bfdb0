"""The lock manager on one shared disk."""

from __future__ import annotations

import random
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.locks.conformance import NAME, LockManagerContract
from mqbroker.ha.locks.contract import LockManager, UnavailableError
from mqbroker.ha.locks.file_manager import FOLDER, FileLockManager
from mqbroker.process.localfs import LocalFileSystem
from tests.support.disk import SimulatedDisk


class LocalDiskTests(LockManagerContract, SynchronousTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.mktemp())
        self.folder.mkdir()

    def make_manager(self) -> LockManager:
        return FileLockManager({FOLDER: str(self.folder)}, LocalFileSystem())

    def test_a_number_that_an_operator_has_written(self) -> None:
        (self.folder / f"ML:{NAME}").write_bytes((8).to_bytes(8, "big"))
        self.assertEqual(self.started().number(NAME), 8)

    def test_the_files_are_those_of_artemis(self) -> None:
        manager = self.started()
        manager.try_lock(NAME)
        manager.change_number(NAME, 0, -2)
        self.assertEqual({path.name for path in self.folder.iterdir()}, {NAME, f"ML:{NAME}"})
        self.assertEqual((self.folder / f"ML:{NAME}").read_bytes(), b"\xff" * 7 + b"\xfe")


class SimulatedDiskTests(LockManagerContract, SynchronousTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.disk = SimulatedDisk(random.Random(1))
        self.disk.make_directory("/locks")
        self.disk.sync_directory("/")

    def make_manager(self) -> LockManager:
        return FileLockManager({FOLDER: "/locks"}, self.disk)

    def test_a_folder_that_is_missing_stops_the_start(self) -> None:
        manager = FileLockManager({FOLDER: "/nowhere"}, self.disk)
        self.assertIn("/nowhere", str(self.assertRaises(UnavailableError, manager.start, self.lost.append)))

    def test_a_number_survives_a_power_failure(self) -> None:
        manager = self.started()
        manager.try_lock(NAME)
        manager.change_number(NAME, 0, 6)
        self.disk.crash()
        self.assertEqual(self.started().number(NAME), 6)

    def test_a_disk_that_fails_is_an_unavailable_service(self) -> None:
        manager = self.started()
        self.assertTrue(manager.try_lock(NAME))
        for operation in ("open", "write", "sync", "rename", "sync_directory"):
            number = manager.number(NAME)
            self.disk.fail(operation, OSError("no disk"))
            self.assertRaises(UnavailableError, manager.change_number, NAME, number, number + 1)
            self.disk.forget_failures()
        self.disk.fail("read", OSError("no disk"))
        self.assertRaises(UnavailableError, manager.number, NAME)

    def test_a_lock_that_cannot_be_tried_is_an_unavailable_service(self) -> None:
        def lock(path: str) -> None:
            raise OSError("no locks available")

        manager = self.started()
        self.patch(self.disk, "lock", lock)
        self.assertRaises(UnavailableError, manager.try_lock, NAME)

    def test_a_damaged_number_is_told(self) -> None:
        self.disk.replace({f"/locks/ML:{NAME}": b"123"})
        self.assertIn("3 bytes", str(self.assertRaises(UnavailableError, self.started().number, NAME)))


class PropertyTests(SynchronousTestCase):
    def test_an_unknown_property_is_refused(self) -> None:
        error = self.assertRaises(ValueError, FileLockManager, {FOLDER: "/a", "folder": "/b"}, LocalFileSystem())
        self.assertIn("the property folder is unknown: expected locks-folder", str(error))

    def test_the_folder_is_required(self) -> None:
        for properties in ({}, {FOLDER: ""}):
            self.assertIn("locks-folder is missing", str(self.assertRaises(ValueError, FileLockManager, properties, LocalFileSystem())))
