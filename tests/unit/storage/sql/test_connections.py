"""The connections of one store."""

from __future__ import annotations

from collections.abc import Callable
from unittest import TestCase

from mqbroker.storage.sql.connections import LOOK_PAUSE, TOLD_SECONDS, Connections, Line, Outage, Trouble
from mqbroker.storage.sql.database import Connection, DatabaseAwayError, DatabaseError
from tests.support.diskwriter import SimulatedDiskWriter
from tests.unit.storage.sql.support import SqlRig


class LineTests(TestCase):
    def setUp(self) -> None:
        self.database = SqlRig(self.addCleanup).database
        self.line = Line(self.database)
        self.addCleanup(self.line.close)

    def test_a_connection_is_made_again_after_it_was_lost_and_after_it_was_closed(self) -> None:
        first = self.line.get()
        self.assertIs(self.line.use(lambda connection: connection), first)

        def lose(connection: Connection) -> None:
            raise DatabaseAwayError("cut")

        self.assertRaises(DatabaseAwayError, self.line.use, lose)
        second = self.line.get()
        self.assertIsNot(second, first)
        self.line.close()
        self.line.close()
        self.assertIsNot(self.line.get(), second)

    def test_a_database_that_cannot_be_reached_is_tried_again(self) -> None:
        def fail() -> Connection:
            raise DatabaseAwayError("away")

        connect, self.database.connect = self.database.connect, fail  # type: ignore[method-assign]
        self.assertRaises(DatabaseAwayError, self.line.get)
        self.database.connect = connect  # type: ignore[method-assign]
        self.assertEqual(self.line.use(lambda connection: connection.rows("SELECT 1")), [(1,)])


class ConnectionsTests(TestCase):
    def setUp(self) -> None:
        rig = SqlRig(self.addCleanup)
        self.made: list[Connection] = []
        connect = rig.database.connect

        def counting() -> Connection:
            self.made.append(connect())
            return self.made[-1]

        rig.database.connect = counting  # type: ignore[method-assign]
        self.now = 5.0
        self.connections = Connections(rig.database, lambda: self.now)
        self.addCleanup(self.connections.close)
        self.addCleanup(self.connections.close_reading)

    def test_each_is_made_once(self) -> None:
        for _ in range(2):
            self.connections.write(lambda connection: connection.rows("SELECT 1"))
            self.connections.read(lambda connection: connection.rows("SELECT 1"))
        self.assertEqual(len(self.made), 2)
        self.assertIs(self.connections.at_start(), self.connections.at_start())
        self.assertEqual(len(self.made), 3)

    def test_a_lost_one_is_made_again(self) -> None:
        for use in (self.connections.write, self.connections.read):
            before = len(self.made)
            with self.assertRaises(DatabaseAwayError):
                use(self._lose)
            use(lambda connection: connection.rows("SELECT 1"))
            self.assertEqual(len(self.made), before + 2)

    def test_a_refusal_leaves_the_connection(self) -> None:
        with self.assertRaises(DatabaseError):
            self.connections.write(lambda connection: connection.rows("SELECT nothing FROM nowhere"))
        self.connections.write(lambda connection: connection.rows("SELECT 1"))
        self.assertEqual(len(self.made), 1)

    @staticmethod
    def _lose(connection: Connection) -> None:
        raise DatabaseAwayError("cut")

    def lose(self, *uses: Callable[[Callable[[Connection], object]], object]) -> None:
        for use in uses:
            with self.assertRaises(DatabaseAwayError):
                use(self._lose)

    @staticmethod
    def look(connection: Connection) -> object:
        return connection.rows("SELECT 1")

    def test_since_when_the_database_is_away(self) -> None:
        writing, reading = self.connections.write, self.connections.read
        self.assertIsNone(self.connections.away_since)
        self.lose(writing)
        self.now = 7.0
        self.lose(reading, writing)
        self.assertEqual(self.connections.away_since, 5.0)
        writing(self.look)
        self.assertEqual(self.connections.away_since, 7.0)
        reading(self.look)
        self.assertIsNone(self.connections.away_since)

    def test_who_wants_to_know_makes_the_thread_look(self) -> None:
        thread = SimulatedDiskWriter()
        outage = Outage("db", self.connections, thread, lambda: self.now, lambda: 3)
        self.assertEqual((outage.problem(), thread.waiting), (None, 0))
        outage.open()
        self.lose(self.connections.read)
        self.now = 9.0
        for _ in range(2):
            self.assertEqual(outage.problem(), "the database db has not answered for 4 s; 3 batches of work wait for it")
            self.assertEqual(thread.waiting, 1)
        thread.run()
        for _ in range(2):
            self.assertEqual((outage.seconds(), thread.waiting), (None, 0))
        self.now += LOOK_PAUSE
        outage.seconds()
        self.assertEqual(thread.waiting, 1)
        outage.close()
        thread.run()
        self.now += LOOK_PAUSE
        self.assertEqual((outage.seconds(), thread.waiting), (None, 0))


class TroubleTests(TestCase):
    def test_the_first_failure_is_told_then_one_a_minute_and_the_end(self) -> None:
        now = 5.0
        trouble = Trouble(lambda: now)
        told = []
        self.assertIsNone(trouble.over())
        for _ in range(2):
            while now < 5.0 + 2 * TOLD_SECONDS:
                if trouble.is_told():
                    told.append(now)
                now += 0.5
            self.assertEqual((told, trouble.over(), trouble.over()), ([5.0, 5.0 + TOLD_SECONDS], 2 * TOLD_SECONDS, None))
            now = 5.0
            told.clear()
