"""The session of a broker in the database: whose data they are, and the fence that each transaction goes through.

The first statement of every transaction writes its number into the row of the session, provided that owner and epoch are still its own.
So a takeover, which changes that row, waits for the transaction or makes it fail; and a broker that has lost the answer to a commit looks
the number up.

A broker of an enhanced cluster has one current session, which it writes to, and inherited ones: those that it has taken from other brokers.
A takeover changes all rows of a broker in one transaction, so the row of the current session is the fence for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mqbroker.storage.errors import FencedError, OwnerChangedError
from mqbroker.storage.sql.database import Connection, transaction
from mqbroker.storage.sql.schema import OF_SESSIONS, PREFIX, table
from mqbroker.storage.sql.texts import given, kept

ID_BLOCK = 1 << 32
"""Ids drawn at a time; a broker that starts again leaves out what is left of its block.

Work that is not durable needs ids while the database is away: half a block lasts for every outage, and there are 2^31 blocks.
"""


@dataclass(frozen=True, slots=True)
class StoreSession:
    """One ownership of a broker's data: ``number`` names the data, ``owner`` (a process) and ``epoch`` the ownership."""

    number: int
    node_id: str
    owner: str
    epoch: int

    def write(self, connection: Connection, batch: int) -> None:
        """Go through the fence; the first statement of a transaction.  Raises FencedError."""
        statement = table("UPDATE {session} SET batch = ? WHERE session = ? AND owner = ? AND epoch = ?")
        if connection.run(statement, (batch, self.number, self.owner, self.epoch)) != 1:
            raise self._fenced()

    def last_batch(self, connection: Connection) -> int:
        """The number of the last transaction that was committed, within a transaction.  Raises FencedError.

        The row is written before it is read: the database may still be busy with a commit whose connection is lost, and holds the row until
        that has an end.
        """
        self.hold(connection)
        number: int = connection.rows(table("SELECT batch FROM {session} WHERE session = ?"), (self.number,))[0][0]
        return number

    def hold(self, connection: Connection) -> None:
        """Go through the fence with the number of before: the first statement of a transaction in which nobody looks for its answer.

        Raises FencedError.
        """
        statement = table("UPDATE {session} SET batch = batch WHERE session = ? AND owner = ? AND epoch = ?")
        if connection.run(statement, (self.number, self.owner, self.epoch)) != 1:
            raise self._fenced()

    def _fenced(self) -> FencedError:
        return OwnerChangedError(f"the data of node {self.node_id} have another owner than {self.owner} in epoch {self.epoch}")


def node_id_of(connection: Connection, broker: str = "") -> str | None:
    """The node id of the broker's current session; None where it has none."""
    found = connection.rows(table("SELECT node_id FROM {session} WHERE broker = ? AND current = 1 ORDER BY session"), (broker,))
    return str(found[0][0]) if found else None


def settle_node_id(connection: Connection, local: str, new: Callable[[], str], broker: str = "") -> str:
    """The node id of the broker's current session; a broker that has none gets one, which no process owns yet.

    That has the node id of the ``local`` folder, or a ``new`` one after another broker has taken the data that had it, also if nothing is
    left of them: clients that come from that node do not belong here.  So of several processes that start on an empty database at the same
    time the first one decides.
    """
    found = node_id_of(connection, broker)
    if found is not None:
        return found
    with transaction(connection):
        number = draw_ids(connection, 1)  # waits for another broker that does the same
        found = node_id_of(connection, broker)
        if found is None:
            found = new() if _is_known(connection, local) or _was_member(connection, broker) else local
            _add_session(connection, StoreSession(number, found, "", 0), broker)
    return found


def _is_known(connection: Connection, node_id: str) -> bool:
    """Are there data of this node id, or have there been some that another broker has taken?"""
    statement = table("SELECT 1 FROM {session} WHERE node_id = ? UNION ALL SELECT 1 FROM {former} WHERE node_id = ?")
    return bool(connection.rows(statement, (node_id, node_id)))


def _was_member(connection: Connection, broker: str) -> bool:
    """Was the broker a member of an enhanced cluster before?  Where it has no session, its data were taken."""
    return bool(connection.rows(table("SELECT 1 FROM {broker} WHERE broker = ?"), (broker,)))


def _add_session(connection: Connection, session: StoreSession, broker: str) -> None:
    columns = "session, node_id, broker, current, taken, owner, epoch, batch"
    values = session.number, session.node_id, broker, session.owner, session.epoch
    connection.run(table(f"INSERT INTO {{session}} ({columns}) VALUES (?, ?, ?, 1, 0, ?, ?, 0)"), values)


