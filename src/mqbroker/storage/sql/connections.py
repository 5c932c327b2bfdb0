"""The connections of one store: one for the start, one that writes and one that reads, each used by one thread at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mqbroker.storage.sql.database import Connection, Database, DatabaseAwayError

T = TypeVar("T")


class Connections:
    """Connections are made when they are first wanted, and again after they were dropped."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._start: Connection | None = None
        self._writing: Connection | None = None
        self._reading: Connection | None = None

    def at_start(self) -> Connection:
        """For the loop's thread: at the start, and for the rare moments when it has to wait."""
        if self._start is None:
            self._start = self._database.connect()
        return self._start

    def write(self, use: Callable[[Connection], T]) -> T:
        """What ``use`` returns for the connection that writes.  Raises what it raises; a lost connection is not used again."""
        if self._writing is None:
            self._writing = self._database.connect()
        try:
            return use(self._writing)
        except DatabaseAwayError:
            self._writing.close()
            self._writing = None
            raise

    def read(self, use: Callable[[Connection], T]) -> T:
        """As :meth:`write`, for the connection that reads."""
        if self._reading is None:
            self._reading = self._database.connect()
        try:
            return use(self._reading)
        except DatabaseAwayError:
            self.close_reading()
            raise

    def close_reading(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def close_start(self) -> None:
        """Close that of the start: nobody may want it for long, and one that is idle is lost unseen."""
        if self._start is not None:
            self._start.close()
            self._start = None

    def close(self) -> None:
        """Close those of the start and of writing."""
        self.close_start()
        if self._writing is not None:
            self._writing.close()
            self._writing = None
