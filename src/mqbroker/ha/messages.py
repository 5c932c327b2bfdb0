"""The encoded form of a message that moves to another broker: its bytes, with other properties for destination and duplicate id."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mqbroker.cluster.links.outgoing import Outgoing, assemble, bytes_entry, send_large
from mqbroker.messaging.delivery.arriving import KEY_SCALEDOWN_NODE
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.queues.scheduled import scheduled_time_of
from mqclient.errors import MQError
from mqclient.wire.message import (
    KEY_ACK_ROUTE_TO,
    KEY_BRIDGE_DUPLICATE_ID,
    KEY_ROUTE_TO,
    KEY_ROUTING_TYPE,
    KEY_SCALEDOWN_TO,
    KEY_SCHEDULED_DELIVERY,
)
from mqclient.wire.primitives import encode_simple_string
from mqclient.wire.properties import BYTES, LONG, encode_value, find_prefix

if TYPE_CHECKING:
    from mqclient.core.session.session import Session

_MARKS: Final = tuple(key.encode("utf-16-le") for key in (KEY_ROUTE_TO, KEY_ACK_ROUTE_TO, KEY_SCALEDOWN_TO, KEY_BRIDGE_DUPLICATE_ID))
_ROUTING_TYPE = KEY_ROUTING_TYPE.encode("utf-16-le")
_SCHEDULED = KEY_SCHEDULED_DELIVERY.encode("utf-16-le")
_I64 = struct.Struct(">q")

Encode = Callable[[Reference], Outgoing | None]
"""Gives the encoded form of a message; None = the message stays.  Raises MalformedPacketError."""


class QueueMessages:
    """Encodes messages of an ordinary queue for the queue with the number ``target_id`` alone.

    ``node_id`` are the 16 bytes of the own node id.  ``acknowledged``: a branch has acknowledged them.
    """

    def __init__(self, queue: Queue, target_id: int, node_id: bytes, min_large_message_size: int, *, acknowledged: bool = False) -> None:
        self._routing_type = queue.definition.routing_type
        self._min_large = min_large_message_size
        self._entries = bytes_entry(KEY_ROUTE_TO, 8) + _I64.pack(target_id)
        self._count = 2
        if acknowledged:
            self._entries += bytes_entry(KEY_ACK_ROUTE_TO, 8) + _I64.pack(target_id)
            self._count += 1
        self._duplicate_id = _duplicate_id_entry(node_id)
        self._queue_id = _I64.pack(queue.queue_id)

    def __call__(self, reference: Reference) -> Outgoing:
        message = reference.message
        buffer, start = message.buffer, message.properties_offset
        cuts: list[tuple[int, int]] = []
        for mark in _MARKS:
            cuts += _entries(buffer, start, mark)
        added, count = b"".join((self._entries, self._duplicate_id, _I64.pack(message.message_id), self._queue_id)), self._count
        if message.routing_type not in (None, self._routing_type):
            cuts += _entries(buffer, start, _ROUTING_TYPE, exact=True)
        if reference.scheduled and reference.scheduled != scheduled_time_of(message):
            cuts += _entries(buffer, start, _SCHEDULED, exact=True)
            added += encode_simple_string(KEY_SCHEDULED_DELIVERY) + encode_value(LONG, reference.scheduled)
            count += 1
        if len(cuts) > 1:
            cuts = sorted(set(cuts))
        return assemble(message, message.address, (), cuts, added, count, self._min_large)


class ForwardedMessages:
    """Encodes messages that wait for a third broker, ``third``: the target sends them on to the same queues of the third broker."""

    def __init__(self, queue: Queue, third: bytes, node_id: bytes, min_large_message_size: int) -> None:
        self._key = f"{KEY_ROUTE_TO}{queue.name}".encode("utf-16-le")
        self._min_large = min_large_message_size
        self._third = bytes_entry(KEY_SCALEDOWN_NODE, len(third)) + third
        self._duplicate_id = _duplicate_id_entry(node_id)
        self._queue_id = _I64.pack(queue.queue_id)

    def __call__(self, reference: Reference) -> Outgoing | None:
        message = reference.message
        buffer, start = message.buffer, message.properties_offset
        cuts: list[tuple[int, int]] = []
        ids = b""
        for key_start, key_end, kind, value_start, end in find_prefix(buffer, start, len(buffer), _MARKS[0]):
            cuts.append((key_start - 4, end))
            if kind == BYTES and buffer[key_start:key_end] == self._key:
                ids = buffer[value_start + 4 : end]
        if not ids:
            return None
        cuts += _entries(buffer, start, _MARKS[1])
        added = (
            bytes_entry(KEY_SCALEDOWN_TO, len(ids)),
            ids,
            self._third,
            self._duplicate_id,
            _I64.pack(message.message_id),
            self._queue_id,
        )
        return assemble(message, message.address, (), sorted(cuts), b"".join(added), 3, self._min_large)


def _duplicate_id_entry(node_id: bytes) -> bytes:
    """The beginning of the property; message id and queue id follow, for a message may wait in several queues."""
    return bytes_entry(KEY_BRIDGE_DUPLICATE_ID, len(node_id) + 16) + node_id


def _entries(buffer: bytes, start: int, key: bytes, *, exact: bool = False) -> list[tuple[int, int]]:
    if buffer.find(key, start) < 0:
        return []
    found = find_prefix(buffer, start, len(buffer), key)
    return [(entry[0] - 4, entry[4]) for entry in found if not exact or entry[1] - entry[0] == len(key)]


def send_over(session: Session, outgoing: Outgoing, done: Callable[[MQError | None], object]) -> bool:
    """Send one message; False when the next has to wait for ``on_room``."""
    if outgoing.read is None:
        return session.send_encoded(outgoing.parts, outgoing.size, done, address=outgoing.address)
    return send_large(session, outgoing, done)
