"""What one transaction does: the work of all batches that have gathered, in phases.

Rows are added before they are changed, and changed before they are removed: so statements of one kind go to the database together, and
work of a later batch on rows of an earlier one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqbroker.storage.sql.database import Connection
from mqbroker.storage.sql.schema import table

Parameters = tuple[object, ...]

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
    "DELETE FROM {body} WHERE session = ? AND body = ? "
    "AND NOT EXISTS (SELECT 1 FROM {message} m WHERE m.session = {body}.session AND m.body = {body}.body)"
)

DROP_UNREFERENCED = table(
    "DELETE FROM {message} WHERE session = ? AND NOT EXISTS "
    "(SELECT 1 FROM {reference} r WHERE r.session = {message}.session AND r.place = {message}.place)"
)
DROP_UNNAMED_BODIES = table(
    "DELETE FROM {body} WHERE session = ? AND NOT EXISTS "
    "(SELECT 1 FROM {message} m WHERE m.session = {body}.session AND m.body = {body}.body)"
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
)


class Work:
    """Statements by phase.  ``ordered`` run first, one by one: definitions, settings, branches; ``last`` run at the end: whole queues and
    ranges that go, then bodies that nobody names any more."""

    __slots__ = ("bodies", "last", "ordered", "phases", "store_bodies")

    def __init__(self) -> None:
        self.ordered: list[tuple[str, Parameters]] = []
        self.phases: dict[str, list[Parameters]] = {}
        self.last: list[tuple[str, Parameters]] = []
        self.bodies: list[Parameters] = []
        """Bodies that a removed message has named."""
        self.store_bodies: list[Callable[[Connection], object]] = []
        """Functions that put the pieces of bodies into the database."""

    def add(self, statement: str, parameters: Parameters) -> None:
        """One more statement of a phase."""
        gathered = self.phases.get(statement)
        if gathered is None:
            gathered = self.phases[statement] = []
        gathered.append(parameters)

    @property
    def empty(self) -> bool:
        return not (self.ordered or self.phases or self.last)

    def join(self, other: Work) -> None:
        """Take over the statements of a later batch."""
        self.ordered += other.ordered
        for statement, parameters in other.phases.items():
            self.phases.setdefault(statement, []).extend(parameters)
        self.last += other.last
        self.bodies += other.bodies
        self.store_bodies += other.store_bodies

    def run(self, connection: Connection) -> None:
        """Run everything, within a transaction."""
        for store in self.store_bodies:
            store(connection)
        for statement in _PHASES[:2]:
            self._run_phase(connection, statement)
        for statement, parameters in self.ordered:
            connection.run(statement, parameters)
        for statement in _PHASES[2:]:
            self._run_phase(connection, statement)
        for statement, parameters in self.last:
            connection.run(statement, parameters)
        if self.bodies:
            connection.run_many(REMOVE_BODY, self.bodies)

    def _run_phase(self, connection: Connection, statement: str) -> None:
        gathered: Sequence[Parameters] | None = self.phases.get(statement)
        if gathered:
            connection.run_many(statement, gathered)
