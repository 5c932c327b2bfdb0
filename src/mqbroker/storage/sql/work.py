"""The work of one transaction: that of all batches that have gathered, in phases.

Rows are added before they are changed, and changed before they are removed: so statements of one kind go to the database together, and
work of a later batch on rows of an earlier one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqbroker.storage.sql.bodies import PIECE_SIZE
from mqbroker.storage.sql.database import Connection
from mqbroker.storage.sql.schema import table

Parameters = tuple[object, ...]

BODY_PIECES = 512
"""Pieces of a body that one statement removes."""

ADD_MESSAGE = table(
    "INSERT INTO {message} (session, place, id, folder, address, headers, buffer, durable, branch, body, body_size) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
ADD_REFERENCE = table(
    "INSERT INTO {reference} (session, queue, place, folder, paged, durable, deliveries, due) VALUES (?, ?, ?, ?, ?, ?, 0, -1)"
)
ADD_DUPLICATE = table("INSERT INTO {duplicate} (session, record, cache, size, ids) VALUES (?, ?, ?, ?, ?)")
SET_DELIVERIES = table("UPDATE {reference} SET deliveries = ? WHERE session = ? AND queue = ? AND place = ?")
SET_DUE = table("UPDATE {reference} SET due = ? WHERE session = ? AND queue = ? AND place = ?")
REMOVE_REFERENCE = table("DELETE FROM {reference} WHERE session = ? AND queue = ? AND place = ?")
REMOVE_MESSAGE = table("DELETE FROM {message} WHERE session = ? AND place = ?")
REMOVE_UNREFERENCED = table(
    "DELETE FROM {message} WHERE session = ? AND place = ? "
    "AND NOT EXISTS (SELECT 1 FROM {reference} r WHERE r.session = {message}.session AND r.place = {message}.place)"
)
REMOVE_DUPLICATE = table("DELETE FROM {duplicate} WHERE session = ? AND record = ?")
REMOVE_BODY = table(
    "DELETE FROM {body} WHERE session = ? AND body = ? AND piece >= ? AND piece < ? "
    "AND NOT EXISTS (SELECT 1 FROM {message} m WHERE m.session = {body}.session AND m.body = {body}.body)"
)
ADD_MARK = table(
    "INSERT INTO {removal} (session, queue, number, folder, behind, until, adopted) "
    "SELECT ?, ?, COALESCE(MAX(number), 0) + 1, ?, ?, ?, ? FROM {removal} WHERE session = ? AND queue = ?"
)

_PHASES = (
    ADD_MESSAGE,
    ADD_REFERENCE,
    ADD_DUPLICATE,
    SET_DELIVERIES,
    SET_DUE,
    REMOVE_REFERENCE,
    REMOVE_MESSAGE,
    REMOVE_UNREFERENCED,
    REMOVE_DUPLICATE,
    ADD_MARK,
)


def body_removals(session: int, body: int, size: int) -> list[Parameters]:
    """The parameters with which REMOVE_BODY removes a body, unless a message still names it: a bounded part of it each time."""
    pieces = -(-size // PIECE_SIZE)
    return [(session, body, first, first + BODY_PIECES) for first in range(0, pieces, BODY_PIECES)]


class Work:
    """Statements by phase.  ``ordered`` run first, one by one: definitions, settings, branches; at the end bodies go that nobody names any
    more, and then what ``last`` ends: whole sessions."""

    __slots__ = ("bodies", "keep_bodies", "last", "ordered", "phases", "store_bodies")

    def __init__(self) -> None:
        self.ordered: list[tuple[str, Parameters]] = []
        self.last: list[tuple[str, Parameters]] = []
        self.phases: dict[str, list[Parameters]] = {}
        self.bodies: list[Parameters] = []
        """Parts of bodies that a removed message has named."""
        self.store_bodies: list[Callable[[Connection], object]] = []
        """Functions that put the pieces of bodies into the database."""
        self.keep_bodies: list[Callable[[Connection], object]] = []
        """Functions that take the pieces out again before they go."""

    def add(self, statement: str, parameters: Parameters) -> None:
        """One more statement of a phase."""
        gathered = self.phases.get(statement)
        if gathered is None:
            gathered = self.phases[statement] = []
        gathered.append(parameters)

    @property
    def empty(self) -> bool:
        return not (self.ordered or self.phases or self.last)

    @property
    def marked(self) -> set[int]:
        """The sessions in which it marks rows that go."""
        return {session for session, *_ in self.phases.get(ADD_MARK, ())}  # type: ignore[misc]

    def join(self, other: Work) -> None:
        """Take over the statements of a later batch."""
        self.ordered += other.ordered
        self.last += other.last
        for statement, parameters in other.phases.items():
            self.phases.setdefault(statement, []).extend(parameters)
        self.bodies += other.bodies
        self.store_bodies += other.store_bodies
        self.keep_bodies += other.keep_bodies

    def run(self, connection: Connection) -> None:
        """Run everything, within a transaction."""
        for store in self.store_bodies:
            store(connection)
        for statement in _PHASES[:2]:
            self._run_phase(connection, statement)
        for statement, parameters in self.ordered:
            connection.run_many(statement, [parameters])
        for statement in _PHASES[2:]:
            self._run_phase(connection, statement)
        for keep in self.keep_bodies:
            keep(connection)
        if self.bodies:
            connection.run_many(REMOVE_BODY, self.bodies)
        for statement, parameters in self.last:
            connection.run_many(statement, [parameters])

    def _run_phase(self, connection: Connection, statement: str) -> None:
        gathered: Sequence[Parameters] | None = self.phases.get(statement)
        if gathered:
            connection.run_many(statement, gathered)
