"""What a broker finds in the database when it becomes the owner of the data: everything but the messages, which are counted."""

from __future__ import annotations

import json

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import QueueRecord, Recovered, RecoveredBranch, RecoveredDuplicateId, RecoveredReference
from mqbroker.storage.files.bindings import to_address, to_queue
from mqbroker.storage.files.branches import to_branch
from mqbroker.storage.sql import removals
from mqbroker.storage.sql.batch import Kept
from mqbroker.storage.sql.bodies import SqlBodies
from mqbroker.storage.sql.database import Connection, Row
from mqbroker.storage.sql.pager import SqlPager
from mqbroker.storage.sql.schema import table
from mqbroker.storage.sql.texts import given
from mqclient.storageformat.records import BranchRecord, decode_records

PLACES = 100
"""Messages that one statement brings into memory."""

_SETTINGS = table("SELECT kind, name, value FROM {setting} WHERE session = ?")
_ADDRESSES = table("SELECT value FROM {address} WHERE session = ? ORDER BY id")
_QUEUES = table("SELECT value FROM {queue} WHERE session = ? ORDER BY id")
_DUPLICATES = table("SELECT record, cache, size, ids FROM {duplicate} WHERE session = ? ORDER BY record")
_BRANCHES = table("SELECT record FROM {branch} WHERE session = ? ORDER BY branch")
_COUNTS = table("SELECT folder, queue, COUNT(*) FROM {reference} WHERE session = ? AND durable = 1 GROUP BY folder, queue")
_COLUMNS = "m.place, m.folder, m.address, m.headers, m.buffer, m.branch, m.body, m.body_size, r.queue, r.deliveries, r.due"
_WITH_A_TIME = table("SELECT place FROM {reference} WHERE session = ? AND due > 0")
_OF_BRANCHES = table("SELECT place FROM {message} WHERE session = ? AND branch <> 0")
_OF_QUEUE = table("SELECT place FROM {reference} WHERE session = ? AND queue = ?")
_IN_MEMORY = (
    f"SELECT {_COLUMNS} FROM {{message}} m JOIN {{reference}} r ON r.session = m.session AND r.place = m.place "
    f"WHERE m.session = ? AND m.place IN ({', '.join('?' * PLACES)}) AND r.durable = 1 AND {removals.NOT_MARKED} "
    "AND (m.branch <> 0 OR r.due > 0 OR r.queue IN (%s)) ORDER BY m.place, r.queue"
)


def adopt(connection: Connection, session: int, adopted: int, pager: SqlPager, bodies: SqlBodies) -> Recovered:
    """Read the state of a session.

    Messages of prepared branches, those with a time of delivery, and those of last-value queues and rings come into memory; all others are
    pages of their address.
    """
    removals.mark_transient(connection, session, adopted)
    marks = removals.marks(connection, session)
    if marks:
        pager.removing.add(session)
    recovered = Recovered()
    recovered.addresses = [to_address(json.loads(value)) for (value,) in connection.rows(_ADDRESSES, (session,))]
    recovered.queues = [to_queue(json.loads(value)) for (value,) in connection.rows(_QUEUES, (session,))]
    recovered.settings = {(given(kind), given(name)): given(value) for kind, name, value in connection.rows(_SETTINGS, (session,))}
    for record, cache, size, ids in connection.rows(_DUPLICATES, (session,)):
        raw, cache = bytes(ids), given(cache)
        recovered.duplicate_ids += [
            RecoveredDuplicateId(cache, raw[at : at + size], record) for at in range(0, max(len(raw), 1), max(size, 1))
        ]
    recovered.branches = [_branch(bytes(record)) for (record,) in connection.rows(_BRANCHES, (session,))]
    branches = {branch.record.branch_id: branch for branch in recovered.branches}
    gone = {mark.queue for mark in marks if mark.folder is None}
    for folder, queue_id, messages in connection.rows(_COUNTS, (session,)):
        if queue_id not in gone:
            _count(pager, given(folder), queue_id, messages, adopted)
    for folder, queue_id, messages in removals.marked_counts(connection, session, marks):
        if messages and queue_id not in gone:
            _count(pager, folder, queue_id, -messages, adopted)
    small = sorted(record.queue_id for record in recovered.queues if _keeps_few(record))
    statement = table(_IN_MEMORY % (", ".join(map(str, small)) or "0"))
    found = [row for each in (_WITH_A_TIME, _OF_BRANCHES) for row in connection.rows(each, (session,))]
    found += [row for queue_id in small for row in connection.rows(_OF_QUEUE, (session, queue_id))]
    places = sorted({place for (place,) in found})
    for first in range(0, len(places), PLACES):
        some = places[first : first + PLACES]
        some += some[-1:] * (PLACES - len(some))  # one statement for all
        _into_memory(connection.rows(statement, (session, *some)), recovered, branches, pager, bodies)
    for queue_id in small:
        pager.pass_by(queue_id, adopted)
    for entries in (recovered.messages, *(branch.messages for branch in recovered.branches)):
        entries.sort(key=lambda entry: entry[0].message_id)
    return recovered


def _count(pager: SqlPager, folder: str, queue_id: int, messages: int, adopted: int) -> None:
    own = pager.folder(folder)
    own.readable = adopted
    share = own.share(queue_id)
    share.unread += messages
    share.durable_unread += messages


def _keeps_few(record: QueueRecord) -> bool:
    """Does a newer message of the queue remove an older one?  That it does in memory only."""
    ring_size = record.attributes.get("ring_size", -1)
    return bool(record.attributes.get("last_value_key")) or (isinstance(ring_size, int) and ring_size >= 0)


def _branch(encoded: bytes) -> RecoveredBranch:
    [record] = decode_records(memoryview(encoded))
    assert isinstance(record, BranchRecord)
    return RecoveredBranch(to_branch(record))


def _into_memory(rows: list[Row], recovered: Recovered, branches: dict[int, RecoveredBranch], pager: SqlPager, bodies: SqlBodies) -> None:
    """Messages that do not wait in pages: no reader of pages gives them, too."""
    entries: dict[int, tuple[Message, list[RecoveredReference]]] = {}
    for place, folder, address, headers, buffer, branch, body_id, size, queue_id, deliveries, due in rows:
        folder = given(folder)
        entry = entries.get(place)
        if entry is None:
            body = None if body_id is None else bodies.stored(body_id, size)
            if body is not None:
                body.hold()
            message = Message.read(bytes(buffer), headers, folder if address is None else given(address), body)
            message.store_state = Kept(place, False)
            entry = entries[place] = (message, [])
            (branches[branch].messages if branch in branches else recovered.messages).append(entry)
        entry[1].append(RecoveredReference(queue_id, deliveries, max(due, 0)))
        share = pager.folder(folder).share(queue_id)
        share.early.add(place)
        share.unread -= 1
        share.durable_unread -= 1
