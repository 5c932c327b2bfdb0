"""A database and a connection to it, as the store needs them.  The drivers are in :mod:`mqbroker.process.databases`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from mqbroker.storage.errors import StorageError

Row = tuple[Any, ...]


class DatabaseAwayError(Exception):
    """The database does not answer now, or is held up by another program; the same may succeed later."""


class DatabaseError(StorageError):
    """The database refuses; trying again does not help."""


def missed_at_start(error: Exception) -> DatabaseError:
    """The error that ends a start for which the database was away."""
    return DatabaseError(f"a start needs the database, which does not answer: {error}")


class Connection(Protocol):
    """One connection.  All methods block, and raise DatabaseAwayError and DatabaseError; ``?`` stands for a parameter."""

    def begin(self) -> None:
        """Begin a transaction, which may write from now on."""

    def begin_reading(self) -> None:
        """Begin a transaction that writes nothing, and sees the same state of the database as long as it lasts, also a long one."""

    def commit(self) -> None: ...

    def rollback(self) -> None:
        """End the transaction without its work; nothing is raised when the connection is lost."""

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """All rows of a query, or of a statement that returns some."""

    def run(self, statement: str, parameters: Sequence[object] = ()) -> int:
        """Run a statement.  Returns how many rows it has changed."""

    def run_many(self, statement: str, parameters: Iterable[Sequence[object]]) -> None:
        """Run a statement once for each of these parameters, within a transaction.

        It may go to the database with the next statement that returns something, or with the commit, which then raises its errors.
        """

    def close(self) -> None: ...


class Database(Protocol):
    """``name`` is for messages and holds no password; ``binary`` and ``number`` are its types for bytes and for 64 bits.

    ``now`` is the expression for its own time, ms since 1970.  ``end_writers`` is the query that ends the connections of others whose
    transactions have written to the table that it is given; '' = that cannot be done.
    """

    name: str
    binary: str
    number: str
    now: str
    end_writers: str

    def connect(self) -> Connection:
        """A new connection.  Raises DatabaseAwayError, DatabaseError."""


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """A transaction: committed at the end, rolled back where something is raised."""
    connection.begin()
    try:
        yield
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
