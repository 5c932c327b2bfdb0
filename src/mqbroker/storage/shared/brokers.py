"""The members of enhanced clusters, a row each [B10.2, B10.3].

A row says where the broker is, what it does, and when it was last there: its stamp is the time of the database, so that no two clocks are
compared.  A change of a row names the row as it was seen; a row that is otherwise by now stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from mqbroker.storage.sql import session
from mqbroker.storage.sql.database import Connection, Database, DatabaseError, Row, transaction
from mqbroker.storage.sql.schema import table
from mqbroker.storage.sql.session import StoreSession


class State(IntEnum):
    """The state of a member, by the numbers of OpenMQ."""

    INITIALIZING = 0
    OPERATING = 1
    QUIESCE_STARTED = 2
    QUIESCE_COMPLETED = 3
    SHUTDOWN_STARTED = 4
    SHUTDOWN_FAILOVER = 5
    """The member has stopped, and wants another one to go on."""
    SHUTDOWN_COMPLETE = 6
    FAILOVER_STARTED = 7
    FAILOVER_COMPLETE = 8
    FAILOVER_PENDING = 9


RUNNING = frozenset((State.INITIALIZING, State.OPERATING, State.QUIESCE_STARTED, State.QUIESCE_COMPLETED, State.SHUTDOWN_STARTED))
"""The states that a broker keeps up by its stamp."""

BEING_TAKEN = frozenset((State.FAILOVER_PENDING, State.FAILOVER_STARTED))
"""Another member has the row, and the data are not its own yet."""

FORGOTTEN_MS = 7 * 24 * 3600 * 1000
"""A client of a broker that was taken over is sent to the taker for so long since the last takeover, ms.

Nothing is left for one that comes later, unless there is a session of that node: any member serves it, as a client of an unknown node.
"""

_OVER = f"({', '.join(str(int(state)) for state in State if state not in RUNNING)})"
_COLUMNS = "broker, cluster, url, node_id, version, state, taker, stamp, owner, folder"
_ROW = table(f"SELECT {_COLUMNS} FROM {{broker}} WHERE broker = ?")
_ROWS = table(f"SELECT {_COLUMNS} FROM {{broker}} WHERE cluster = ? ORDER BY broker")
_INSERT = f"INSERT INTO {{broker}} ({_COLUMNS}) VALUES (?, ?, ?, '', ?, ?, '', {{now}}, ?, ?) ON CONFLICT (broker) DO NOTHING"
_JOIN = (
    "UPDATE {broker} SET url = ?, version = ?, state = ?, taker = '', stamp = {now}, owner = ?, folder = ? "
    "WHERE broker = ? AND cluster = ? AND state = ? AND stamp = ? AND owner = ?"
)
_STAMP = (
    f"UPDATE {{broker}} SET stamp = {{now}}, state = ?, node_id = ? WHERE broker = ? AND owner = ? AND state NOT IN {_OVER} RETURNING stamp"
)
_LOCK = (
    "UPDATE {broker} SET taker = ?, state = ?, stamp = {now} WHERE broker = ? AND state = ? AND stamp = ? AND taker = '' RETURNING stamp"
)
_TOUCH = table("UPDATE {broker} SET owner = owner WHERE broker = ?")
_BEGIN = table("UPDATE {broker} SET state = ? WHERE broker = ? AND taker = ? AND state = ?")
_LIVES = table(f"UPDATE {{broker}} SET owner = owner WHERE broker = ? AND owner = ? AND state NOT IN {_OVER}")
_RESTORE = table("UPDATE {broker} SET state = ?, taker = '', stamp = ? WHERE broker = ? AND taker = ? AND state IN (?, ?)")
_COMPLETE = table("UPDATE {broker} SET state = ?, taker = ? WHERE broker = ? AND taker = ? AND state IN (?, ?)")
_RELEASE = table("UPDATE {broker} SET state = ?, taker = '' WHERE taker = ? AND state IN (?, ?)")
_UNFINISHED = table("SELECT broker FROM {broker} WHERE taker = ? AND state IN (?, ?) ORDER BY broker")
_SESSIONS = table("SELECT node_id, broker FROM {session}")
_FORMER = table("SELECT node_id, broker FROM {former}")
_NOTE_FORMER = (
    "INSERT INTO {former} (node_id, broker, since) VALUES (?, ?, {now}) "
    "ON CONFLICT (node_id) DO UPDATE SET broker = excluded.broker, since = excluded.since"
)
_PASS_FORMER = "UPDATE {former} SET broker = ?, since = {now} WHERE broker = ?"
_FORGET_FORMER = f"DELETE FROM {{former}} WHERE since < {{now}} - {FORGOTTEN_MS}"
_MESSAGES = table("SELECT s.broker, COUNT(*) FROM {session} s JOIN {message} m ON m.session = s.session GROUP BY s.broker")
_REMOVE_FORMER = table("DELETE FROM {former} WHERE broker = ?")
_REMOVE = table("DELETE FROM {broker} WHERE broker = ? AND state = ? AND stamp = ?")


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A member: its id (``imq.brokerid``), the cluster, where it is (host:port), the node id of its current session, its version.

    ``taker`` is the id of the member that takes it over or has done so, '' without one; ``stamp`` is a time of the database, ms since 1970.
    ``owner`` names the process, ``folder`` its instance on the disk.
    """

    broker: str
    cluster: str
    url: str
    node_id: str
    version: str
    state: State
    taker: str
    stamp: int
    owner: str
    folder: str


