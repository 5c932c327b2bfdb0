"""The folder of a shared store: who gets it in which state (the table of starts), and who finds out that it is lost."""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.shared_store.folder import Found, SharedFolder
from mqbroker.storage.disk.nodelock import (
    STATE_ACTIVE,
    STATE_FAILING_BACK,
    STATE_FIRST_TIME,
    STATE_NOT_STARTED,
    STATE_PAUSED,
    NodeLock,
)
from mqbroker.storage.errors import FencedError, StorageError
from tests.support.disk import SimulatedDisk

NODE = "01234567-89ab-4cde-8f01-23456789abcd"
LOCK = "/lock/server.lock"


class FolderCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.rng = random.Random(1)
        self.disk = SimulatedDisk(self.rng)
        self.disk.make_directory("/lock")
        self.state = NodeLock(self.disk, "/lock")

    def folder(self, hands_over: bool = False) -> SharedFolder:
        folder = SharedFolder(self.disk, "/lock", self.rng.randbytes, hands_over)
        folder.open(lambda: NODE)
        return folder

    def active(self, hands_over: bool = False) -> SharedFolder:
        folder = self.folder(hands_over)
        self.assertIs(folder.take_as_primary(), Found.TAKEN)
        folder.activated()
        return folder


class StartTests(FolderCase):
    """The rows of the table: state byte and lock, and what becomes of a primary and of a backup."""

    def put(self, state: bytes) -> None:
        self.state.write_node_id(NODE)
        self.state.write_state(state)

    def found(self, state: bytes, held: bool) -> tuple[Found, Found]:
        """What a backup finds, and what a primary does that comes after it."""
        self.disk = SimulatedDisk(self.rng)
        self.disk.make_directory("/lock")
        self.state = NodeLock(self.disk, "/lock")
        self.put(state)
        if held:
            self.disk.lock("/lock/serverlock.1")
        backup, primary = self.folder(), self.folder()
        found = backup.take_as_backup()
        backup.release()
        return found, primary.take_as_primary()

    def test_a_folder_that_was_never_used_is_for_a_primary(self) -> None:
        for state in (STATE_FIRST_TIME, STATE_NOT_STARTED):
            self.assertEqual(self.found(state, held=False), (Found.NOT_WANTED, Found.TAKEN))

    def test_while_the_active_one_lives_both_wait(self) -> None:
        self.assertEqual(self.found(STATE_ACTIVE, held=True), (Found.HELD, Found.HELD))

    def test_after_a_death_either_goes_on(self) -> None:
        self.assertEqual(self.found(STATE_ACTIVE, held=False), (Found.TAKEN, Found.TAKEN))

    def test_after_an_orderly_stop_only_a_primary_does(self) -> None:
        self.assertEqual(self.found(STATE_PAUSED, held=False), (Found.NOT_WANTED, Found.TAKEN))

    def test_while_a_primary_is_on_its_way_backups_keep_off(self) -> None:
        self.assertEqual(self.found(STATE_FAILING_BACK, held=True), (Found.NOT_WANTED, Found.HELD))
        self.assertEqual(self.found(STATE_FAILING_BACK, held=False), (Found.NOT_WANTED, Found.TAKEN))

    def test_a_new_folder_gets_a_node_id_from_its_primary_alone(self) -> None:
        backup = self.folder()
        self.assertEqual((backup.queue(), backup.node_id, backup.take_as_backup()), (True, "", Found.NOT_WANTED))
        self.assertEqual(self.active().node_id, NODE)

    def test_a_state_that_nobody_knows_is_an_error(self) -> None:
        self.put(b"?")
        self.assertIn("b'?' is not a state", str(self.assertRaises(StorageError, self.folder().take_as_backup)))
        self.assertRaises(StorageError, self.folder().take_as_primary)

    def test_a_lock_that_cannot_be_asked_for_is_not_had(self) -> None:
        self.put(STATE_ACTIVE)
        backup = self.folder()
        lock = self.disk.lock

        def broken(path: str, patience: float = 0.0) -> object:
            if path == LOCK:
                return lock(path)
            raise OSError(37, "no locks available")

        self.patch(self.disk, "lock", broken)
        self.assertEqual((backup.queue(), backup.take_as_backup()), (False, Found.HELD))
        self.assertIn("no locks available", str(backup.problem))

    def test_who_waits_waits_on_while_another_one_holds_the_lock_of_the_state(self) -> None:
        for take in (SharedFolder.take_as_backup, SharedFolder.take_as_primary):
            self.put(STATE_ACTIVE)
            folder = self.folder()
            held_up = self.disk.lock(LOCK)
            assert held_up is not None
            self.assertIs(take(folder), Found.HELD)
            self.assertIn("another process holds", str(folder.problem))
            held_up.release()
            self.assertIs(take(folder), Found.TAKEN)
            self.assertIsNone(folder.problem)
            folder.release()

    def test_a_start_goes_on_while_another_one_holds_the_lock_of_the_state(self) -> None:
        self.put(STATE_ACTIVE)
        held_up = self.disk.lock(LOCK)
        assert held_up is not None
        folder = self.folder()
        self.assertEqual(folder.node_id, "")
        held_up.release()
        self.assertIs(folder.take_as_backup(), Found.TAKEN)
        self.assertEqual(folder.node_id, NODE)

    def test_a_file_system_whose_locks_do_not_exclude_is_refused(self) -> None:
        self.patch(self.disk, "lock", lambda path, patience=0.0: SimulatedDisk(self.rng).lock(path))
        self.assertIn("do not exclude", str(self.assertRaises(StorageError, self.folder)))


