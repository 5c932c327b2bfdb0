"""From what the journals say to the objects that the messaging core works with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mqbroker.messaging.message import Message
from mqbroker.messaging.ports import LargeBody, Recovered, RecoveredDuplicateId, RecoveredReference
from mqbroker.storage.bindings import to_address, to_queue, to_setting
from mqbroker.storage.largebodies import FileLargeBody, LargeBodies
from mqbroker.storage.replay import State, StoredMessage
from mqclient.storageformat.records import ADDRESS_BINDING, QUEUE_BINDING


def to_recovered(state: State, bodies: LargeBodies) -> Recovered:
    """Messages ascend by id, duplicate ids by record id (the oldest first).  A large message holds its body."""
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
        RecoveredDuplicateId(record.cache, record.duplicate_id, record_id) for record_id, (_, record) in sorted(state.duplicates.items())
    ]
    recovered.messages = list(_messages(state, bodies))
    return recovered


def _messages(state: State, bodies: LargeBodies) -> Iterator[tuple[Message, list[RecoveredReference]]]:
    shared = Counter(stored.record.body_id for stored in state.messages.values() if stored.record.body_id is not None)
    made: dict[int, FileLargeBody] = {}
    for message_id in sorted(state.messages):
        stored = state.messages[message_id]
        body = _body(stored, bodies, shared, made)
        message = Message(stored.record.buffer, stored.record.headers, stored.record.address, body)
        references = [RecoveredReference(queue_id, count, scheduled) for queue_id, (count, scheduled) in stored.references.items()]
        yield message, references


def _body(stored: StoredMessage, bodies: LargeBodies, shared: Counter[int], made: dict[int, FileLargeBody]) -> LargeBody | None:
    record = stored.record
    if record.body_id is None:
        return None
    body = made.get(record.body_id)
    if body is None:
        body = made[record.body_id] = bodies.recovered(record.body_id, record.body_size, shared[record.body_id])
    return body
