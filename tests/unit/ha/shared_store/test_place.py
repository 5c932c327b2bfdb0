"""A shared store: who gets it in which state (the table of starts), and who finds out that it is lost; in a folder and in a database."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.shared_store.place import Found, SharedPlace
from mqbroker.storage.disk.nodelock import (
    STATE_ACTIVE,
    STATE_FAILING_BACK,
    STATE_FIRST_TIME,
    STATE_NOT_STARTED,
    STATE_PAUSED,
)
from mqbroker.storage.errors import FencedError, StorageError
from tests.unit.ha.shared_store.places import NODE, FolderPlaces, PlaceWorld, RowPlaces, active, opened


class PlaceCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = self.make_world()

    def make_world(self) -> PlaceWorld:
        return FolderPlaces()

    def place(self, hands_over: bool = False) -> SharedPlace:
        return opened(self.world, hands_over)

    def active(self, hands_over: bool = False) -> SharedPlace:
        return active(self.world, hands_over)


class StartTests(PlaceCase):
    """The rows of the table: state and lock, and what becomes of a primary and of a backup."""

    problem = "another process holds"

    def found(self, state: bytes, held: bool) -> tuple[Found, Found]:
        """What a backup finds, and what a primary does that comes after it."""
        self.world = self.make_world()
        self.world.put(state)
        if held:
            self.world.hold()
        backup, primary = self.place(), self.place()
        found = backup.take_as_backup()
        backup.release()
        return found, primary.take_as_primary()

    def test_a_store_that_was_never_used_is_for_a_primary(self) -> None:
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

    def test_a_new_store_gets_a_node_id_from_its_primary_alone(self) -> None:
        backup = self.place()
        self.assertEqual((backup.queue(), backup.node_id, backup.take_as_backup()), (True, "", Found.NOT_WANTED))
        self.assertEqual(self.active().node_id, NODE)

    def test_a_state_that_nobody_knows_is_an_error(self) -> None:
        self.world.put(b"?")
        self.assertIn("b'?' is not a state", str(self.assertRaises(StorageError, self.place().take_as_backup)))
        self.assertRaises(StorageError, self.place().take_as_primary)

    def test_who_waits_waits_on_while_nobody_can_ask_for_the_state(self) -> None:
        for take in (SharedPlace.take_as_backup, SharedPlace.take_as_primary):
            self.world.put(STATE_ACTIVE)
            place = self.place()
            go_on = self.world.hold_up()
            self.assertIs(take(place), Found.HELD)
            self.assertIn(self.problem, str(place.problem))
            go_on()
            self.assertIs(take(place), Found.TAKEN)
            self.assertIsNone(place.problem)
            place.release()


class QueueTests(PlaceCase):
    def test_one_backup_is_next_until_it_is_active(self) -> None:
        primary = self.active()
        first, second = self.place(), self.place()
        self.assertEqual((first.queue(), second.queue()), (True, False))
        primary.release()
        self.assertIs(first.take_as_backup(), Found.TAKEN)
        self.assertFalse(second.queue())
        first.activated()
        self.assertTrue(second.queue())

    def test_a_primary_that_leaves_before_its_turn_gives_the_active_one_its_backups_back(self) -> None:
        self.active()
        primary = self.place()
        self.assertIs(primary.take_as_primary(), Found.HELD)
        self.assertEqual(self.world.state(), STATE_FAILING_BACK)
        primary.want_no_more()
        self.assertEqual(self.world.state(), STATE_ACTIVE)

    def test_a_primary_says_again_that_it_waits(self) -> None:
        """A backup that was just becoming active has written over it."""
        self.active()
        primary = self.place()
        primary.take_as_primary()
        self.world.put(STATE_ACTIVE)
        primary.take_as_primary()
        self.assertEqual(self.world.state(), STATE_FAILING_BACK)


class EndTests(PlaceCase):
    def test_an_orderly_end_is_noted_so_that_backups_stay_passive(self) -> None:
        place = self.active()
        place.leave()
        place.release()
        self.assertEqual((self.world.state(), self.place().take_as_backup()), (STATE_PAUSED, Found.NOT_WANTED))

    def test_with_failover_on_shutdown_it_looks_like_a_death(self) -> None:
        place = self.active(hands_over=True)
        place.leave()
        place.release()
        self.assertEqual((self.world.state(), self.place().take_as_backup()), (STATE_ACTIVE, Found.TAKEN))

    def test_a_start_that_failed_leaves_the_state_that_it_found(self) -> None:
        self.active(hands_over=True).release()
        for take in (SharedPlace.take_as_primary, SharedPlace.take_as_backup):
            place = self.place()
            self.assertIs(take(place), Found.TAKEN)
            place.withdraw()
            place.release()
            self.assertEqual(self.world.state(), STATE_ACTIVE)

    def test_a_holder_goes_on_while_nobody_can_ask_for_the_state(self) -> None:
        place = self.active()
        go_on = self.world.hold_up()
        self.assertFalse(place.watch())
        go_on()
        self.assertIs(self.place().take_as_primary(), Found.HELD)
        self.assertTrue(place.watch())

    def test_a_former_holder_writes_no_state(self) -> None:
        former = self.active()
        self.world.end_processes()
        self.active()
        for write in (former.leave, former.withdraw):
            self.assertRaises(FencedError, write)
        self.assertEqual(self.world.state(), STATE_ACTIVE)

    def test_who_never_had_it_takes_nothing_back(self) -> None:
        self.active()
        waiting = self.place()
        waiting.withdraw()
        waiting.release()
        self.assertEqual(self.world.state(), STATE_ACTIVE)


class WatchTests(PlaceCase):
    another = "another broker has taken"

    def setUp(self) -> None:
        super().setUp()
        self.holder = self.active()

    def test_all_is_well_and_a_primary_that_waits_is_seen(self) -> None:
        self.assertFalse(self.holder.watch())
        self.place().take_as_primary()
        self.assertTrue(self.holder.watch())

    def test_a_primary_that_waits_has_to_say_so_again_when_the_holder_doubts_it(self) -> None:
        primary = self.place()
        primary.take_as_primary()
        self.assertTrue(self.holder.watch(doubts=True))
        self.assertFalse(self.holder.watch(doubts=True))
        primary.take_as_primary()
        self.assertTrue(self.holder.watch())
        self.assertEqual(self.world.state(), STATE_FAILING_BACK)

    def test_another_holder_is_noticed(self) -> None:
        self.world.end_processes()
        self.active()
        self.assertIn(self.another, str(self.assertRaises(FencedError, self.holder.watch)))

    def test_what_a_former_holder_has_written_late_is_put_right(self) -> None:
        self.world.put(STATE_PAUSED)
        self.assertFalse(self.holder.watch())
        self.assertEqual(self.world.state(), STATE_ACTIVE)


class InDatabase(PlaceCase):
    def make_world(self) -> PlaceWorld:
        return RowPlaces(self.addCleanup)


class StartInDatabaseTests(InDatabase, StartTests):
    problem = "nobody answers"


class QueueInDatabaseTests(InDatabase, QueueTests):
    pass


class EndInDatabaseTests(InDatabase, EndTests):
    pass


class WatchInDatabaseTests(InDatabase, WatchTests):
    another = "another broker has taken the data"
