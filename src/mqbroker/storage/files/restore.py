"""From what the journals say to the objects that the messaging core works with."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Recovered, RecoveredBranch, RecoveredDuplicateId, RecoveredReference
from mqbroker.storage.files.bindings import to_address, to_queue, to_setting
from mqbroker.storage.files.branches import to_branch
from mqbroker.storage.files.largebodies import FileLargeBody, LargeBodies
from mqbroker.storage.files.plain import PlainMessages
from mqclient.storageformat.records import ADDRESS_BINDING, QUEUE_BINDING, MessageRecord, duplicate_ids_of
from mqclient.storageformat.replay import State, StoredMessage
from mqclient.wire.primitives import decode_utf_16

_I32 = struct.Struct(">i")

Placed = Callable[[Message, StoredMessage], object]
Entry = tuple[Message, list[RecoveredReference]]


def to_recovered(
    state: State,
    bodies: LargeBodies,
    placed: Placed | None = None,
    opened: dict[int, FileLargeBody] | None = None,
    plain: PlainMessages | None = None,
) -> Recovered:
    """Messages ascend by id, duplicate ids by record id (the oldest first).  A large message holds its body.

    ``placed`` is told of each message that is not ``plain``; ``opened`` are bodies that messages in pages name, too.  The messages are
    taken out of ``state`` on the way: there may be millions.
    """
    recovered = Recovered()
    for key, binding in state.bindings.items():
        if key[0] == ADDRESS_BINDING:
            recovered.addresses.append(to_address(binding.value))
        elif key[0] == QUEUE_BINDING:
            recovered.queues.append(to_queue(binding.value))
        else:
            setting, text = to_setting(binding.value)
            recovered.settings[setting] = text
    recovered.addresses.sort(key=lambda record: record.address_id)
    recovered.queues.sort(key=lambda record: record.queue_id)
    recovered.duplicate_ids = [
        RecoveredDuplicateId(record.cache, duplicate_id, record_id)
        for record_id, (_, record) in sorted(state.duplicates.items())
        for duplicate_id in duplicate_ids_of(record)
    ]
    branches = {branch_id: RecoveredBranch(to_branch(stored.record)) for branch_id, stored in sorted(state.branches.items())}
    recovered.branches = list(branches.values())
    for branch_id, entry in _messages(state, bodies, placed, opened or {}):
        (branches[branch_id] if branch_id else recovered).messages.append(entry)
    if plain is not None and plain.messages:
        recovered.messages = _with_plain(recovered.messages, plain)
    return recovered


def _with_plain(others: list[Entry], plain: PlainMessages) -> list[Entry]:
    """All messages, by id.  Messages of one queue share the list that says so."""
    listed: dict[int, list[RecoveredReference]] = {}
    place: Any = None
    found = {message.message_id: (message, references) for message, references in others}
    messages = plain.messages
    everything: list[Entry] = []
    for message_id in sorted([*messages, *found]):
        message = messages.get(message_id)
        if message is None:
            everything.append(found[message_id])
            continue
        if message.store_state is not place:
            place = message.store_state
            queue_id = place[1]
            references = listed.setdefault(queue_id, [RecoveredReference(queue_id)])
        everything.append((message, references))
    return everything


def _messages(state: State, bodies: LargeBodies, placed: Placed | None, made: dict[int, FileLargeBody]) -> Iterator[tuple[int, Entry]]:
    """Each message after the id of its branch (0 = none)."""
    shared = Counter(stored.record.body_id for stored in state.messages.values() if stored.record.body_id is not None)
    addresses: dict[bytes, str] = {}
    for message_id in sorted(state.messages):
        stored = state.messages.pop(message_id)
        body = _body(stored, bodies, shared, made)
        message = Message.read(stored.record.buffer, stored.record.headers, address_of(stored.record, addresses), body)
        references = stored.references
        if isinstance(references, int):
            listed = [RecoveredReference(references)]
        else:
            listed = [RecoveredReference(queue_id, count, scheduled) for queue_id, (count, scheduled) in references.items()]
        if placed is not None:
            placed(message, stored)
        yield stored.record.branch_id, (message, listed)


def _body(stored: StoredMessage, bodies: LargeBodies, shared: Counter[int], made: dict[int, FileLargeBody]) -> LargeBody | None:
    record = stored.record
    if record.body_id is None:
        return None
    body = made.get(record.body_id)
    if body is not None and not body.holders:
        body.holders = shared[record.body_id]
        body.records += body.holders
    elif body is None:
        body = made[record.body_id] = bodies.recovered(record.body_id, record.body_size, shared[record.body_id])
    return body


def address_of(record: MessageRecord, known: dict[bytes, str]) -> str | None:
    """The address of a message: one string for all messages of one address, which saves its decoding and its memory."""
    if record.address is not None:
        return record.address
    buffer = record.buffer
    start = record.headers + 8
    if not buffer[start]:
        return None
    raw = buffer[start + 5 : start + 5 + _I32.unpack_from(buffer, start + 1)[0]]
    address = known.get(raw)
    if address is None:
        address = known[raw] = decode_utf_16(raw)
    return address
