"""Transactions."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.storage.sql.database import transaction
from tests.unit.storage.sql.support import SqlRig


class TransactionTests(TestCase):
    def setUp(self) -> None:
        self.rig = SqlRig(self.addCleanup)
        self.connection = self.rig.database.connect()
        self.addCleanup(self.connection.close)
        self.connection.run("CREATE TABLE t (x INTEGER)")

    def test_committed_at_the_end(self) -> None:
        with transaction(self.connection):
            self.connection.run_many("INSERT INTO t VALUES (?)", [(1,), (2,)])
        self.assertEqual(self.rig.ask("SELECT x FROM t ORDER BY x"), [(1,), (2,)])

    def test_nothing_of_it_stays_when_something_is_raised(self) -> None:
        with self.assertRaises(KeyError), transaction(self.connection):
            self.connection.run("INSERT INTO t VALUES (1)")
            raise KeyError
        self.assertEqual(self.rig.ask("SELECT x FROM t"), [])
        with transaction(self.connection):
            self.connection.run("INSERT INTO t VALUES (2)")
        self.assertEqual(self.rig.ask("SELECT x FROM t"), [(2,)])