class QueueTests(FolderCase):
    def test_one_backup_is_next_until_it_is_active(self) -> None:
        primary = self.active()
        first, second = self.folder(), self.folder()
        self.assertEqual((first.queue(), second.queue()), (True, False))
        primary.release()
        self.assertIs(first.take_as_backup(), Found.TAKEN)
        self.assertFalse(second.queue())
        first.activated()
        self.assertTrue(second.queue())

    def test_a_primary_that_leaves_before_its_turn_gives_the_active_one_its_backups_back(self) -> None:
        self.active()
        primary = self.folder()
        self.assertIs(primary.take_as_primary(), Found.HELD)
        self.assertEqual(self.state.state(), STATE_FAILING_BACK)
        primary.want_no_more()
        self.assertEqual(self.state.state(), STATE_ACTIVE)

    def test_a_primary_says_again_that_it_waits(self) -> None:
        """A backup that was just becoming active has written over it."""
        self.active()
        primary = self.folder()
        primary.take_as_primary()
        self.state.write_state(STATE_ACTIVE)
        primary.take_as_primary()
        self.assertEqual(self.state.state(), STATE_FAILING_BACK)


class EndTests(FolderCase):
    def test_an_orderly_end_is_noted_so_that_backups_stay_passive(self) -> None:
        folder = self.active()
        folder.leave()
        folder.release()
        self.assertEqual((self.state.state(), self.folder().take_as_backup()), (STATE_PAUSED, Found.NOT_WANTED))

    def test_with_failover_on_shutdown_it_looks_like_a_death(self) -> None:
        folder = self.active(hands_over=True)
        folder.leave()
        folder.release()
        self.assertEqual((self.state.state(), self.folder().take_as_backup()), (STATE_ACTIVE, Found.TAKEN))

    def test_a_start_that_failed_leaves_the_state_that_it_found(self) -> None:
        self.active(hands_over=True).release()
        for take in (SharedFolder.take_as_primary, SharedFolder.take_as_backup):
            folder = self.folder()
            self.assertIs(take(folder), Found.TAKEN)
            folder.withdraw()
            folder.release()
            self.assertEqual(self.state.state(), STATE_ACTIVE)

    def test_a_holder_goes_on_while_another_one_holds_the_lock_of_the_state(self) -> None:
        folder = self.active()
        held = self.disk.lock(LOCK)
        assert held is not None
        self.assertFalse(folder.watch())
        held.release()
        self.assertIs(self.folder().take_as_primary(), Found.HELD)
        self.assertTrue(folder.watch())

    def test_a_former_holder_writes_no_state(self) -> None:
        former = self.active()
        self.disk.end_process()
        self.active()
        for write in (former.leave, former.withdraw):
            self.assertRaises(FencedError, write)
        self.assertEqual(self.state.state(), STATE_ACTIVE)

    def test_who_never_had_it_takes_nothing_back(self) -> None:
        self.active()
        waiting = self.folder()
        waiting.withdraw()
        waiting.release()
        self.assertEqual(self.state.state(), STATE_ACTIVE)


class WatchTests(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.holder = self.active()

    def test_all_is_well_and_a_primary_that_waits_is_seen(self) -> None:
        self.assertFalse(self.holder.watch())
        self.folder().take_as_primary()
        self.assertTrue(self.holder.watch())

    def test_a_primary_that_waits_has_to_say_so_again_when_the_holder_doubts_it(self) -> None:
        primary = self.folder()
        primary.take_as_primary()
        self.assertTrue(self.holder.watch(doubts=True))
        self.assertFalse(self.holder.watch(doubts=True))
        primary.take_as_primary()
        self.assertTrue(self.holder.watch())
        self.assertEqual(self.state.state(), STATE_FAILING_BACK)

    def test_a_lost_lock_is_noticed(self) -> None:
        self.disk.end_process()
        self.assertIn("is lost", str(self.assertRaises(FencedError, self.holder.watch)))
        self.assertIsNotNone(self.disk.lock("/lock/serverlock.1"))

    def test_another_holder_is_noticed(self) -> None:
        self.disk.end_process()
        self.active()
        self.assertIn("another broker has taken", str(self.assertRaises(FencedError, self.holder.watch)))

    def test_a_file_that_is_gone_is_noticed(self) -> None:
        self.disk.remove(LOCK)
        self.assertIn("is gone", str(self.assertRaises(FencedError, self.holder.watch)))

    def test_a_file_that_cannot_be_read_is_an_error(self) -> None:
        self.disk.fail("read", OSError(5, "input/output error"), after=1)
        self.assertRaises(OSError, self.holder.watch)

    def test_what_a_former_holder_has_written_late_is_put_right(self) -> None:
        self.state.write_state(STATE_PAUSED)
        self.assertFalse(self.holder.watch())
        self.assertEqual(self.state.state(), STATE_ACTIVE)
