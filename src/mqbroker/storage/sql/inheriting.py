"""Taking the data of another broker into this one while it serves, in steps, and the end of what was taken.

The reading thread reads (:mod:`mqbroker.storage.sql.adoption`); the loop takes it over in a turn
(:mod:`mqbroker.storage.sql.inheritance`).  An inherited session with nothing in it any more goes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from twisted.logger import Logger

from mqbroker.messaging.ports import Inherited, Recovered, WritingTurn
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.sql import session
from mqbroker.storage.sql.adoption import State, read_sessions
from mqbroker.storage.sql.batch import Origins, remove_queue
from mqbroker.storage.sql.bodies import SqlBodies
from mqbroker.storage.sql.connections import Connections
from mqbroker.storage.sql.damage import Damage
from mqbroker.storage.sql.database import Connection, DatabaseAwayError, transaction
from mqbroker.storage.sql.inheritance import inherit_state
from mqbroker.storage.sql.pager import SqlPager
from mqbroker.storage.sql.rows import PageRow
from mqbroker.storage.sql.schema import table
from mqbroker.storage.sql.session import ID_BLOCK, StoreSession
from mqbroker.storage.sql.source import Origin, Source
from mqbroker.storage.sql.texts import kept
from mqbroker.storage.sql.work import Work

Done = Callable[[Recovered | None, Exception | None], object]

_MOVE_DUPLICATES = table("UPDATE {duplicate} SET session = ? WHERE session = ?")
_MOVE_SETTINGS = table(
    "UPDATE {setting} SET session = ? WHERE session = ? AND kind = ? "
    "AND NOT EXISTS (SELECT 1 FROM {setting} s WHERE s.session = ? AND s.kind = {setting}.kind AND s.name = {setting}.name)"
)
_DROP_SETTINGS = table("DELETE FROM {setting} WHERE session = ? AND kind = ?")
_DROP_ADDRESSES = table("DELETE FROM {address} WHERE session = ?")
_END = table(
    "DELETE FROM {session} WHERE session = ? AND current = 0 "
    "AND NOT EXISTS (SELECT 1 FROM {reference} r WHERE r.session = ? AND r.durable = 1) "
    "AND NOT EXISTS (SELECT 1 FROM {branch} b WHERE b.session IN (?, ?)) AND NOT EXISTS (SELECT 1 FROM {duplicate} d WHERE d.session = ?)"
)
_REST = tuple(
    table(f"DELETE FROM {{{name}}} WHERE session = ? AND NOT EXISTS (SELECT 1 FROM {{session}} s WHERE s.session = ?)")
    for name in ("address", "queue", "setting", "reference", "message", "body", "removal")
)


class Inheriting:
    """The inherited sessions of a store.

    ``moving`` are the kinds of settings that become this broker's own with the queues.
    ``write`` hands work over for the next transaction; ``begin_ids`` lets ids go on from a number that was drawn.  A database that is away
    is asked again after ``pause`` seconds.
    """

    _log = Logger()

    def __init__(
        self,
        pager: SqlPager,
        bodies: SqlBodies,
        connections: Connections,
        reading: DiskWriter,
        call_later: Callable[..., object],
        write: Callable[[Work], object],
        begin_ids: Callable[[int], object],
        pause: float,
        moving: Collection[str],
    ) -> None:
        self.origins = Origins()
        self._pager = pager
        self._bodies = bodies
        self._connections = connections
        self._reading = reading
        self._call_later = call_later
        self._write = write
        self._begin_ids = begin_ids
        self._pause = pause
        self._moving = moving
        self._known: set[int] = set()
        self._ending: set[int] = set()
        """Sessions with nothing in them but rows that are still to be removed, perhaps."""
        self._closed = False

    def close(self) -> None:
        """Nobody is called any more."""
        self._closed = True

    def found(self, states: Sequence[State]) -> list[Inherited]:
        """The inherited data in sessions that were read just now, and not known before."""
        new = [state for state in states if state.session not in self._known]
        self._known.update(state.session for state in new)
        self._pager.removing.update(state.session for state in new if state.marked)
        return [
            inherit_state(state, self._pager, self._bodies, self.origins, Origin(state.session, self._emptied), self._assigned)
            for state in new
        ]

    def inherit(self, sessions: Sequence[StoreSession], turn: WritingTurn | None, done: Done) -> None:
        """See :meth:`mqbroker.storage.sql.sqlstore.SqlStore.inherit`."""
        states: list[State] = []
        new = [each for each in sessions if each.number not in self._known]
        first: list[int] = []
        self._reading.submit([partial(self._read, new, first, states)], partial(self._came, sessions, turn, done, first, states))

    def _read(self, sessions: Sequence[StoreSession], first: list[int], states: list[State]) -> None:
        """A step of the reading thread."""

        def read(connection: Connection) -> None:
            # Before all that clients send next, and above every id that the former owner has used.
            with transaction(connection):
                first.append(session.draw_ids(connection, ID_BLOCK))
            states.extend(read_sessions(connection, sessions, first[-1]))

        self._connections.read(read)

    def _came(
        self,
        sessions: Sequence[StoreSession],
        turn: WritingTurn | None,
        done: Done,
        first: list[int],
        states: list[State],
        error: Exception | None,
    ) -> None:
        if self._closed:
            return
        if isinstance(error, DatabaseAwayError):
            self._call_later(self._pause, self._again, sessions, turn, done)
        elif turn is None:
            self._take_over(done, first, states, error)
        else:
            turn.run(self._take_over, done, first, states, error)

    def _again(self, sessions: Sequence[StoreSession], turn: WritingTurn | None, done: Done) -> None:
        if not self._closed:
            self.inherit(sessions, turn, done)

    def _take_over(self, done: Done, first: list[int], states: list[State], error: Exception | None) -> None:
        if error is not None:
            done(None, error)
            return
        self._begin_ids(first[0])
        done(Recovered(inherited=self.found(states)), None)

    def _assigned(self, origin: Origin, state: State, deleted: Collection[int]) -> None:
        """The definitions are this broker's own from now on, and so are the duplicate ids; queues that were deleted go."""
        work = Work()
        work.ordered = [(_MOVE_DUPLICATES, (self._pager.session, state.session)), (_DROP_ADDRESSES, (state.session,))]
        for kind in map(kept, self._moving):
            work.ordered += [
                (_MOVE_SETTINGS, (self._pager.session, state.session, kind, self._pager.session)),
                (_DROP_SETTINGS, (state.session, kind)),
            ]
        for queue_id in deleted:
            remove_queue(work, state.session, queue_id)
        self._write(work)
        self.set_aside(state.damaged)
        self.tell_unknown(state, {*origin.queues.values(), *deleted})
        origin.check()

    def tell_unknown(self, state: State, queues: set[int]) -> None:
        """Messages of queues that nobody knows stay where they are."""
        for (address, queue_id), messages in state.counts.items():
            if queue_id not in queues and messages:
                self._log.error(
                    "{messages} messages of address {address} stay in session {session} of the database: their queue {queue} is not known",
                    messages=messages,
                    address=address,
                    session=state.session,
                    queue=queue_id,
                )

    def set_aside(self, damaged: Sequence[Damage]) -> None:
        """Rows could not be decoded: tell, and keep them where nobody reads them."""
        work = Work()
        for damage in damaged:
            self._log.error(
                "the row {key} of session {session} in the table {role} is damaged, and set aside: {reason}",
                key=damage.key,
                session=damage.session,
                role=damage.role,
                reason=damage.reason,
            )
            work.ordered += damage.statements
        if damaged:
            self._write(work)

    def damaged_row(self, source: Source, row: PageRow, error: Exception) -> None:
        """A message in the pages could not be decoded."""
        self.set_aside([Damage(source.session, "message", row.place, str(error), row.body)])

    def _emptied(self, origin: Origin) -> None:
        """Nothing seems to be left of a session: it goes, if the database says the same."""
        self._ending.add(origin.session)
        self._end(origin.session)

    def removed(self, sessions: set[int]) -> None:
        """The marked rows of these sessions are removed."""
        for number in sorted(sessions & self._ending):
            self._end(number)

    def _end(self, number: int) -> None:
        work = Work()
        # A branch that was set aside is still in question: its session leads to it.
        work.last = [(_END, (number, number, number, -number, number)), *((statement, (number, number)) for statement in _REST)]
        self._write(work)