@dataclass(frozen=True, slots=True)
class Myself:
    """This process as a member."""

    broker: str
    cluster: str
    url: str
    version: str
    owner: str
    folder: str


class NotTakenError(Exception):
    """The row of a member is not as it was seen: somebody else takes it over, or it is back."""


class BrokerTable:
    """The statements.  All methods block, and raise DatabaseAwayError and DatabaseError."""

    def __init__(self, database: Database) -> None:
        def timed(statement: str) -> str:
            return table(statement.replace("{now}", database.now))

        self._now = f"SELECT {database.now}"
        self._insert = timed(_INSERT)
        self._join = timed(_JOIN)
        self._stamp = timed(_STAMP)
        self._lock = timed(_LOCK)
        self._note_former = timed(_NOTE_FORMER)
        self._pass_former = timed(_PASS_FORMER)
        self._forget_former = timed(_FORGET_FORMER)

    # --- views

    def now(self, connection: Connection) -> int:
        """The time of the database, ms since 1970."""
        number: int = connection.rows(self._now)[0][0]
        return number

    def row(self, connection: Connection, broker: str) -> BrokerRow | None:
        found = connection.rows(_ROW, (broker,))
        return _row(found[0]) if found else None

    def settled(self, connection: Connection, broker: str) -> BrokerRow | None:
        """The row, in a transaction of its own: what a lost connection has changed there is done by then, or never will be.

        The database may still be busy with the commit of that connection, so the row is written before it is read.
        """
        with transaction(connection):
            connection.run(_TOUCH, (broker,))
            return self.row(connection, broker)

    def rows(self, connection: Connection, cluster: str) -> list[BrokerRow]:
        """All members, in the order of their ids."""
        return [_row(each) for each in connection.rows(_ROWS, (cluster,))]

    def messages(self, connection: Connection) -> dict[str, int]:
        """The number of messages that each broker has in the database."""
        return {str(broker): int(count) for broker, count in connection.rows(_MESSAGES)}

    def owners(self, connection: Connection) -> dict[str, str]:
        """The broker that has the data of each node id, also of those of which nothing is left."""
        return {str(node_id): str(broker) for node_id, broker in (*connection.rows(_FORMER), *connection.rows(_SESSIONS))}

    # --- the own row

    def join(self, connection: Connection, me: Myself, seen: BrokerRow | None) -> bool:
        """Make the row this process's, or put it in where none was ``seen``; false when it is not as it was seen.

        Takeovers that this broker had begun and not ended are anybody's now: its own data may be older than those of the lost member.
        """
        with transaction(connection):
            if seen is None:
                values = me.broker, me.cluster, me.url, me.version, int(State.INITIALIZING), me.owner, me.folder
                joined = connection.run(self._insert, values) == 1
            else:
                changed = me.url, me.version, int(State.INITIALIZING), me.owner, me.folder
                known = me.broker, me.cluster, int(seen.state), seen.stamp, seen.owner
                joined = connection.run(self._join, (*changed, *known)) == 1
            if joined:
                self._release(connection, me)
            return joined

    def stamp(self, connection: Connection, me: Myself, state: State, node_id: str) -> int | None:
        """This process is there, in this state; nothing follows the state of an end.  Returns the new stamp; None when the row is not its
        own any more."""
        found = connection.rows(self._stamp, (int(state), node_id, me.broker, me.owner))
        return None if not found else int(found[0][0])

    def end(self, connection: Connection, me: Myself, state: State, node_id: str) -> int | None:
        """As :meth:`stamp`, for the last state.  Takeovers that this broker had begun and not ended are anybody's now."""
        with transaction(connection):
            stamp = self.stamp(connection, me, state, node_id)
            if stamp is not None:
                self._release(connection, me)
            return stamp

    @staticmethod
    def _release(connection: Connection, me: Myself) -> None:
        connection.run(_RELEASE, (int(State.SHUTDOWN_FAILOVER), me.broker, *_being_taken()))

    # --- takeovers

    def lock(self, connection: Connection, seen: BrokerRow, taker: str) -> int | None:
        """Decide who takes a member over: whoever changes the row that all have seen.  Returns its new stamp; None for all others."""
        known = seen.broker, int(seen.state), seen.stamp
        found = connection.rows(self._lock, (taker, int(State.FAILOVER_PENDING), *known))
        return None if not found else int(found[0][0])

    def switch(
        self, connection: Connection, me: Myself, target: str, owner: str, check: Callable[[Connection, Sequence[StoreSession]], object]
    ) -> list[StoreSession]:
        """In one transaction: the data of ``target`` are this broker's, whose store is ``owner``; so are those that the target was about to
        take over.  Returns the sessions, oldest first.

        ``check`` gets them when their former owner cannot write any more; nothing is changed where it raises.  Raises NotTakenError when
        this process does not have the row, or has lost its own.
        """
        taker = me.broker
        with transaction(connection):
            if connection.run(_BEGIN, (int(State.FAILOVER_STARTED), target, taker, int(State.FAILOVER_PENDING))) != 1:
                raise NotTakenError(f"the row of {target} is not that of {taker} any more")
            if connection.run(_LIVES, (taker, me.owner)) != 1:
                raise NotTakenError(f"{taker} is taken over itself")
            sessions = self._get(connection, target, taker, owner)
            sessions += self._end_unfinished(connection, target, taker, owner)
            check(connection, sessions)
            connection.run(_COMPLETE, (int(State.FAILOVER_COMPLETE), taker, target, taker, *_being_taken()))
            return sessions

    def _get(self, connection: Connection, target: str, taker: str, owner: str) -> list[StoreSession]:
        """Give ``taker`` all data of ``target``; clients of its nodes will be sent there."""
        sessions = session.switch(connection, target, taker, owner)
        connection.run(self._pass_former, (taker, target))
        connection.run(self._forget_former)
        for each in sessions:
            connection.run(self._note_former, (each.node_id, taker))
        return sessions

    def restore(self, connection: Connection, seen: BrokerRow, taker: str) -> None:
        """The takeover has failed before the switch: the row is as it was."""
        connection.run(_RESTORE, (int(seen.state), seen.stamp, seen.broker, taker, *_being_taken()))

    def _end_unfinished(self, connection: Connection, former: str, taker: str, owner: str) -> list[StoreSession]:
        """Give ``taker`` the members that ``former`` was about to take over."""
        sessions: list[StoreSession] = []
        for (broker,) in connection.rows(_UNFINISHED, (former, *_being_taken())):
            if broker != taker:
                sessions += self._get(connection, broker, taker, owner)
                connection.run(_COMPLETE, (int(State.FAILOVER_COMPLETE), taker, broker, former, *_being_taken()))
        return sessions

    # --- administration

    def remove(self, connection: Connection, seen: BrokerRow) -> bool:
        """Forget a member that is not there any more; false when the row is not as it was seen.  Raises DatabaseError for one that runs."""
        if seen.state in RUNNING or seen.state in BEING_TAKEN:
            raise DatabaseError(f"{seen.broker} is {seen.state.name}")
        removed = connection.run(_REMOVE, (seen.broker, int(seen.state), seen.stamp)) == 1
        if removed:
            connection.run(_REMOVE_FORMER, (seen.broker,))
        return removed


def _being_taken() -> tuple[int, ...]:
    return int(State.FAILOVER_PENDING), int(State.FAILOVER_STARTED)


def _row(values: Row) -> BrokerRow:
    broker, cluster, url, node_id, version, state, taker, stamp, owner, folder = values
    return BrokerRow(broker, cluster, url, node_id, version, State(state), taker, stamp, owner, folder)
