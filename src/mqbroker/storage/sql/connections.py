"""The connections of one store: one for the start, one that writes and one that reads, each used by one thread at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.sql.database import Connection, Database, DatabaseAwayError

T = TypeVar("T")

LOOK_PAUSE = 1.0
"""Seconds between two looks for the database, at least."""

TOLD_SECONDS = 60.0
"""Seconds between two lines of the log about the same trouble."""


class Trouble:
    """Work that is tried again and again, for the log: its first failure is told, then one each TOLD_SECONDS, and its end.

    ``now`` is the monotonic clock.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: float | None = None
        self._next = 0.0

    def is_told(self) -> bool:
        """The work has failed: is a line of the log due?"""
        now = self._now()
        if self._since is None:
            self._since = self._next = now
        if now < self._next:
            return False
        self._next = now + TOLD_SECONDS
        return True

    def over(self) -> float | None:
        """The work has not failed.  Returns for how many seconds it had failed before; None where it had not."""
        since, self._since = self._since, None
        return None if since is None else self._now() - since


class Line:
    """A connection: made when it is first wanted, and again after it was lost or closed.  One thread at a time may use it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None

    def get(self) -> Connection:
        if self._connection is None:
            self._connection = self._database.connect()
        return self._connection

    def use(self, use: Callable[[Connection], T]) -> T:
        """The result of ``use``, or its error; a lost connection is not used again."""
        try:
            return use(self.get())
        except DatabaseAwayError:
            self.close()
            raise

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _WatchedLine(Line):
    """``away_since`` is when the database was first missed here, on the clock ``now``; None while it answers."""

    def __init__(self, database: Database, now: Callable[[], float]) -> None:
        super().__init__(database)
        self.away_since: float | None = None
        self._now = now

    def use(self, use: Callable[[Connection], T]) -> T:
        try:
            result = super().use(use)
        except DatabaseAwayError:
            if self.away_since is None:
                self.away_since = self._now()
            raise
        self.away_since = None
        return result


class Connections:
    """``now`` is the monotonic clock, which every thread may read."""

    def __init__(self, database: Database, now: Callable[[], float]) -> None:
        self._start = Line(database)
        self._writing = _WatchedLine(database, now)
        self._reading = _WatchedLine(database, now)

    @property
    def away_since(self) -> float | None:
        """When the database was first missed by a thread that writes or reads; None while it answers both, as far as it was asked."""
        return min((since for since in (self._writing.away_since, self._reading.away_since) if since is not None), default=None)

    def at_start(self) -> Connection:
        """For the loop's thread: at the start, and for the rare moments when it has to wait."""
        return self._start.get()

    def write(self, use: Callable[[Connection], T]) -> T:
        """The result of ``use`` with the connection that writes, or its error; a lost connection is not used again."""
        return self._writing.use(use)

    def read(self, use: Callable[[Connection], T]) -> T:
        """As :meth:`write`, for the connection that reads."""
        return self._reading.use(use)

    def close_reading(self) -> None:
        self._reading.close()

    def close_start(self) -> None:
        """Close that of the start: nobody may want it for long, and one that is idle is lost unseen."""
        self._start.close()

    def close(self) -> None:
        """Close those of the start and of writing."""
        self._start.close()
        self._writing.close()


class Outage:
    """Whether the database answers, for those who watch the broker.

    ``name`` is that of the database, ``reading`` the thread that reads, ``now`` the monotonic clock, and ``backlog`` tells how many batches
    of work the database does not have yet.  Nothing asks a database for which there is no work; so whoever wants to know makes the thread
    look, at most each LOOK_PAUSE, and the next answer is that of the look.
    """

    def __init__(
        self, name: str, connections: Connections, reading: DiskWriter, now: Callable[[], float], backlog: Callable[[], int]
    ) -> None:
        self._name = name
        self._connections = connections
        self._reading = reading
        self._now = now
        self._backlog = backlog
        self._open = False
        self._looking = False
        self._next_look = 0.0

    def open(self) -> None:
        """The thread may be used."""
        self._open = True

    def close(self) -> None:
        """The thread may be used no more."""
        self._open = False

    def seconds(self) -> float | None:
        """For how long the database has not answered; None while it does."""
        now = self._now()
        if self._open and not self._looking and now >= self._next_look:
            self._looking, self._next_look = True, now + LOOK_PAUSE
            self._reading.submit([self._look], self._looked)
        since = self._connections.away_since
        return None if since is None else max(0.0, now - since)

    def problem(self) -> str | None:
        """Why durable work waits, in one line; None while it does not."""
        seconds = self.seconds()
        if seconds is None:
            return None
        return f"the database {self._name} has not answered for {seconds:.0f} s; {self._backlog()} batches of work wait for it"

    def _look(self) -> None:
        """A step of the reading thread."""
        self._connections.read(lambda connection: connection.rows("SELECT 1"))

    def _looked(self, error: Exception | None) -> None:
        self._looking = False
