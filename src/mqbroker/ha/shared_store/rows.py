"""Locks and state of a shared store as rows of its database (the Artemis manual's shared store with JDBC)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from twisted.logger import Logger

from mqbroker.ha.shared_store.lease import Beat, LeaseRow, LeaseTerms, RenewedLease
from mqbroker.ha.shared_store.place import HeldUpError
from mqbroker.storage.errors import FencedError
from mqbroker.storage.sql import schema, session
from mqbroker.storage.sql.connections import Connections
from mqbroker.storage.sql.database import Connection, Database, DatabaseAwayError, DatabaseError, missed_at_start, transaction
from mqbroker.storage.sql.schema import BACKUP_LEASE, PRIMARY_LEASE, SESSIONS, lease_of, table

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from mqbroker.messaging.ports import Clock

log = Logger(namespace="mqbroker.ha")

T = TypeVar("T")

_STATE = table("SELECT state FROM {pair} WHERE broker = ?")
_WRITE_STATE = table("UPDATE {pair} SET state = ? WHERE broker = ?")


@dataclass(frozen=True, slots=True)
class LeaseParts:
    """The parts of the outside world that leases need.

    ``database`` is that of the store, with connections that wait for no longer than a renewal may.  ``lock`` is held for moments by several
    threads.  ``call`` lets another thread call on the loop.
    """

    database: Database
    clock: Clock
    entropy: Callable[[int], bytes]
    make_beat: Callable[[], Beat]
    lock: AbstractContextManager[object]
    call: Callable[[Callable[[], object]], object]


class RowLocks:
    """Implements :class:`mqbroker.ha.shared_store.place.Locks`.

    ``lost`` is called on the loop when the primary lock is lost while this broker has it.  Clocks that differ by more than
    ``time_difference`` ms are noted in the log: they do no harm.  ``broker`` is what the sessions of these
    brokers have in the place of an id.
    """

    token = ""

    def __init__(self, parts: LeaseParts, terms: LeaseTerms, time_difference: int, lost: Callable[[str], object], broker: str = "") -> None:
        holder = parts.entropy(16).hex()
        expiration_ms = int(terms.expiration * 1000)
        database = parts.database
        self.name = database.name
        self.epoch = 0
        self._database = database
        self._broker = broker
        self._clock = parts.clock
        self._terms = terms
        self._time_difference = time_difference
        self._connections = Connections(database, parts.clock.monotonic)
        self._row = LeaseRow(database, lease_of(PRIMARY_LEASE, broker), holder, expiration_ms)
        self._next = LeaseRow(database, lease_of(BACKUP_LEASE, broker), holder, expiration_ms)
        self._queued_at: float | None = None
        """When the place of the next backup was last renewed; None = another backup has it, or nobody."""
        self._lease = RenewedLease(
            database,
            self._row,
            terms,
            parts.clock.monotonic,
            parts.make_beat(),
            parts.lock,
            lambda reason: parts.call(lambda: lost(reason)),
        )

    def open(self) -> None:
        try:
            self._use(self._prepare)
        except HeldUpError as error:
            raise missed_at_start(error) from error

    def _prepare(self, connection: Connection) -> None:
        schema.prepare(self._database, connection)
        if self._broker:
            schema.prepare_pair(connection, self._broker)
        before = self._clock.wall_ms()
        there: int = connection.rows(f"SELECT {self._database.now}")[0][0]
        difference = max(before - there, there - self._clock.wall_ms())
        if difference > self._time_difference:
            log.warn(
                "the clock of {name} differs from that of this machine by {difference} ms; leases go by the former",
                name=self.name,
                difference=difference,
            )

    # --- the state

    def node_id(self) -> str:
        return self._use(lambda connection: session.node_id_of(connection, self._broker)) or ""

    def make_node_id(self, missing: Callable[[], str]) -> str:
        """The store notes the node id when it is loaded."""
        return self.node_id() or missing()

    def state(self) -> bytes:
        rows = self._use(lambda connection: connection.rows(_STATE, (self._broker,)))
        return str(rows[0][0]).encode() if rows else b""

    def write_state(self, state: bytes) -> None:
        """A former holder writes nothing: what it would is refused."""
        if self._lease.state == "free":
            self._use(lambda connection: connection.run(_WRITE_STATE, (state.decode(), self._broker)))
        else:
            self._use(lambda connection: self._write_as_holder(connection, state))

    def _write_as_holder(self, connection: Connection, state: bytes) -> None:
        with transaction(connection):
            if not self._row.confirm(connection):
                raise self._fenced()
            connection.run(_WRITE_STATE, (state.decode(), self._broker))

    # --- the locks

    def lock(self) -> bool:
        return self._use(self._lease.acquire)

    def unlock(self) -> None:
        try:
            self._lease.give_back(self._use)
        except (HeldUpError, DatabaseError) as error:
            log.warn("the lease of this broker ends by itself: {error}", error=error)

    def queue(self) -> bool:
        now = self._clock.monotonic()
        if self._queued_at is None or now - self._queued_at >= self._terms.renew_period:
            self._queued_at = now if self._use(self._next.acquire) else None
        return self._queued_at is not None

    def leave_queue(self) -> None:
        self._queued_at = None
        try:
            self._use(self._next.give_back)
        except (HeldUpError, DatabaseError) as error:
            log.warn("the place of this backup is free later: {error}", error=error)

    def close(self) -> None:
        self._connections.close()

    # --- of the holder

    def begin(self) -> None:
        """Waits for a transaction of the former holder that is under way; none of its later ones counts.

        One that stands still in the middle of it may hold up the others for ever: its transaction is ended where that can be done.
        Whoever has stood still itself, so that the lease is another broker's by now, shuts nobody out.
        """
        try:
            self.epoch = self._use(self._shut_out)
        except HeldUpError:
            self._end_transaction()
            raise
        except FencedError as error:
            raise HeldUpError(str(error)) from error

    def _shut_out(self, connection: Connection) -> int:
        with transaction(connection):
            epoch = session.shut_out(connection, self._broker)
            # The lease comes last: it can be renewed while this waits for the former holder.
            if not self._row.confirm(connection):
                raise self._fenced()
            return epoch

    def _end_transaction(self) -> None:
        if not self._database.end_writers:
            return
        try:
            ended = self._use(lambda connection: connection.rows(self._database.end_writers, (SESSIONS,)))
        except (HeldUpError, DatabaseError) as error:
            log.warn("the transaction of the former holder of the lease cannot be ended: {error}", error=error)
        else:
            if ended:
                log.warn("the former holder of the lease stands still in a transaction, which is ended")

    def check(self) -> None:
        if not self._use(self._row.is_ours):
            raise self._fenced()

    def check_lock(self) -> None:
        """The row is the lock."""

    def _fenced(self) -> FencedError:
        return FencedError(f"{self.name}: another broker has taken the data")

    def _use(self, use: Callable[[Connection], T]) -> T:
        with _held_up():
            return self._connections.write(use)


@contextmanager
def _held_up() -> Iterator[None]:
    try:
        yield
    except DatabaseAwayError as error:
        raise HeldUpError(str(error)) from error
