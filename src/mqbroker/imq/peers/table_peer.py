"""Asks the table of the change record as if it were a member: the same questions as to a master, answered by a thread of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mqbroker.config.model.home_cluster import SharedRecord
from mqbroker.imq.peers.member_table import MemberTable
from mqbroker.imq.peers.record_table import LockedError, OtherRecordError, RecordTable
from mqbroker.imq.record.changes import Definition, Wish, wish_of
from mqbroker.imq.record.codec import appended_values, page_values, wish_from
from mqbroker.imq.record.record import ChangeRecord
from mqbroker.messaging.administration.registrar import Change
from mqbroker.messaging.ports import Clock
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.sql.connections import Line
from mqbroker.storage.sql.database import Connection, Database, DatabaseAwayError, DatabaseError
from mqclient.errors import IllegalStateError, MQError, NotConnectedError
from mqclient.management import ManagementError

LOCK_SECONDS = 30.0
"""How long a start waits for a locked table."""

log = Logger(namespace="mqbroker.imq")

Work = Callable[[Connection, bool], Any]
"""Work of the thread with the connection; true: it was tried before on a connection that was lost."""


class TablePeer:
    """A :class:`mqbroker.imq.links.requests.Peer` that is always linked, unlike its database.

    ``place`` is this broker (host:port), ``own`` gives its definitions, which it puts on a record that it begins; ``new_id`` gives unique
    texts.  The thread of ``writer`` and one connection are this object's own.  All calls are made inside a turn.

    The first answer to ``join`` settles which record this broker follows.  Until then a database that is away, or a locked table, ends the
    start after some time; afterwards nothing but another record in the table does.
    """

    node_id = ""

    def __init__(
        self,
        shared: SharedRecord,
        database: Database,
        writer: DiskWriter,
        clock: Clock,
        place: str,
        own: Callable[[], list[Definition]],
        new_id: Callable[[], str],
    ) -> None:
        self.name = f"the database {database.name}"
        self.replaced = False
        """Is another record in the table than the one that this broker has joined?"""
        self.problem: str | None = None
        """Why the last question was not answered, in one line."""
        self._shared = shared
        self._line = Line(database)
        self._writer = writer
        self._clock = clock
        self._place = place
        self._own = own
        self._new_id = new_id
        self._table = RecordTable(database, shared.cluster)
        self._members = MemberTable(database, shared.cluster)
        self._generation: str | None = None
        """The generation of the record that this broker has joined."""
        self._failures = 0
        """Attempts to join without an answer of the database."""
        self._locked_since: float | None = None
        self._waiting: deque[tuple[str, Work, Deferred[Any]]] = deque()
        self._busy = False
        self._stopped = False

    # --- questions

    def ask(self, operation: str, *parameters: Any) -> Deferred[Any]:
        """As :meth:`mqbroker.imq.links.requests.Peer.ask`: ``join``, ``changes``, ``append``, and ``look`` for what is there."""
        answered: Deferred[Any] = Deferred()
        self._waiting.append((operation, self._work(operation, parameters), answered))
        self._next()
        return answered

    def stop(self) -> Deferred[None]:
        """Answer nothing more.  Completes when the connection is closed."""
        self._stopped = True
        self._fail_waiting(NotConnectedError("the broker stops"))
        closed: Deferred[None] = Deferred()
        self._writer.submit([self._line.close], lambda error: closed.callback(None))
        return closed

    def _work(self, operation: str, parameters: tuple[Any, ...]) -> Work:
        if operation == "join":
            _, _, _, generation, position = parameters
            return partial(self._join, generation, int(position), None if self._generation is not None else self._beginning())
        if operation == "changes":
            _, generation, position, floor = parameters
            return partial(self._changes, generation, int(position), floor)
        if operation == "append":
            place, wish, generation, known, deployed = parameters
            return partial(
                self._append, self._new_id(), str(place), wish_from(wish), generation, int(known), bool(deployed), self._clock.wall_ms()
            )
        [listed] = parameters
        return partial(self._look, listed)

    def _beginning(self) -> ChangeRecord:
        """The record that this broker begins where there is none: with all that it has, so that nothing is lost by joining."""
        now = self._clock.wall_ms()
        record = ChangeRecord.begin(self._new_id(), self._place, now)
        for definition in self._own():
            record.append(wish_of(Change("create", definition)), self._place, now, record.last)
        return record

    # --- one after the other

    def _next(self) -> None:
        if self._busy or self._stopped or not self._waiting:
            return
        self._busy = True
        operation, work, answered = self._waiting.popleft()
        answer: list[Any] = []
        self._writer.submit([lambda: answer.append(self._run(work))], partial(self._done, operation, answered, answer))

    def _done(self, operation: str, answered: Deferred[Any], answer: list[Any], error: Exception | None) -> None:
        self._busy = False
        if self._stopped:
            answered.errback(NotConnectedError("the broker stops"))
            return
        if error is None:
            self.problem = None
            answered.callback(self._noted(operation, answer[0]))
        else:
            self._failed(operation, answered, error)
        self._next()

    def _noted(self, operation: str, answer: Any) -> Any:
        if operation == "join" and "generation" in answer:
            self._generation, self._failures, self._locked_since = answer["generation"], 0, None
        elif operation in ("join", "changes") and "refused" in answer:
            self.replaced = True
        return answer

    def _failed(self, operation: str, answered: Deferred[Any], error: Exception) -> None:
        self.problem = f"{self.name} does not answer: {error}" if isinstance(error, DatabaseAwayError) else str(error)
        reason = self._end_of_start(error) if operation == "join" and self._generation is None else None
        if reason is not None:
            answered.callback({"refused": reason})
        elif isinstance(error, DatabaseAwayError):
            lost = NotConnectedError(self.problem)
            answered.errback(lost)
            self._fail_waiting(lost)  # each of them would wait for the database as long again
        elif isinstance(error, LockedError):
            answered.errback(NotConnectedError(self.problem))
        elif isinstance(error, DatabaseError):
            answered.errback(ManagementError(self.problem))
        else:
            answered.errback(error)

    def _end_of_start(self, error: Exception) -> str | None:
        """Why a start is given up after this error; None where it is to try again."""
        if isinstance(error, DatabaseAwayError):
            self._failures += 1
            if 0 <= self._shared.retries < self._failures:
                return f"the change record cannot be reached after {self._failures} attempts: {self.problem}"
            return None
        if isinstance(error, LockedError):
            now = self._clock.monotonic()
            if self._locked_since is None:
                self._locked_since = now
            if now - self._locked_since < LOCK_SECONDS:
                return None
            return f"CONFLICT: {error} after {LOCK_SECONDS:g} s. `mqbroker imq dbmgr reset lck` clears a lock that was left behind"
        return f"the change record cannot be used: {error}"

    def _fail_waiting(self, error: MQError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, _, answered in waiting:
            answered.errback(error)

    # --- in the thread

    def _run(self, work: Work) -> Any:
        """Twice, because a connection may have been lost since the last time, and a commit may have lost its answer."""
        try:
            return self._line.use(lambda connection: work(connection, False))
        except DatabaseAwayError:
            return self._line.use(lambda connection: work(connection, True))

    def _join(self, generation: str | None, position: int, beginning: ChangeRecord | None, connection: Connection, again: bool) -> Any:
        if beginning is None:
            return self._page(connection, generation, position, None)
        if self._shared.create:
            self._table.create(connection)
        record = self._table.begin(connection, beginning)
        return page_values(record.generation, record.since(generation, position))

    def _changes(self, generation: str | None, position: int, floor: int | None, connection: Connection, again: bool) -> Any:
        return self._page(connection, generation, position, floor)

    def _page(self, connection: Connection, generation: str | None, position: int, floor: int | None) -> Any:
        record = self._table.read(connection)
        if record is None or record.generation != self._generation:
            return {"refused": f"PRECONDITION_FAILED: {self.name} has another change record than the one that this broker has joined"}
        page = record.since(generation, position) if floor is None else record.following(position, floor)
        return page_values(record.generation, page)

    def _append(
        self,
        token: str,
        place: str,
        wish: Wish,
        generation: str,
        known: int,
        deployed: bool,
        time_ms: int,
        connection: Connection,
        again: bool,
    ) -> Any:
        try:
            return appended_values(self._table.append(connection, generation, token, wish, place, time_ms, known, deployed, again=again))
        except LockedError:
            return {"retry": True}
        except OtherRecordError as error:
            return {"error": [IllegalStateError.code, f"PRECONDITION_FAILED: {error}"]}
        except MQError as error:
            return {"error": [error.code, str(error)]}

    def _look(self, listed: bool, connection: Connection, again: bool) -> Any:
        generation, position = self._table.position(connection)
        members = self._members.note(connection, self._place) if listed else None
        return {"generation": generation, "position": position, "members": members}
