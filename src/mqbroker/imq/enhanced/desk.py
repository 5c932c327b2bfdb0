"""One thread and one connection to the database, for everything but messages: nobody on the loop waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from twisted.internet.defer import Deferred

from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.sql.connections import Line
from mqbroker.storage.sql.database import Connection, Database

T = TypeVar("T")


class Desk:
    """Does one piece of work after the other in the thread of ``writer``."""

    def __init__(self, database: Database, writer: DiskWriter) -> None:
        self._line = Line(database)
        self._writer = writer
        self._closed = False

    def ask(self, work: Callable[[Connection], T]) -> Deferred[T]:
        """The result of ``work``, on the loop; fails with what it raises.  A connection that is lost is made again for the next piece."""
        answered: Deferred[T] = Deferred()
        results: list[T] = []

        def done(error: Exception | None) -> None:
            if self._closed:
                return
            if error is None:
                answered.callback(results[0])
            else:
                answered.errback(error)

        self._writer.submit([lambda: results.append(self._line.use(work))], done)
        return answered

    def close(self) -> None:
        """Do the work that was asked for, and tell nobody of the results."""
        self._closed = True
        self._writer.submit([self._line.close], _nothing)


def _nothing(error: Exception | None) -> None: ...
