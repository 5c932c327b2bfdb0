"""Databases for the tables of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mqbroker.process.sqlite import SqliteDatabase
from mqbroker.storage.sql.database import Connection, Database, DatabaseAwayError, Row


class MemoryDatabase:
    """One database in memory for all connections; it may be away, or break at a commit.

    There is one connection beneath, so only one transaction may be under way.
    """

    def __init__(self, database: Database | None = None) -> None:
        self._whole = database or SqliteDatabase(":memory:")
        self._connection = self._whole.connect()
        self.name = "the.db"
        self.binary, self.number, self.now = self._whole.binary, self._whole.number, self._whole.now
        self.away = False
        self.breaks: list[str] = []
        """What happens at the next commits: "before" or "after" them the connection is lost, "" = nothing."""
        self.connects = 0

    def connect(self) -> Connection:
        self.connects += 1
        self.check()
        return _SharedConnection(self, self._connection)

    def check(self) -> None:
        if self.away:
            raise DatabaseAwayError(f"{self.name}: it is away")

    def close(self) -> None:
        self._connection.close()


class _SharedConnection:
    def __init__(self, database: MemoryDatabase, connection: Connection) -> None:
        self._database = database
        self._connection = connection
        self._lost = False

    def begin(self) -> None:
        self._check()
        self._connection.begin()

    def commit(self) -> None:
        self._check()
        breaks = self._database.breaks.pop(0) if self._database.breaks else ""
        if breaks != "before":
            self._connection.commit()
        if breaks:
            self._lost = True
            raise DatabaseAwayError(f"{self._database.name}: the connection was lost")

    def rollback(self) -> None:
        self._connection.rollback()

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        self._check()
        return self._connection.rows(statement, parameters)

    def run(self, statement: str, parameters: Sequence[object] = ()) -> int:
        self._check()
        return self._connection.run(statement, parameters)

    def run_many(self, statement: str, parameters: Iterable[Sequence[object]]) -> None:
        self._check()
        self._connection.run_many(statement, parameters)

    def close(self) -> None:
        self._lost = True

    def _check(self) -> None:
        self._database.check()
        if self._lost:
            raise DatabaseAwayError(f"{self._database.name}: the connection was lost")
