"""Connections to the server of :mod:`tests.simulation.database.server`, as the processes of brokers see them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from mqbroker.process.sqlite import SqliteConnection
from mqbroker.storage.sql.database import Connection, Row
from tests.simulation.world import Process

if TYPE_CHECKING:
    from tests.simulation.database.server import DatabaseServer

LOCK_LIMIT = 2.0
"""Seconds that a transaction waits for the one that is open."""
SILENCE_LIMIT = 1.5
"""Seconds after which a client gives up a connection that does not answer."""
NAME = "simulated"
URL = "jdbc:postgresql://simulated/mq"
END_WRITERS = "SELECT end_writers(?)"
"""The query that ends the transaction of somebody else."""

T = TypeVar("T")


class Machine(Protocol):
    """What a connection belongs to, as far as faults are concerned."""

    def killed_by_database(self, machine: bool, downtime: float) -> None:
        """The process ends in the middle of an operation."""

    def freeze(self, seconds: float) -> None:
        """The process stands still there, with all its threads."""


def memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


class PlainDatabase:
    """A database of its own that never fails, with the tables of another one; see :class:`mqbroker.storage.sql.database.Database`."""

    name = NAME
    binary = "BLOB"
    number = "INTEGER"
    now = "now_ms()"
    end_writers = ""

    def __init__(self, image: bytes) -> None:
        self._connection = memory()
        self._connection.deserialize(image)
        self._connection.create_function("now_ms", 0, lambda: 0)

    def connect(self) -> Connection:
        return _Kept(self._connection, NAME)

    def close(self) -> None:
        self._connection.close()


class _Kept(SqliteConnection):
    def close(self) -> None:
        """All connections are one, which stays."""


class ServerDatabase:
    """See :class:`mqbroker.storage.sql.database.Database`: the server as one process sees it.

    ``patience``: seconds after which its connections give up whatever they wait for; None = each wait has a limit of its own.
    """

    name = NAME
    binary = "BLOB"
    number = "INTEGER"
    now = "now_ms()"
    end_writers = END_WRITERS

    def __init__(self, server: DatabaseServer, process: Process, machine: Machine | None = None, patience: float | None = None) -> None:
        self._server = server
        self._process = process
        self._machine = machine
        self._patience = patience

    def connect(self) -> Connection:
        return self._server.connect(self._process, self._machine, self._patience)


class SimulatedConnection:
    """See :class:`mqbroker.storage.sql.database.Connection`.  One that is ``broken`` answers no more."""

    def __init__(self, server: DatabaseServer, process: Process, machine: Machine | None, patience: float | None) -> None:
        self._server = server
        self.process = process
        self.machine = machine
        self.lock_limit = LOCK_LIMIT if patience is None else patience
        self.silence_limit = SILENCE_LIMIT if patience is None else patience
        self.broken = ""
        self.used = 0.0
        """When the last statement was done."""
        self.commits = False
        """Is a commit under way?"""
        self.done: list[tuple[int, Callable[[Connection], object]]] = []
        """What the open transaction has done, and when (ms since the epoch)."""

    def check(self) -> None:
        if self.broken:
            raise self._server.trouble(self.broken)

    def begin(self) -> None:
        self._go("begin")
        self._server.open_transaction(self)
        self.used = self._server.world.now

    def commit(self) -> None:
        self.commits = True
        self._go("commit")
        self._commit()

    def rollback(self) -> None:
        if not self.broken and self.process.alive:
            self._server.roll_back(self)

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        self._go("rows")
        if statement == END_WRITERS:
            return self._server.end_writers(self)
        if statement.lstrip().startswith("SELECT"):
            if self._server.holder is not self:
                return self._server.front.rows(statement, parameters)
            self.used = self._server.world.now
            return self._server.work(self).rows(statement, parameters)
        return self._do(lambda connection: connection.rows(statement, parameters))

    def run(self, statement: str, parameters: Sequence[object] = ()) -> int:
        self._go("run")
        return self._do(lambda connection: connection.run(statement, parameters))

    def run_many(self, statement: str, parameters: Iterable[Sequence[object]]) -> None:
        every = [tuple(each) for each in parameters]
        self._go("run")
        self._do(lambda connection: connection.run_many(statement, every))

    def _do(self, function: Callable[[Connection], T]) -> T:
        """Change something; the commit does the same for all.  Outside of a transaction this is one."""
        server = self._server
        alone = server.holder is not self
        if alone:
            server.open_transaction(self)
        try:
            result = function(server.work(self))
        except BaseException:
            if alone:
                server.roll_back(self)
            raise
        self.done.append((server.wall_ms(), function))
        self.used = server.world.now
        if alone:
            self._commit()
        return result

    def _commit(self) -> None:
        self._server.commit(self)
        self.commits = False
        self._server.meet(self, "committed")
        self._server.travel(self)

    def close(self) -> None:
        if self.process.alive:
            self._server.closed(self)

    def _go(self, point: str) -> None:
        """A request goes to the server, and is about to be carried out."""
        self.check()
        self._server.meet(self, point)
        self._server.travel(self)
