"""One thread and one connection to the database, for what is not a message: nobody on the loop waits for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.sql.database import Connection, Database, DatabaseAwayError

T = TypeVar("T")


class Desk:
    """Does one piece of work after the other in the thread of ``writer``."""

    def __init__(self, database: Database, writer: DiskWriter) -> None:
        self._database = database
        self._writer = writer
        self._connection: Connection | None = None
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

        self._writer.submit([partial(self._work, work, results)], done)
        return answered

    def close(self) -> None:
        """What was asked for is done, and nobody hears of it."""
        self._closed = True
        self._writer.submit([self._leave], _nothing)

    def _work(self, work: Callable[[Connection], Any], results: list[Any]) -> None:
        if self._connection is None:
            self._connection = self._database.connect()
        try:
            results.append(work(self._connection))
        except DatabaseAwayError:
            self._leave()
            raise

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _nothing(error: Exception | None) -> None: ...
