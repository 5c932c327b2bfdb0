"""The connections of one store."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.storage.sql.connections import Connections
from mqbroker.storage.sql.database import Connection, DatabaseAwayError, DatabaseError
from tests.unit.storage.sql.support import SqlRig


class ConnectionsTests(TestCase):
    def setUp(self) -> None:
        rig = SqlRig(self.addCleanup)
        self.made: list[Connection] = []
        connect = rig.database.connect

        def counting() -> Connection:
            self.made.append(connect())
            return self.made[-1]

        rig.database.connect = counting  # type: ignore[method-assign]
        self.connections = Connections(rig.database)
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
