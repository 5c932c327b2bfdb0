"""What a database has that a folder has not: leases that end, and a time of its own."""

from __future__ import annotations

from twisted.python.monkey import MonkeyPatcher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.shared_store.place import Found, HeldUpError, SharedPlace
from mqbroker.ha.shared_store.rows import log as rows_log
from mqbroker.storage.disk.nodelock import STATE_ACTIVE, STATE_PAUSED
from mqbroker.storage.errors import FencedError, StorageError
from mqbroker.storage.sql import session
from mqbroker.storage.sql.database import DatabaseAwayError, DatabaseError, transaction
from tests.unit.ha.shared_store.places import EXPIRATION, NODE, RENEW_PERIOD, RowPlaces, active, opened
from tests.unit.storage.sql.support import SqlRig


class RowsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = RowPlaces(self.addCleanup)
        self.clock = self.world.clock

    def place(self) -> SharedPlace:
        return opened(self.world)

    def test_pairs_with_tables_of_their_own_have_state_locks_and_data_of_their_own(self) -> None:
        one, other, backup = (self.world.locks(broker) for broker in ("", "table T", "table T"))
        for locks in (one, other, backup):
            locks.open()
            self.addCleanup(locks.close)
        session.take(self.world.connection, NODE, "somebody")
        self.assertEqual((one.lock(), other.lock(), backup.lock()), (True, True, False))
        self.assertEqual((one.queue(), backup.queue()), (True, True))
        other.write_state(STATE_ACTIVE)
        self.assertEqual((one.state(), backup.state()), (b"0", STATE_ACTIVE))
        self.assertEqual((one.node_id(), other.node_id()), (NODE, ""))
        own = session.take(self.world.connection, "node of T", "process", "table T")
        other.begin()
        self.assertEqual(one.epoch, 0)
        with self.assertRaises(FencedError):
            own.write(self.world.connection, 1)
        self.assertEqual(other.node_id(), "node of T")

    def test_a_dead_holder_is_followed_when_its_lease_ends(self) -> None:
        self.world.put(STATE_ACTIVE)
        self.world.hold()
        backup = self.place()
        self.assertIs(backup.take_as_backup(), Found.HELD)
        self.clock.advance(1.1)
        self.assertIs(backup.take_as_backup(), Found.TAKEN)

    def test_the_holder_keeps_it_for_ever(self) -> None:
        active(self.world)
        self.world.put(STATE_ACTIVE)
        backup = self.place()
        self.clock.advance(10 * EXPIRATION)
        self.assertIs(backup.take_as_backup(), Found.HELD)

    def test_an_orderly_end_frees_it_at_once(self) -> None:
        holder = active(self.world, hands_over=True)
        self.world.put(STATE_ACTIVE)
        holder.leave()
        holder.release()
        self.assertEqual((self.world.lease()[0], self.clock.pending), ("", 0))
        self.assertIs(self.place().take_as_backup(), Found.TAKEN)

    def test_a_lease_that_is_lost_is_told_and_what_its_holder_writes_is_refused(self) -> None:
        holder = active(self.world)
        self.world.end_processes()
        self.world.hold()
        self.clock.advance(RENEW_PERIOD)
        self.assertEqual(len(self.world.lost), 1)
        for write in (holder.leave, holder.withdraw, holder.activated, holder.watch):
            self.assertRaises(FencedError, write)
        holder.release()
        self.assertEqual((self.world.state(), self.world.lease()[0]), (STATE_ACTIVE, "x"))

    def test_who_takes_the_lease_shuts_out_the_former_owner_of_the_data(self) -> None:
        self.world.put(STATE_ACTIVE)
        owner = session.take(self.world.connection, NODE, "former")
        backup = self.place()
        self.assertIs(backup.take_as_backup(), Found.TAKEN)
        self.assertEqual((backup.node_id, backup.epoch), (NODE, owner.epoch + 2))
        with self.assertRaises(FencedError), transaction(self.world.connection):
            owner.write(self.world.connection, 1)
        self.assertEqual(session.take(self.world.connection, NODE, "next").epoch, backup.epoch)

    def test_who_has_stood_still_and_lost_the_lease_shuts_nobody_out(self) -> None:
        late = self.world.locks()
        late.open()
        self.addCleanup(late.close)
        self.assertTrue(late.lock())
        self.world.hold()
        owner = session.take(self.world.connection, NODE, "holder of the lease")
        with self.assertRaisesRegex(HeldUpError, "another broker has taken the data"):
            late.begin()
        with transaction(self.world.connection):
            owner.write(self.world.connection, 1)

    def test_who_has_stood_still_before_its_store_was_loaded_shuts_nobody_out(self) -> None:
        """Once it took the data from the next holder, which ended, and ended itself because it had no lease."""
        self.world.put(STATE_ACTIVE)
        late = self.world.make()
        rig = SqlRig(self.addCleanup, database=self.world.database)
        store = rig.make(late)
        store.open()
        self.assertIs(late.take_as_backup(), Found.TAKEN)
        self.world.end_processes()
        following = self.place()
        self.assertIs(following.take_as_backup(), Found.TAKEN)
        owner = session.take(self.world.connection, NODE, "the next holder", epoch=following.epoch)
        self.assertRaises(FencedError, store.load)
        with transaction(self.world.connection):
            owner.write(self.world.connection, 1)

    def test_a_former_owner_that_is_frozen_in_a_transaction_is_waited_for_without_an_end(self) -> None:
        self.world.put(STATE_ACTIVE)
        backup = self.place()

        def busy(*args: object) -> int:
            raise DatabaseAwayError("canceled: it has waited for too long")

        with MonkeyPatcher((session, "shut_out", busy)):
            self.assertIs(backup.take_as_backup(), Found.HELD)
        self.assertIn("waited for too long", str(backup.problem))
        self.assertEqual(self.world.lease()[0], "")
        self.assertIs(backup.take_as_backup(), Found.TAKEN)

    def test_the_transaction_of_one_that_is_frozen_is_ended_where_that_can_be_done(self) -> None:
        self.world.put(STATE_ACTIVE)
        backup = self.place()
        told: list[str] = []
        self.patch(rows_log, "warn", lambda text, **values: told.append(text.format(**values)))

        def busy(*args: object) -> int:
            raise DatabaseAwayError("canceled: it has waited for too long")

        with MonkeyPatcher((session, "shut_out", busy)):
            for statement in ("", "SELECT ?", "SELECT nothing WHERE ? = 1", "SELECT 1 WHERE ? = 1"):
                self.world.database.end_writers = statement
                self.assertIs(backup.take_as_backup(), Found.HELD)
        self.assertEqual(len(told), 2, told)
        self.assertIn("stands still in a transaction, which is ended", told[0])
        self.assertIn("cannot be ended", told[1])

    def test_the_place_of_the_next_backup_is_renewed_by_its_looks(self) -> None:
        active(self.world)
        first, second = self.place(), self.place()
        self.assertEqual((first.queue(), second.queue()), (True, False))
        for _ in range(20):
            self.clock.advance(RENEW_PERIOD / 2)
            self.assertIs(first.take_as_backup(), Found.HELD)
        self.assertFalse(second.queue())

    def test_a_backup_that_has_stood_still_has_lost_its_place_to_the_one_behind(self) -> None:
        holder = active(self.world, hands_over=True)
        first, second = self.place(), self.place()
        self.assertTrue(first.queue())
        self.clock.advance(EXPIRATION + 1)
        self.assertTrue(second.queue())
        holder.release()
        self.assertIs(first.take_as_backup(), Found.HELD)
        self.assertIs(second.take_as_backup(), Found.TAKEN)
        second.activated()
        self.assertIs(first.take_as_backup(), Found.HELD)
        self.assertEqual(self.world.lease("backup")[0], first._locks._next._holder)  # type: ignore[attr-defined]

    def test_a_backup_that_stops_leaves_its_place_to_the_next(self) -> None:
        first, second = self.place(), self.place()
        self.assertTrue(first.queue())
        first.release()
        self.assertTrue(second.queue())

    def test_an_end_without_the_database_leaves_the_leases_to_end_by_themselves(self) -> None:
        holder, backup = active(self.world), self.place()
        backup.queue()
        self.world.hold_up()
        holder.release()
        backup.release()
        self.assertEqual(self.clock.pending, 0)

    def test_an_end_without_a_connection_leaves_the_lease_to_end_by_itself(self) -> None:
        """Once it was renewed as long as the process lived, and nobody became active."""
        holder = active(self.world)
        answer = self.world.hold_up()
        self.assertFalse(holder.watch())
        holder.release()
        answer()
        self.assertEqual(self.clock.pending, 0)
        self.clock.advance(EXPIRATION + 1)
        self.assertIs(self.place().take_as_backup(), Found.TAKEN)

    def test_who_loses_the_connection_after_it_has_got_the_lease_tries_again(self) -> None:
        """Once it ended: it had the lease, and got it once more."""
        self.world.put(STATE_ACTIVE)
        backup = self.place()

        def lost(*args: object) -> int:
            self.world.hold_up()
            raise DatabaseAwayError("the connection is lost")

        with MonkeyPatcher((session, "shut_out", lost)):
            self.assertIs(backup.take_as_backup(), Found.HELD)
        self.world.database.away = False
        self.assertIs(backup.take_as_backup(), Found.TAKEN)

    def test_a_start_without_the_database_is_refused(self) -> None:
        self.world.hold_up()
        self.assertIn("nobody answers", str(self.assertRaises(DatabaseError, self.place)))

    def test_clocks_that_differ_are_told(self) -> None:
        told: list[str] = []
        self.patch(rows_log, "warn", lambda text, **values: told.append(text.format(**values)))
        for ahead, expected in ((250, 0), (-250, 0), (251, 1), (-300, 2)):
            self.world.ahead_ms = ahead
            self.place()
            self.assertEqual(len(told), expected, told)
        self.assertIn("by 300 ms", told[-1])

    def test_a_database_without_brokers_of_a_pair_has_no_state(self) -> None:
        self.world.connection.run("DELETE FROM mqbroker_pair")
        self.assertIn("b'' is not a state", str(self.assertRaises(StorageError, self.place().take_as_primary)))

    def test_the_state_of_an_orderly_end_is_kept(self) -> None:
        holder = active(self.world)
        holder.leave()
        holder.release()
        self.assertEqual(self.world.state(), STATE_PAUSED)