def take(connection: Connection, node_id: str, owner: str, broker: str = "", epoch: int = 0) -> StoreSession:
    """Become the owner of all data of this broker, in a transaction of its own; a former owner writes nothing more.

    ``node_id`` is that of the current session, which is made where the broker has none.  ``epoch`` is the one that :func:`shut_out` has
    given, 0 = nobody was shut out.  Returns that session; :func:`inherited` gives the other ones.  Raises FencedError when somebody else
    has taken the data, also since that epoch was given.
    """
    with transaction(connection):
        found = connection.rows(
            table("SELECT session, epoch FROM {session} WHERE broker = ? AND node_id = ? AND current = 1"), (broker, node_id)
        )
        if found:
            number, epoch = found[0][0], epoch or found[0][1] + 1
            changed = connection.run(
                table("UPDATE {session} SET owner = ?, epoch = ?, batch = 0 WHERE session = ? AND epoch = ? AND broker = ?"),
                (owner, epoch, number, epoch - 1, broker),
            )
            if changed != 1:
                raise FencedError(f"another broker has taken the data of node {node_id} meanwhile")
        elif _is_known(connection, node_id):
            raise FencedError(f"another broker has taken the data of node {node_id}")
        else:
            number, epoch = draw_ids(connection, 1), 1
            _add_session(connection, StoreSession(number, node_id, owner, epoch), broker)
        connection.run(table("UPDATE {session} SET owner = ?, epoch = epoch + 1 WHERE broker = ? AND current = 0"), (owner, broker))
    return StoreSession(number, node_id, owner, epoch)


def inherited(connection: Connection, own: StoreSession, broker: str) -> list[StoreSession]:
    """The sessions of other brokers whose data are this one's now, in the order of their messages; ``own`` is its current one."""
    statement = table("SELECT session, node_id, owner, epoch FROM {session} WHERE broker = ? AND current = 0 AND owner = ? ORDER BY taken")
    return [StoreSession(*row) for row in connection.rows(statement, (broker, own.owner))]


def settings_of(connection: Connection, sessions: Iterable[StoreSession], kind: str) -> dict[str, str]:
    """The settings of one kind that are stored with these data, by name."""
    statement = table("SELECT name, value FROM {setting} WHERE session = ? AND kind = ?")
    return {given(name): given(value) for each in sessions for name, value in connection.rows(statement, (each.number, kept(kind)))}


def switch(connection: Connection, target: str, taker: str, owner: str) -> list[StoreSession]:
    """Make every session of the broker ``target`` one of ``taker``, whose process is ``owner``; within a transaction of the caller.

    Waits for a transaction of the target that is under way; whatever it tries later changes nothing.  Returns the sessions, in the order of
    their messages: what the target had inherited comes before its own.  None are left where somebody else has taken them.
    """
    statement = table(
        "UPDATE {session} SET broker = ?, owner = ?, epoch = epoch + 1, taken = CASE WHEN current = 1 THEN ? ELSE taken END, current = 0 "
        "WHERE broker = ? RETURNING taken, session, node_id, owner, epoch"
    )
    rows = connection.rows(statement, (taker, owner, draw_ids(connection, 1), target))
    return [StoreSession(*row) for _, *row in sorted(rows)]


def shut_out(connection: Connection, broker: str) -> int:
    """Nobody owns the data of this broker any more, until they are taken; waits for a transaction of the owner that is under way.

    Returns the epoch of the next owner.
    """
    connection.run(table("UPDATE {session} SET owner = '', epoch = epoch + 1 WHERE broker = ?"), (broker,))
    found = connection.rows(table("SELECT MAX(epoch) FROM {session} WHERE broker = ? AND current = 1"), (broker,))
    return (found[0][0] or 0) + 1


def drop(connection: Connection, broker: str) -> int:
    """Remove all data of a broker, in a transaction of its own; its process, if there is one, writes nothing more.

    Returns the number of its sessions.
    """
    with transaction(connection):
        return clear(connection, broker)


def clear(connection: Connection, broker: str) -> int:
    """As :func:`drop`, within a transaction of the caller."""
    found = connection.rows(table("SELECT session FROM {session} WHERE broker = ?"), (broker,))
    for (number,) in found:
        for name in OF_SESSIONS:
            connection.run(f"DELETE FROM {PREFIX}{name} WHERE session = ?", (number,))
    connection.run(table("DELETE FROM {session} WHERE broker = ?"), (broker,))
    return len(found)


def draw_ids(connection: Connection, count: int) -> int:
    """Draw ``count`` numbers that nobody else gets, within a transaction.  Returns the first."""
    connection.run(table("UPDATE {ids} SET next_id = next_id + ?"), (count,))
    following: int = connection.rows(table("SELECT next_id FROM {ids}"))[0][0]
    return following - count
