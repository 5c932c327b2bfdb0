"""SQLite as a database of the store."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from pathlib import Path
from unittest import TestCase, mock

from mqbroker.process import sqlite
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

    def test_two_brokers_that_make_the_file_at_the_same_time_wait_for_each_other(self) -> None:
        """SQLite does not wait by itself where two change its mode."""
        busy = sqlite3.OperationalError("database is locked")
        busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
        with mock.patch.object(sqlite3, "connect") as connect, mock.patch.object(sqlite, "_PAUSE", 0.001):
            connect.return_value.execute.side_effect = [busy, busy, None, None]
            self.database.connect()
            self.assertEqual(connect.return_value.execute.call_count, 4)
            connect.return_value.execute.side_effect = sqlite3.OperationalError("disk I/O error")
            with self.assertRaisesRegex(DatabaseError, "disk I/O error"):
                self.database.connect()
            connect.return_value.execute.side_effect = busy
            with self.assertRaises(DatabaseAwayError):
                SqliteDatabase(self.database.name, 0.01).connect()

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
