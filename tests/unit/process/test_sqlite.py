"""SQLite as a database of the store."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from unittest import TestCase

from mqbroker.process.sqlite import SqliteDatabase
from mqbroker.storage.sql.database import DatabaseAwayError, DatabaseError


class SqliteTests(TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "x.db"
        self.database = SqliteDatabase(str(self.path))

    def test_writes_survive_a_loss_of_power(self) -> None:
        connection = self.database.connect()
        self.addCleanup(connection.close)
        self.assertEqual(connection.rows("PRAGMA journal_mode"), [("wal",)])
        self.assertEqual(connection.rows("PRAGMA synchronous"), [(2,)])

    def test_a_database_that_another_one_writes_is_away(self) -> None:
        one, other = self.database.connect(), SqliteDatabase(str(self.path), 0.0).connect()
        self.addCleanup(one.close)
        self.addCleanup(other.close)
        one.begin()
        with self.assertRaises(DatabaseAwayError):
            other.begin()
        other.rollback()
        one.rollback()
        other.begin()
        other.rollback()

    def test_it_tells_its_time(self) -> None:
        connection = self.database.connect()
        self.addCleanup(connection.close)
        before = time.time()
        [(now,)] = connection.rows(f"SELECT {self.database.now}")
        self.assertTrue(before - 1 <= now / 1000 <= time.time() + 1, now)

    def test_a_refusal_names_the_file(self) -> None:
        connection = self.database.connect()
        self.addCleanup(connection.close)
        with self.assertRaisesRegex(DatabaseError, "x.db: no such table"):
            connection.rows("SELECT 1 FROM missing")
        self.path.with_name("y.db").write_bytes(b"this is no database, and long enough to be looked at" * 20)
        with self.assertRaisesRegex(DatabaseError, "y.db"):
            SqliteDatabase(str(self.path.with_name("y.db"))).connect()
