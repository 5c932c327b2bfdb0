"""A lease in a database, by the time of the database and by that of its holder."""

from __future__ import annotations

from contextlib import nullcontext

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.shared_store.lease import LeaseRow, LeaseTerms, RenewedLease
from mqbroker.storage.sql.database import DatabaseError, transaction
from mqbroker.storage.sql.schema import PRIMARY_LEASE, table
from tests.support.beats import ClockBeat
from tests.unit.ha.shared_store.places import EXPIRATION, RENEW_PERIOD, RowPlaces

TERMS = LeaseTerms(EXPIRATION, RENEW_PERIOD)


class RowTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = RowPlaces(self.addCleanup)
        self.connection = self.world.connection
        self.one, self.other = self.row("one"), self.row("other")

    def row(self, holder: str) -> LeaseRow:
        return LeaseRow(self.world.database, PRIMARY_LEASE, holder, int(EXPIRATION * 1000))

    def test_one_has_it_until_it_ends_by_the_time_of_the_database(self) -> None:
        self.assertTrue(self.one.acquire(self.connection))
        self.assertFalse(self.other.acquire(self.connection))
        self.world.ahead_ms = 20_000
        self.assertFalse(self.other.acquire(self.connection))
        self.world.ahead_ms = 20_001
        self.assertTrue(self.other.acquire(self.connection))
        self.assertEqual(self.world.lease(), ("other", 20_000))

    def test_a_clock_of_the_machine_that_is_wrong_has_no_say(self) -> None:
        """All processes have the wall clock of the test, the database another one."""
        self.world.ahead_ms = -3_600_000
        self.assertTrue(self.one.acquire(self.connection))
        self.assertFalse(self.other.acquire(self.connection))
        self.assertEqual(self.world.lease(), ("one", 20_000))

    def test_a_renewal_lasts_from_now_on_also_when_the_time_of_the_database_was_set_back(self) -> None:
        self.one.acquire(self.connection)
        self.world.ahead_ms = -3_600_000
        self.assertTrue(self.one.renew(self.connection))
        self.assertEqual(self.world.lease(), ("one", 20_000))

    def test_only_its_holder_renews_confirms_and_gives_it_back(self) -> None:
        self.one.acquire(self.connection)
        self.assertFalse(self.other.renew(self.connection))
        self.other.give_back(self.connection)
        self.assertEqual([each.is_ours(self.connection) for each in (self.one, self.other)], [True, False])
        with transaction(self.connection):
            self.assertEqual([each.confirm(self.connection) for each in (self.one, self.other)], [True, False])
        self.one.give_back(self.connection)
        self.assertTrue(self.other.acquire(self.connection))

    def test_who_has_it_may_acquire_it_again(self) -> None:
        self.one.acquire(self.connection)
        self.world.ahead_ms = 5000
        self.assertTrue(self.one.acquire(self.connection))
        self.assertEqual(self.world.lease(), ("one", 20_000))


class RenewedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = world = RowPlaces(self.addCleanup)
        self.clock, self.connection = world.clock, world.connection
        self.beat = ClockBeat(self.clock)
        row = LeaseRow(world.database, PRIMARY_LEASE, "one", int(EXPIRATION * 1000))
        self.lost = world.lost
        self.lease = RenewedLease(world.database, row, TERMS, self.clock.monotonic, self.beat, nullcontext(), self.lost.append)
        self.assertTrue(self.lease.acquire(self.connection))

    def test_it_is_renewed_every_period(self) -> None:
        self.clock.advance(3.9)
        self.assertEqual(self.world.lease(), ("one", 16_100))
        self.clock.advance(0.1)
        self.assertEqual(self.world.lease(), ("one", 20_000))
        self.clock.advance(100.0)
        self.assertEqual((self.world.lease(), self.lost, self.lease.state), (("one", 20_000), [], "held"))

    def test_a_renewal_that_matches_no_row_loses_it_at_once(self) -> None:
        self.connection.run(table("UPDATE {lease} SET holder = 'other'"))
        self.clock.advance(4.0)
        self.assertIn("another broker has it", self.lost[0])
        self.assertEqual((self.lease.state, self.beat.running, self.clock.pending), ("lost", False, 0))
        self.lease.give_back(lambda use: use(self.connection))
        self.assertEqual(self.world.lease()[0], "other")

    def test_a_database_that_is_away_for_less_than_the_lease_does_no_harm(self) -> None:
        go_on = self.world.hold_up()
        self.clock.advance(16.0)
        self.assertEqual((self.lost, self.lease.state), ([], "held"))
        go_on()
        self.clock.advance(4.0)
        self.assertEqual((self.world.lease(), self.lost), (("one", 20_000), []))

    def test_one_that_is_away_for_longer_ends_it_before_anybody_else_may_have_it(self) -> None:
        self.clock.advance(4.0)
        go_on = self.world.hold_up()
        self.clock.advance(16.0)
        self.assertEqual((self.lost, self.lease.state), ([], "held"))
        self.clock.advance(4.0)
        self.assertIn("could not be renewed in time", self.lost[0])
        go_on()
        self.assertEqual(self.world.lease(), ("one", 0))

    def test_an_error_of_the_database_is_borne_as_silence_is(self) -> None:
        def refuse() -> None:
            raise DatabaseError("permission denied")

        self.patch(self.world.database, "connect", refuse)
        self.clock.advance(16.0)
        self.assertEqual(self.lost, [])
        self.clock.advance(4.0)
        self.assertIn("permission denied", self.lost[0])

    def test_the_clock_of_the_holder_decides_how_long_silence_is_borne(self) -> None:
        """The database is an hour ahead, and so is what its row says."""
        self.world.ahead_ms = 3_600_000
        self.clock.advance(4.0)
        self.world.hold_up()
        self.clock.advance(16.0)
        self.assertEqual(self.lost, [])
        self.clock.advance(4.0)
        self.assertEqual(len(self.lost), 1)

    def test_who_gives_it_back_frees_it_at_once(self) -> None:
        self.lease.give_back(lambda use: use(self.connection))
        self.assertEqual((self.world.lease()[0], self.beat.running, self.lease.state), ("", False, "free"))

    def test_a_renewal_of_an_earlier_holding_says_nothing_about_this_one(self) -> None:
        renewing = self.lease._renewing

        def write(use: object) -> bool:
            """The row is renewed by nobody; while the answer is on its way the lease is given back and acquired again."""
            self.lease.give_back(lambda use: use(self.connection))
            self.lease.acquire(self.connection)
            return False

        self.patch(renewing, "write", write)
        self.lease.renew()
        self.assertEqual((self.lease.state, self.lost), ("held", []))
