"""A lock in a database: a row that names its holder for a while, and that the holder renews.  The time is that of the database.

A lease says who may start.  It protects no data: a holder that stands still does not notice the end of its lease.  The row of its session
refuses its writes (decision 41).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from twisted.logger import Logger

from mqbroker.ha.shared_store.lease_machine import LeaseData, make_lease
from mqbroker.storage.sql.connections import Connections
from mqbroker.storage.sql.database import Connection, Database, DatabaseAwayError, DatabaseError
from mqbroker.storage.sql.schema import table

log = Logger(namespace="mqbroker.ha")

_IS_FREE = "name = ? AND (holder = '' OR holder = ? OR expires < %now)"
_MAY_ACQUIRE = f"SELECT 1 FROM {{lease}} WHERE {_IS_FREE}"
_ACQUIRE = f"UPDATE {{lease}} SET holder = ?, expires = %now + ? WHERE {_IS_FREE}"
_RENEW = "UPDATE {lease} SET expires = %now + ? WHERE name = ? AND holder = ?"
_GIVE_BACK = table("UPDATE {lease} SET holder = '', expires = 0 WHERE name = ? AND holder = ?")
_CONFIRM = table("UPDATE {lease} SET holder = holder WHERE name = ? AND holder = ?")
_HOLDER = table("SELECT holder FROM {lease} WHERE name = ?")


class Beat(Protocol):
    """A thread of its own for one thing that is done again and again, however busy the loop and other threads are."""

    def start(self, seconds: float, step: Callable[[], object], end: Callable[[], object]) -> None:
        """Run ``step`` every so many seconds, beginning after the first pause, until :meth:`stop`; then ``end``, once.  May be repeated."""

    def stop(self) -> None:
        """No step begins any more; one may be under way.  Any thread may call this, a step, too."""


class LeaseRow:
    """One row, and the name of this process in it."""

    def __init__(self, database: Database, name: str, holder: str, expiration_ms: int) -> None:
        self._may_acquire = table(_MAY_ACQUIRE.replace("%now", database.now))
        self._acquire = table(_ACQUIRE.replace("%now", database.now))
        self._renew = table(_RENEW.replace("%now", database.now))
        self._name = name
        self._holder = holder
        self._expiration_ms = expiration_ms

    def acquire(self, connection: Connection) -> bool:
        """False when another process has it; who has it already renews it."""
        whose = self._name, self._holder
        # SQLite would wait for whoever writes, only to change nothing.
        if not connection.rows(self._may_acquire, whose):
            return False
        return connection.run(self._acquire, (self._holder, self._expiration_ms, *whose)) == 1

    def renew(self, connection: Connection) -> bool:
        """False when this process does not have it."""
        return connection.run(self._renew, (self._expiration_ms, self._name, self._holder)) == 1

    def give_back(self, connection: Connection) -> None:
        """Without effect when another process has it."""
        connection.run(_GIVE_BACK, (self._name, self._holder))

    def is_ours(self, connection: Connection) -> bool:
        return connection.rows(_HOLDER, (self._name,)) == [(self._holder,)]

    def confirm(self, connection: Connection) -> bool:
        """As :meth:`is_ours`, within a transaction: until its end nobody else gets the row."""
        return connection.run(_CONFIRM, (self._name, self._holder)) == 1


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """``expiration`` is how long a lease lasts that is not renewed, ``renew_period`` when it is renewed, s."""

    expiration: float
    renew_period: float


class RenewedLease:
    """A lease that a thread of its own renews as long as this process has it.

    ``monotonic`` is the clock of this machine, which tells how much of the lease is left while the database does not answer.  ``lock`` is
    held for moments by the threads that use the lease.  ``lost`` is called by one of them, once for each time that the lease is lost.
    """

    def __init__(
        self,
        database: Database,
        row: LeaseRow,
        terms: LeaseTerms,
        monotonic: Callable[[], float],
        beat: Beat,
        lock: AbstractContextManager[object],
        lost: Callable[[str], object],
    ) -> None:
        self._database = database
        self._row = row
        self._terms = terms
        self._monotonic = monotonic
        self._beat = beat
        self._lock = lock
        self._lost = lost
        self._renewing = Connections(database, monotonic)
        self._machine = make_lease(LeaseData(self))
        self._until = 0.0
        """The lease lasts so long at least, by the own clock."""
        self._era = object()
        """Tells this holding from an earlier one, whose last renewal may be under way."""
        self._problem = ""
        self._use: Callable[[Callable[[Connection], object]], object]

    @property
    def state(self) -> str:
        return self._machine.state()

    def acquire(self, connection: Connection) -> bool:
        """Raises DatabaseAwayError, DatabaseError."""
        begun = self._monotonic()
        if not self._row.acquire(connection):
            return False
        with self._lock:
            self._until = begun + self._terms.expiration
            self._era = object()
            self._machine.acquired()
        return True

    def give_back(self, use: Callable[[Callable[[Connection], object]], object]) -> None:
        """Renew it no more, and free the row by ``use``, which calls a function with a connection.

        Raises what that raises, also where there is no connection: the lease ends by itself then.
        """
        with self._lock:
            self._use = use
            self._machine.release()

    def renew(self) -> None:
        """A step of the thread that renews."""
        era, begun = self._era, self._monotonic()
        try:
            ours = self._renewing.write(self._row.renew)
        except (DatabaseAwayError, DatabaseError) as error:
            with self._lock:
                if era is self._era:
                    self._unanswered(error)
            return
        with self._lock:
            if era is not self._era:
                return
            if ours:
                self._until = begun + self._terms.expiration
                self._machine.renewed()
            else:
                self._problem = f"{self._database.name}: the lease of this broker has ended, or another broker has it"
                self._machine.refused()

    def _unanswered(self, error: Exception) -> None:
        left = self._until - self._monotonic()
        if left >= self._terms.renew_period:
            self._problem = f"{error}; it lasts for {left:.1f} s"
            self._machine.unanswered()
        else:
            self._problem = f"the lease could not be renewed in time: {error}"
            self._machine.ran_out()

    # --- the work of the states

    def renew_from_now_on(self) -> None:
        self._beat.start(self._terms.renew_period, self.renew, self._renewing.close)

    def renew_no_more(self) -> None:
        self._beat.stop()

    def note_silence(self) -> None:
        log.warn("the lease of this broker was not renewed: {problem}", problem=self._problem)

    def tell_lost(self) -> None:
        self._lost(self._problem)

    def give_back_row(self) -> None:
        self._use(self._row.give_back)
