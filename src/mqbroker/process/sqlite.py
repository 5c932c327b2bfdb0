"""SQLite, from the standard library: a database in one file of this machine."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from mqbroker.storage.sql.database import Connection, DatabaseAwayError, DatabaseError, Row

BUSY_SECONDS = 5.0
"""As long as a configuration sets no shorter time."""

_PAUSE = 0.05
"""Seconds between two attempts where SQLite itself does not wait."""

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class SqliteDatabase:
    """See :class:`mqbroker.storage.sql.database.Database`.

    ``busy_seconds``: how long to wait for another process that writes, until the database counts as away.
    """

    binary = "BLOB"
    number = "INTEGER"
    now = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    end_writers = ""

    def __init__(self, path: str, busy_seconds: float = BUSY_SECONDS) -> None:
        self.name = path
        self._busy_seconds = busy_seconds

    def connect(self) -> Connection:
        with _errors(self.name):
            # The threads of the store take turns with a connection, and never share one at a time.
            connection = sqlite3.connect(self.name, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False)
            _write_ahead(connection, self._busy_seconds)
            connection.execute("PRAGMA synchronous = FULL")
        return SqliteConnection(connection, self.name)


class SqliteConnection:
    """See :class:`mqbroker.storage.sql.database.Connection`."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    def begin(self) -> None:
        self.run("BEGIN IMMEDIATE")

    def begin_reading(self) -> None:
        self.run("BEGIN")

    def commit(self) -> None:
        self.run("COMMIT")

    def rollback(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            return

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        with _errors(self._name):
            found: list[Row] = self._connection.execute(statement, tuple(parameters)).fetchall()
            return found

    def run(self, statement: str, parameters: Sequence[object] = ()) -> int:
        with _errors(self._name):
            return self._connection.execute(statement, tuple(parameters)).rowcount

    def run_many(self, statement: str, parameters: Iterable[Sequence[object]]) -> None:
        with _errors(self._name):
            self._connection.executemany(statement, parameters)

    def close(self) -> None:
        self._connection.close()


def _write_ahead(connection: sqlite3.Connection, seconds: float) -> None:
    """Two brokers that make a new file at the same time may hold each other up: SQLite waits for nobody then."""
    for _ in range(int(seconds / _PAUSE)):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            time.sleep(_PAUSE)
    connection.execute("PRAGMA journal_mode = WAL")


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _BUSY


@contextmanager
def _errors(name: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if _is_busy(error):
            raise DatabaseAwayError(f"{name}: {error}") from error
        raise DatabaseError(f"{name}: {error}") from error
    except sqlite3.Error as error:
        raise DatabaseError(f"{name}: {error}") from error
