"""The contents of a session in the database when its data get an owner: everything but the messages, which are counted.

Reading touches nothing but the connection, so that it can run in another thread while the broker serves.  Messages of prepared branches,
those that such branches have acknowledged, and those with a time of delivery are read; all others are pages of their address.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from mqbroker.messaging.ports import AddressRecord, BranchRecord, QueueRecord, RecoveredDuplicateId
from mqbroker.storage.files.bindings import to_address, to_queue
from mqbroker.storage.files.branches import to_branch
from mqbroker.storage.sql import removals
from mqbroker.storage.sql.damage import DAMAGE, Damage
from mqbroker.storage.sql.database import Connection, Row
from mqbroker.storage.sql.schema import PREFIX, table
from mqbroker.storage.sql.session import StoreSession
from mqbroker.storage.sql.texts import given
from mqclient.storageformat import records
from mqclient.storageformat.frames import StorageFormatError
from mqclient.storageformat.records import decode_records

T = TypeVar("T")

ONE_BY_ONE = 100
"""Queues whose messages are counted one after the other."""

PLACES_TOGETHER = 500
"""Messages with a time of delivery that one statement reads."""

_SETTINGS = table("SELECT kind, name, value FROM {setting} WHERE session = ?")
_ADDRESSES = table("SELECT id, value FROM {address} WHERE session = ? ORDER BY id")
_QUEUES = table("SELECT id, value FROM {queue} WHERE session = ? ORDER BY id")
_DUPLICATES = table("SELECT record, cache, size, ids FROM {duplicate} WHERE session = ? ORDER BY record")
_BRANCHES = table("SELECT branch, record FROM {branch} WHERE session = ? ORDER BY branch")
_NEXT_QUEUE = table("SELECT MIN(queue) FROM {reference} WHERE session = ? AND queue > ?")
_OF_ONE_QUEUE = table("SELECT MIN(folder), MAX(folder), COUNT(*) FROM {reference} WHERE session = ? AND queue = ? AND durable = 1")
_COUNTS = table("SELECT folder, queue, COUNT(*) FROM {reference} WHERE session = ? AND durable = 1 GROUP BY folder, queue")

_COLUMNS = "m.place, m.folder, m.address, m.headers, m.buffer, m.branch, m.body, m.body_size, r.queue, r.deliveries, r.due"
_ROWS = f"SELECT {_COLUMNS} FROM {{message}} m JOIN {{reference}} r ON r.session = m.session AND r.place = m.place WHERE m.session = ? "
_OF_BRANCH = table(_ROWS + "AND m.branch = ? AND m.branch <> 0 AND r.durable = 1")
_WAITING = (
    f"SELECT {_COLUMNS} FROM {{reference}} r JOIN {{message}} m ON m.session = r.session AND m.place = r.place "
    f"WHERE r.session = ? AND m.branch = 0 AND r.durable = 1 AND {removals.NOT_MARKED}"
)
_DUE = table("SELECT DISTINCT place FROM {reference} WHERE session = ? AND due > 0")
_OF_PLACES = _WAITING + " AND r.due > 0 AND r.place IN "
_OF_QUEUE = table(_WAITING + " AND r.queue = ?")
_OF_PLACE = table(_ROWS + "AND m.branch = 0 AND r.queue = ? AND r.place = ? AND r.durable = 1")
_FIND = table(
    "SELECT r.place FROM {reference} r JOIN {message} m ON m.session = r.session AND m.place = r.place "
    "WHERE r.session = ? AND r.queue = ? AND r.place > ? AND m.id = ? AND r.durable = 1 ORDER BY r.place LIMIT 1"
)


@dataclass(slots=True)
class State:
    """A session, as far as it was read.  ``counts`` are messages by folder and queue id, ``rows`` the messages for the memory, in order,
    once for each of their queues, and ``damaged`` what could not be decoded.  ``whole`` are queues that are in memory with all they have,
    and ``marked``: references are there that go."""

    session: int
    addresses: list[AddressRecord] = field(default_factory=list)
    queues: list[QueueRecord] = field(default_factory=list)
    settings: dict[tuple[str, str], str] = field(default_factory=dict)
    duplicate_ids: list[RecoveredDuplicateId] = field(default_factory=list)
    branches: list[BranchRecord] = field(default_factory=list)
    counts: dict[tuple[str, int], int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    damaged: list[Damage] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    """Places of damaged records of branches, which are set aside now or since an earlier start."""
    whole: set[int] = field(default_factory=set)
    marked: bool = False


def read_sessions(connection: Connection, sessions: Sequence[StoreSession], adopted: int) -> list[State]:
    """The contents of these sessions of one broker.  Rows with a place up to ``adopted`` that survive no restart go.

    The messages that a branch has acknowledged may be in another session: its own one is looked through first.  Raises FencedError.
    """
    for session in sessions:
        removals.mark_transient(connection, session, adopted)
    states = [_read(connection, session.number) for session in sessions]
    ids = [{record.name: record.queue_id for record in state.queues} for state in states]
    for state in states:
        names = {record.queue_id: record.name for record in state.queues}
        wanted = [entry for branch in state.branches for entry in branch.acknowledged if entry[0] in names]
        places = sorted(zip(states, ids, strict=True), key=lambda place, own=state: place[0] is not own)  # type: ignore[misc]
        for queue_id, message_id in wanted:
            for other, known in places:
                there = known.get(names[queue_id])
                if there is not None and _read_message(connection, other, there, message_id):
                    break
    for state in states:
        state.rows.sort(key=lambda row: (row[0], row[8]))
    return states


def _read(connection: Connection, session: int) -> State:
    state = State(session)
    whose = (session,)
    state.addresses = _decoded(state, "address", connection.rows(_ADDRESSES, whose), lambda value: to_address(json.loads(value)))
    state.queues = _decoded(state, "queue", connection.rows(_QUEUES, whose), lambda value: to_queue(json.loads(value)))
    state.settings = {(given(kind), given(name)): given(value) for kind, name, value in connection.rows(_SETTINGS, whose)}
    for record, cache, size, ids in connection.rows(_DUPLICATES, whose):
        raw, cache = bytes(ids), given(cache)
        state.duplicate_ids += [RecoveredDuplicateId(cache, raw[at : at + size], record) for at in range(0, max(len(raw), 1), max(size, 1))]
    state.branches = _decoded(state, "branch", connection.rows(_BRANCHES, whose), _branch)
    aside = {key for key, _ in connection.rows(_BRANCHES, (-session,))} | {each.key for each in state.damaged if each.role == "branch"}
    state.unreadable = [f"the row {key} of session {-session} in {PREFIX}branch" for key in sorted(aside)]
    for branch in state.branches:
        state.rows += connection.rows(_OF_BRANCH, (session, branch.branch_id))
    state.whole = {record.queue_id for record in state.queues if _keeps_few(record)}
    state.rows += [row for row in _with_time(connection, session) if row[8] not in state.whole]
    for queue_id in state.whole:
        state.rows += connection.rows(_OF_QUEUE, (session, queue_id))
    marks = removals.marks(connection, session)
    state.marked = bool(marks)
    state.counts = _less(_counts(connection, session), connection, session, marks)
    for damage in state.damaged:
        if damage.role == "branch":  # its messages are set aside with it
            for row in connection.rows(_OF_BRANCH, (session, damage.key)):
                state.counts[given(row[1]), row[8]] -= 1
    return state


def _less(
    counts: dict[tuple[str, int], int], connection: Connection, session: int, marks: Sequence[removals.Mark]
) -> dict[tuple[str, int], int]:
    """The counts without what is marked to go."""
    gone = {mark.queue for mark in marks if mark.folder is None}
    left = {key: messages for key, messages in counts.items() if key[1] not in gone}
    for folder, queue_id, messages in removals.marked_counts(connection, session, marks):
        if messages and queue_id not in gone:
            left[folder, queue_id] -= messages
    return left


def _keeps_few(record: QueueRecord) -> bool:
    """Does a newer message of the queue remove an older one?  That it does in memory only."""
    ring_size = record.attributes.get("ring_size", -1)
    return bool(record.attributes.get("last_value_key")) or (isinstance(ring_size, int) and ring_size >= 0)


def _with_time(connection: Connection, session: int) -> list[Row]:
    """The messages that a queue is to get at a certain time.  The places come first: a database may look at all messages else."""
    places = sorted(place for (place,) in connection.rows(_DUE, (session,)))
    found: list[Row] = []
    for at in range(0, len(places), PLACES_TOGETHER):
        some = ", ".join(str(place) for place in places[at : at + PLACES_TOGETHER])
        found += connection.rows(table(f"{_OF_PLACES}({some})"), (session,))
    return found


def _counts(connection: Connection, session: int) -> dict[tuple[str, int], int]:
    """Messages by folder and queue id: queue by queue, which nobody has to sort, as long as there are not many."""
    counts: dict[tuple[str, int], int] = {}
    queue_id = -1
    for _ in range(ONE_BY_ONE):
        [(queue_id,)] = connection.rows(_NEXT_QUEUE, (session, queue_id))
        if queue_id is None:
            return counts
        [(first, last, messages)] = connection.rows(_OF_ONE_QUEUE, (session, queue_id))
        if first != last:
            break
        if messages:
            counts[given(first), queue_id] = messages
    return {(given(folder), queue_id): messages for folder, queue_id, messages in connection.rows(_COUNTS, (session,))}


def _decoded(state: State, role: str, rows: list[Row], decode: Callable[[str], T]) -> list[T]:
    """The decoded values of these rows, but for damaged ones."""
    found: list[T] = []
    for key, value in rows:
        try:
            found.append(decode(value))
        except (*DAMAGE, RecursionError) as error:
            state.damaged.append(Damage(state.session, role, key, str(error)))
    return found


def _branch(encoded: str) -> BranchRecord:
    found = list(decode_records(memoryview(bytes(encoded))))  # type: ignore[arg-type]
    if len(found) != 1 or not isinstance(found[0], records.BranchRecord):
        raise StorageFormatError("not a branch")
    return to_branch(found[0])


def _read_message(connection: Connection, state: State, queue_id: int, message_id: int) -> bool:
    """Read a message of a queue by its id, unless that was done; false if it is not in this session, or does not survive."""
    place = message_id
    rows = connection.rows(_OF_PLACE, (state.session, queue_id, place))
    if not rows:
        found = connection.rows(_FIND, (state.session, queue_id, message_id, message_id))
        if not found:
            return False
        place = found[0][0]
        rows = connection.rows(_OF_PLACE, (state.session, queue_id, place))
    if not any(row[0] == place and row[8] == queue_id for row in state.rows):
        state.rows += rows
    return True
