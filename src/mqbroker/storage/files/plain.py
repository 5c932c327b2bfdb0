"""The usual records of a start, read in one tight loop: plain messages, for one queue and with all in their buffer, and acknowledgements.

A million of them are common.  So each becomes at once the object that the messaging core works with, and nothing else is made of it on
the way; what is the same for many messages (address, place) is one object for all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from typing import Any

from mqbroker.messaging.message.message import Message
from mqclient.storageformat.records import ACKNOWLEDGE, ACKNOWLEDGED, FLAG_MOVED, MESSAGE, SINGLE_REFERENCE, MessageRecord
from mqclient.storageformat.replay import StoredMessage
from mqclient.wire.primitives import decode_utf_16

_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_FIXED = struct.Struct(">bBq")
"""Type, durable, expiration; timestamp and priority follow."""
_FIXED_SIZE = _FIXED.size + 9
_HEAD_SIZE = SINGLE_REFERENCE.size
_ACKNOWLEDGED_SIZE = ACKNOWLEDGED.size

_unpack_head = SINGLE_REFERENCE.unpack_from
_unpack_acknowledged = ACKNOWLEDGED.unpack_from
_unpack_fixed = _FIXED.unpack_from
_unpack_i64 = _I64.unpack_from

Place = tuple[int, int]
"""Sequence of the segment with the record, and the queue id."""


class PlainMessages:
    """Plain messages that are not acknowledged yet, by id; ``highest`` is the highest id seen.

    ``store_state`` of each is its :data:`Place`.
    """

    __slots__ = ("_addresses", "_places", "_sequence", "highest", "messages")

    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}
        self.highest = 0
        self._addresses: dict[bytes, str] = {}
        """By their form in the buffer."""
        self._sequence = 0
        self._places: dict[int, Place] = {}
        """The places in the segment ``_sequence``, by queue id."""

    def take(self, content: bytes, at: int, sequence: int, others: Container[int]) -> int:
        """See :class:`mqclient.storageformat.replay_plain.Plain`."""
        messages = self.messages
        size = len(content)
        if sequence != self._sequence:
            self._sequence = sequence
            self._places = {}
        places = self._places
        highest = self.highest
        known, address = b"", ""
        known_size = 0
        while at < size:
            kind = content[at]
            if kind == MESSAGE and at + _HEAD_SIZE <= size:
                _, flags, headers, length, count, queue_id = _unpack_head(content, at)
                start = at + _HEAD_SIZE
                end = start + length
                if count != 1 or end > size or headers + 8 > length or (flags and flags != FLAG_MOVED):
                    break
                buffer = content[start:end]
                if not known_size or not buffer.startswith(known, headers + 8):
                    known = self._address(buffer, headers + 8)
                    known_size = len(known)
                    if not known_size:
                        break
                    address = self._addresses[known]
                fixed = headers + 8 + known_size
                if fixed >= length:
                    break
                fixed += 17 if buffer[fixed] == 1 else 1
                if fixed + _FIXED_SIZE >= length:
                    break
                message_id: int = _unpack_i64(buffer, headers)[0]
                if message_id in others or (message_id in messages and not flags):
                    break
                _, durable, expiration = _unpack_fixed(buffer, fixed)
                message = Message(buffer, headers, address, message_id, durable != 0, expiration, fixed + _FIXED_SIZE)
                place = places.get(queue_id)
                if place is None:
                    place = places[queue_id] = (sequence, queue_id)
                message.store_state = place
                messages[message_id] = message
                if message_id > highest:
                    highest = message_id
                at = end
            elif kind == ACKNOWLEDGE and at + _ACKNOWLEDGED_SIZE <= size:
                _, queue_id, message_id = _unpack_acknowledged(content, at)
                acknowledged = messages.get(message_id)
                if acknowledged is not None:
                    state: Any = acknowledged.store_state
                    if state[1] == queue_id:
                        del messages[message_id]
                elif message_id in others:
                    break
                at += _ACKNOWLEDGED_SIZE
            else:
                break
        self.highest = highest
        return at

    def take_out(self, message_id: int) -> StoredMessage | None:
        """See :class:`mqclient.storageformat.replay_plain.Plain`."""
        message = self.messages.pop(message_id, None)
        if message is None:
            return None
        sequence, queue_id = place_of(message)
        return StoredMessage(
            sequence, MessageRecord(message_id, message.headers, (queue_id,), message.buffer, None, None, 0, False), queue_id
        )

    def drop_unrouted(self, queue_ids: Container[object]) -> None:
        """Forget messages on other queues than these."""
        gone = [number for number, message in self.messages.items() if place_of(message)[1] not in queue_ids]
        for number in gone:
            del self.messages[number]

    def _address(self, buffer: bytes, at: int) -> bytes:
        """The encoded address at this place, which is among ``_addresses`` then; empty when there is none."""
        if at + 5 > len(buffer) or not buffer[at]:
            return b""
        size: int = _I32.unpack_from(buffer, at + 1)[0]
        if size < 0 or size & 1 or at + 5 + size > len(buffer):
            return b""
        encoded = buffer[at : at + 5 + size]
        if encoded not in self._addresses:
            self._addresses[encoded] = decode_utf_16(encoded[5:])
        return encoded


def place_of(message: Message) -> Place:
    """The place of a plain message's record."""
    place = message.store_state
    assert isinstance(place, tuple)
    return place
