"""What a broker finds in the database when it becomes the owner of the data: everything but the messages, which are counted."""

from __future__ import annotations

import json

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Recovered, RecoveredBranch, RecoveredDuplicateId, RecoveredReference
from mqbroker.storage.files.bindings import to_address, to_queue
from mqbroker.storage.files.branches import to_branch
from mqbroker.storage.sql.batch import Kept
from mqbroker.storage.sql.bodies import SqlBodies
from mqbroker.storage.sql.database import Connection, Row, transaction
from mqbroker.storage.sql.pager import SqlPager
from mqbroker.storage.sql.schema import table
from mqbroker.storage.sql.texts import given
from mqclient.storageformat.records import BranchRecord, decode_records

_TRANSIENT = table("DELETE FROM {reference} WHERE session = ? AND durable = 0")
_UNREFERENCED = table(
    "DELETE FROM {message} WHERE session = ? AND NOT EXISTS "
    "(SELECT 1 FROM {reference} r WHERE r.session = {message}.session AND r.place = {message}.place)"
)
_SETTINGS = table("SELECT kind, name, value FROM {setting} WHERE session = ?")
_ADDRESSES = table("SELECT value FROM {address} WHERE session = ? ORDER BY id")
_QUEUES = table("SELECT value FROM {queue} WHERE session = ? ORDER BY id")
_DUPLICATES = table("SELECT record, cache, size, ids FROM {duplicate} WHERE session = ? ORDER BY record")
_BRANCHES = table("SELECT record FROM {branch} WHERE session = ? ORDER BY branch")
_COUNTS = table(
    "SELECT r.folder, r.queue, COUNT(*) FROM {reference} r JOIN {message} m ON m.session = r.session AND m.place = r.place "
    "WHERE r.session = ? AND m.branch = 0 GROUP BY r.folder, r.queue"
)
_COLUMNS = "m.place, m.folder, m.address, m.headers, m.buffer, m.branch, m.body, m.body_size, r.queue, r.deliveries, r.due"
_IN_MEMORY = table(
    f"SELECT {_COLUMNS} FROM {{message}} m JOIN {{reference}} r ON r.session = m.session AND r.place = m.place "
    "WHERE m.session = ? AND (m.branch <> 0 OR m.place IN "
    "(SELECT d.place FROM {reference} d WHERE d.session = ? AND d.due > 0)) ORDER BY m.place, r.queue"
)


def adopt(connection: Connection, session: int, adopted: int, pager: SqlPager, bodies: SqlBodies) -> Recovered:
    """Read the state of a session.

    Messages of prepared branches, and those with a time of delivery, come into memory; all others are pages of their address.
    """
    with transaction(connection):
        if connection.run(_TRANSIENT, (session,)):
            connection.run(_UNREFERENCED, (session,))
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
    for folder, queue_id, messages in connection.rows(_COUNTS, (session,)):
        own = pager.folder(given(folder))
        own.readable = adopted
        share = own.share(queue_id)
        share.unread = share.durable_unread = messages
    _into_memory(connection.rows(_IN_MEMORY, (session, session)), recovered, branches, pager, bodies)
    for entries in (recovered.messages, *(branch.messages for branch in recovered.branches)):
        entries.sort(key=lambda entry: entry[0].message_id)
    return recovered


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
        if not branch:
            share.unread -= 1
            share.durable_unread -= 1
