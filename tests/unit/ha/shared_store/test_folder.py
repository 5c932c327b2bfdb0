"""What a folder has that a database has not: locks of the file system, and files that may be gone."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.shared_store.place import Found, SharedPlace
from mqbroker.storage.disk.nodelock import STATE_ACTIVE
from mqbroker.storage.errors import FencedError, StorageError
from tests.support.disk import SimulatedDisk
from tests.unit.ha.shared_store.places import LOCK, NODE, FolderPlaces, active, opened


class FolderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = FolderPlaces()

    def place(self) -> SharedPlace:
        return opened(self.world)

    def test_a_lock_that_cannot_be_asked_for_is_not_had(self) -> None:
        self.world.put(STATE_ACTIVE)
        backup = self.place()
        lock = self.world.disk.lock

        def broken(path: str, patience: float = 0.0) -> object:
            if path == LOCK:
                return lock(path)
            raise OSError(37, "no locks available")

        self.patch(self.world.disk, "lock", broken)
        self.assertEqual((backup.queue(), backup.take_as_backup()), (False, Found.HELD))
        self.assertIn("no locks available", str(backup.problem))

    def test_a_start_goes_on_while_another_one_holds_the_lock_of_the_state(self) -> None:
        self.world.put(STATE_ACTIVE)
        held_up = self.world.disk.lock(LOCK)
        assert held_up is not None
        folder = self.place()
        self.assertEqual(folder.node_id, "")
        held_up.release()
        self.assertIs(folder.take_as_backup(), Found.TAKEN)
        self.assertEqual(folder.node_id, NODE)

    def test_a_file_system_whose_locks_do_not_exclude_is_refused(self) -> None:
        self.patch(self.world.disk, "lock", lambda path, patience=0.0: SimulatedDisk(self.world.rng).lock(path))
        self.assertIn("do not exclude", str(self.assertRaises(StorageError, self.place)))

    def test_a_lost_lock_is_noticed(self) -> None:
        holder = active(self.world)
        self.world.end_processes()
        self.assertIn("is lost", str(self.assertRaises(FencedError, holder.watch)))
        self.assertIsNotNone(self.world.disk.lock("/lock/serverlock.1"))

    def test_a_file_that_is_gone_is_noticed(self) -> None:
        holder = active(self.world)
        self.world.disk.remove(LOCK)
        self.assertIn("is gone", str(self.assertRaises(FencedError, holder.watch)))

    def test_a_file_that_cannot_be_read_is_an_error(self) -> None:
        holder = active(self.world)
        self.world.disk.fail("read", OSError(5, "input/output error"), after=1)
        self.assertRaises(OSError, holder.watch)
