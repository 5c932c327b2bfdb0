"""Rows that go in large numbers: marked in one transaction, removed by those that follow, a piece each.

A purge or the end of a queue may be about a million rows.  One statement for all of them could take longer than the database grants it, and
nothing else would be written meanwhile.  So the transaction that decides writes a mark: from its commit on nobody counts or reads what the
mark is about, also after a restart.  Pieces of it go with the transactions of other work, or in some of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mqbroker.storage.sql.database import Connection, transaction
from mqbroker.storage.sql.schema import table
from mqbroker.storage.sql.session import StoreSession
from mqbroker.storage.sql.texts import given, kept
from mqbroker.storage.sql.work import ADD_MARK, REMOVE_BODY, Work, body_removals

PIECE_ROWS = 500
"""References that go in one transaction."""

PIECE_BYTES = 64 * 1024 * 1024
"""Bytes of large bodies after which a transaction removes no more."""

EVERYTHING = 1 << 62
"""A place behind all others."""

EVERY_QUEUE = 0
"""In the place of a queue: the references of all queues that do not survive a restart."""

_MARKED = (
    "SELECT 1 FROM {removal} g WHERE g.session = r.session AND g.queue = r.queue AND (g.folder IS NULL OR g.folder = r.folder) "
    "AND r.place > g.behind AND r.place <= g.until AND (r.paged = 1 OR r.place <= g.adopted)"
)
NOT_MARKED = f"NOT EXISTS ({_MARKED})"
"""The condition for references ``r`` that are still there."""

_RANGE = "r.session = ? AND r.queue = ? AND r.place > ? AND r.place <= ? AND (r.paged = 1 OR r.place <= ?)"
_FOUND = (
    "SELECT r.queue, r.place, m.body, m.body_size FROM {reference} r "
    "LEFT JOIN {message} m ON m.session = r.session AND m.place = r.place WHERE "
)
_OF_QUEUE = table(f"{_FOUND}{_RANGE} ORDER BY r.place LIMIT ?")
_OF_FOLDER = table(f"{_FOUND}{_RANGE} AND r.folder = ? ORDER BY r.place LIMIT ?")
_TRANSIENT = table(f"{_FOUND}r.session = ? AND r.durable = 0 AND r.place > ? AND r.place <= ? ORDER BY r.place LIMIT ?")
_HAS_TRANSIENT = table("SELECT 1 FROM {reference} WHERE session = ? AND durable = 0 LIMIT 1")
_COUNT = table(
    f"SELECT COUNT(*) FROM {{reference}} r WHERE {_RANGE} AND r.folder = ? AND r.durable = 1 AND NOT EXISTS ({_MARKED} AND g.number < ?)"
)

_TOGETHER = 100
"""Places in one statement."""
_IN_PLACES = f"place IN ({', '.join('?' * _TOGETHER)})"
_REMOVE_REFERENCES = table(f"DELETE FROM {{reference}} WHERE session = ? AND queue = ? AND {_IN_PLACES}")
_REMOVE_MESSAGES = table(
    f"DELETE FROM {{message}} WHERE session = ? AND {_IN_PLACES} "
    "AND NOT EXISTS (SELECT 1 FROM {reference} r WHERE r.session = {message}.session AND r.place = {message}.place)"
)

_MARKS = table("SELECT queue, number, folder, behind, until, adopted FROM {removal} WHERE session = ? ORDER BY queue, number")
_FIRST_MARK = f"{_MARKS} LIMIT 1"
_MOVE_MARK = table("UPDATE {removal} SET behind = ? WHERE session = ? AND queue = ? AND number = ?")
_DROP_MARK = table("DELETE FROM {removal} WHERE session = ? AND queue = ? AND number = ?")

Found = tuple[int, int, int | None, int | None]
"""A reference that goes: queue, place, body and its size."""


class Mark(NamedTuple):
    """References of a queue behind one place, up to another; ``folder`` None = in all folders.

    Of those with a place behind ``adopted`` only the ones that were written as pages.
    """

    queue: int
    number: int
    folder: str | None
    behind: int
    until: int
    adopted: int


def mark_queue(work: Work, session: int, queue_id: int, folder: str | None = None) -> None:
    """All rows of a queue go; ``folder``: those in this folder alone."""
    _mark(work, session, queue_id, folder, 0, EVERYTHING, EVERYTHING)


def mark_range(
    work: Work, session: int, queue_id: int, folder: str, behind: int, until: int, adopted: int, but: Iterable[int] = ()
) -> None:
    """The pages of a queue in a folder go, behind one place and up to another, without the places ``but``."""
    for place in sorted(each for each in but if behind < each <= until):
        _mark(work, session, queue_id, folder, behind, place - 1, adopted)
        behind = place
    _mark(work, session, queue_id, folder, behind, until, adopted)


def _mark(work: Work, session: int, queue_id: int, folder: str | None, behind: int, until: int, adopted: int) -> None:
    if behind < until:
        name = None if folder is None else kept(folder)
        work.add(ADD_MARK, (session, queue_id, name, behind, until, adopted, session, queue_id))


def mark_transient(connection: Connection, session: StoreSession, adopted: int) -> None:
    """Messages of a former broker that survive no restart go.  The references up to ``adopted`` are the former broker's.

    Raises FencedError: a broker that has lost the data since must not leave a mark there, of which nobody knows before the next start.
    """
    number = session.number
    if connection.rows(_HAS_TRANSIENT, (number,)):
        with transaction(connection):
            session.hold(connection)
            connection.run(ADD_MARK, (number, EVERY_QUEUE, None, 0, adopted, adopted, number, EVERY_QUEUE))


def marks(connection: Connection, session: int) -> list[Mark]:
    """All marks of a session."""
    return [Mark(*row) for row in connection.rows(_MARKS, (session,))]


def marked_counts(connection: Connection, session: int, found: Iterable[Mark]) -> Iterator[tuple[str, int, int]]:
    """Folder, queue, and how many durable references that are there are marked; queues that go as a whole are left out.

    A purge marks what an earlier one has left once more, where a start came in between: that counts for the earlier mark alone.
    """
    for mark in found:
        if mark.folder is not None:
            wanted = (session, mark.queue, mark.behind, mark.until, mark.adopted, mark.folder, mark.number)
            yield given(mark.folder), mark.queue, connection.rows(_COUNT, wanted)[0][0]


def remove_piece(connection: Connection, session: int) -> bool:
    """Remove a bounded number of rows, within a transaction.  Returns whether marks are left."""
    room, size = PIECE_ROWS, PIECE_BYTES
    while room > 0 and size > 0:
        first = connection.rows(_FIRST_MARK, (session,))
        if not first:
            return False
        mark = Mark(*first[0])
        found = _find(connection, session, mark, room)
        going, size = _bounded(found, size)
        _remove(connection, session, going)
        if len(found) < room and len(going) == len(found):
            connection.run(_DROP_MARK, (session, mark.queue, mark.number))
        else:
            # Of one place several queues may have references that do not survive, and only some of them are gone.
            behind = going[-1][1] - (mark.queue == EVERY_QUEUE)
            connection.run(_MOVE_MARK, (behind, session, mark.queue, mark.number))
        room -= len(going) + 1
    return True


def _find(connection: Connection, session: int, mark: Mark, limit: int) -> list[Found]:
    parameters: tuple[object, ...]
    if mark.queue == EVERY_QUEUE:
        statement, parameters = _TRANSIENT, (session, mark.behind, mark.until)
    else:
        statement, parameters = _OF_QUEUE, (session, mark.queue, mark.behind, mark.until, mark.adopted)
        if mark.folder is not None:
            statement, parameters = _OF_FOLDER, (*parameters, mark.folder)
    return connection.rows(statement, (*parameters, limit))


def _bounded(found: list[Found], size: int) -> tuple[list[Found], int]:
    """The first of these, until their bodies are more than ``size``, and what is left of that."""
    for number, (_, _, _, body_size) in enumerate(found):
        size -= body_size or 0
        if size <= 0:
            return found[: number + 1], size
    return found, size


def _remove(connection: Connection, session: int, going: list[Found]) -> None:
    if not going:
        return
    by_queue: dict[int, list[int]] = {}
    for queue_id, place, _, _ in going:
        by_queue.setdefault(queue_id, []).append(place)
    for queue_id, places in by_queue.items():
        _run_for(connection, _REMOVE_REFERENCES, (session, queue_id), places)
    _run_for(connection, _REMOVE_MESSAGES, (session,), list(dict.fromkeys(place for _, place, _, _ in going)))
    bodies = {body: size or 0 for _, _, body, size in going if body is not None}
    if bodies:
        connection.run_many(REMOVE_BODY, [each for body, size in bodies.items() for each in body_removals(session, body, size)])


def _run_for(connection: Connection, statement: str, first: tuple[int, ...], places: list[int]) -> None:
    """One statement for many places: in the number that it has, the last one again where there are fewer."""
    for at in range(0, len(places), _TOGETHER):
        some = places[at : at + _TOGETHER]
        connection.run(statement, (*first, *some, *some[-1:] * (_TOGETHER - len(some))))
