"""The session of a broker in the database: whose data they are, and the fence that each transaction goes through.

The first statement of every transaction writes its number into the row of the session, provided that owner and epoch are still its own.
So a takeover, which changes that row, waits for the transaction or makes it fail; and a broker that has lost the answer to a commit looks
the number up.
"""

from __future__ import annotations

from dataclasses import dataclass

from mqbroker.storage.errors import FencedError
from mqbroker.storage.sql.database import Connection, transaction
from mqbroker.storage.sql.schema import table

ID_BLOCK = 1 << 32
"""Ids drawn at a time; a broker that starts again leaves out what is left of its block.

Work that is not durable needs ids while the database is away: half a block lasts for every outage, and there are 2^31 blocks.
"""


@dataclass(frozen=True, slots=True)
class StoreSession:
    """One ownership of a broker's data: ``number`` names the data, ``owner`` and ``epoch`` the ownership."""

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
        whose = self.number, self.owner, self.epoch
        if connection.run(table("UPDATE {session} SET batch = batch WHERE session = ? AND owner = ? AND epoch = ?"), whose) != 1:
            raise self._fenced()
        number: int = connection.rows(table("SELECT batch FROM {session} WHERE session = ?"), (self.number,))[0][0]
        return number

    def _fenced(self) -> FencedError:
        return FencedError(f"the data of node {self.node_id} have another owner than {self.owner} in epoch {self.epoch}")


def node_id_of(connection: Connection) -> str | None:
    """The node id of the data that are there; None for an empty database."""
    found = connection.rows(table("SELECT node_id FROM {session} ORDER BY session"))
    return str(found[0][0]) if found else None


def settle_node_id(connection: Connection, node_id: str) -> str:
    """The node id of the data that are there; an empty database gets a session with ``node_id``, which nobody owns yet.

    So of several brokers that start on an empty database at the same time the first one decides.
    """
    found = node_id_of(connection)
    if found is not None:
        return found
    with transaction(connection):
        number = draw_ids(connection, 1)  # waits for another broker that does the same
        found = node_id_of(connection)
        if found is None:
            connection.run(
                table("INSERT INTO {session} (session, node_id, owner, epoch, batch) VALUES (?, ?, '', 0, 0)"), (number, node_id)
            )
    return found or node_id


def take(connection: Connection, node_id: str, owner: str) -> StoreSession:
    """Become the owner of the data of this node, in a transaction of its own; a former owner writes nothing more."""
    with transaction(connection):
        found = connection.rows(table("SELECT session, epoch FROM {session} WHERE node_id = ?"), (node_id,))
        if found:
            number, epoch = found[0][0], found[0][1] + 1
            changed = connection.run(
                table("UPDATE {session} SET owner = ?, epoch = ?, batch = 0 WHERE session = ? AND epoch = ?"),
                (owner, epoch, number, epoch - 1),
            )
            if changed != 1:
                raise FencedError(f"another broker has taken the data of node {node_id} at the same time")
        else:
            number, epoch = draw_ids(connection, 1), 1
            connection.run(
                table("INSERT INTO {session} (session, node_id, owner, epoch, batch) VALUES (?, ?, ?, ?, 0)"),
                (number, node_id, owner, epoch),
            )
    return StoreSession(number, node_id, owner, epoch)


def draw_ids(connection: Connection, count: int) -> int:
    """Draw ``count`` numbers that nobody else gets, within a transaction.  Returns the first."""
    connection.run(table("UPDATE {ids} SET next_id = next_id + ?"), (count,))
    following: int = connection.rows(table("SELECT next_id FROM {ids}"))[0][0]
    return following - count
