"""The message buffer: where its headers are, and how to make or change one.

Wire layout, version 129 and later (``protocol-spec/``, chapter "Message encoding")::

    i32 end of body (= body length + 13), body,
    i64 message id, NSStr address, user id (00, or 01 + 16 bytes), i8 type, bool durable, i64 expiration (ms), i64 timestamp (ms),
    i8 priority, properties

The block from the message id on ("headers") also travels alone, for large messages.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass, field

from mqclient.errors import MalformedPacketError
from mqclient.wire.primitives import decode_utf_16, encode_simple_string
from mqclient.wire.properties import (
    TypedValue,
    decode_properties,
    decode_value,
    encode_properties,
    find_property,
)

TYPE_DEFAULT = 0
TYPE_OBJECT = 2
TYPE_TEXT = 3
TYPE_BYTES = 4
TYPE_MAP = 5
TYPE_STREAM = 6
TYPE_EMBEDDED = 7
TYPE_LARGE_EMBEDDED = 8

KEY_CID = "__AMQ_CID"
KEY_ROUTING_TYPE = "_AMQ_ROUTING_TYPE"
KEY_GROUP_ID = "_AMQ_GROUP_ID"
KEY_GROUP_SEQUENCE = "_AMQ_GROUP_SEQUENCE"
KEY_SCHEDULED_DELIVERY = "_AMQ_SCHED_DELIVERY"
KEY_DUPLICATE_ID = "_AMQ_DUPL_ID"
KEY_BRIDGE_DUPLICATE_ID = "_AMQ_BRIDGE_DUP"
KEY_LAST_VALUE = "_AMQ_LVQ_NAME"
KEY_LARGE_COMPRESSED = "_AMQ_LARGE_COMPRESSED"
KEY_LARGE_SIZE = "_AMQ_LARGE_SIZE"
KEY_VALIDATED_USER = "_AMQ_VALIDATED_USER"
KEY_INGRESS_TIMESTAMP = "_AMQ_INGRESS_TIMESTAMP"
KEY_ORIGINAL_ADDRESS = "_AMQ_ORIG_ADDRESS"
KEY_ORIGINAL_QUEUE = "_AMQ_ORIG_QUEUE"
KEY_ORIGINAL_MESSAGE_ID = "_AMQ_ORIG_MESSAGE_ID"
KEY_ORIGINAL_ROUTING_TYPE = "_AMQ_ORIG_ROUTING_TYPE"
KEY_ACTUAL_EXPIRY = "_AMQ_ACTUAL_EXPIRY"
KEY_ROUTE_TO = "_AMQ_ROUTE_TO"
KEY_ACK_ROUTE_TO = "_AMQ_ACK_ROUTE_TO"
KEY_SCALEDOWN_TO = "_AMQ_SCALEDOWN_TO"
KEY_FORCED_DELIVERY = "_hornetq.forced.delivery.seq"

_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_FIXED = struct.Struct(">bBqqb")
"""Type, durable, expiration, timestamp, priority."""


HEADERS_SIZE_MIN = 30
"""Bytes of the headers of a message without address, user id and properties."""

_SCHEDULED = KEY_SCHEDULED_DELIVERY.encode("utf-16-le")


class HeaderOffsets:
    """The fixed headers of a message and their places in ``buffer``; properties are not decoded.

    ``headers`` is the offset of the message id, ``fixed`` that of the type byte, ``properties`` that of the property block.
    ``address`` is the raw SimpleString (with its length), or None.
    """

    __slots__ = ("address", "durable", "expiration", "fixed", "headers", "priority", "properties", "timestamp", "type")

    address: bytes | None
    durable: bool
    expiration: int
    fixed: int
    headers: int
    priority: int
    properties: int
    timestamp: int
    type: int


def scheduled_time(buffer: bytes, properties: int) -> int:
    """The delivery time that an encoded message asks for (ms since the epoch), 0 = at once; its property block is at ``properties``."""
    found = find_property(buffer, properties, len(buffer), _SCHEDULED)
    value = None if found is None else decode_value(buffer, *found)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def body_end(buffer: bytes | memoryview, packet: str = "message") -> int:
    """The end of the body, where the headers begin."""
    size = len(buffer)
    if size < 4:
        raise MalformedPacketError(packet, "end_of_body", f"{size} bytes are too few")
    end: int = _I32.unpack_from(buffer)[0] - 9
    if not 4 <= end <= size - HEADERS_SIZE_MIN:
        raise MalformedPacketError(packet, "end_of_body", f"body ends at {end} of {size} bytes")
    return end


def _cut_off(packet: str, left: int) -> MalformedPacketError:
    """The error for headers with ``left`` bytes behind the user id; ``left`` is below 0 when the user id itself is cut."""
    ends = (("user_id", 0), ("type", 1), ("durable", 2), ("expiration", 10), ("timestamp", 18), ("priority", 19))
    field = next((name for name, end in ends if left < end), "properties")
    return MalformedPacketError(packet, field, "cut off")


def scan_headers(buffer: bytes, headers: int, packet: str = "message") -> HeaderOffsets:
    """Find the fixed headers of the block that starts at offset ``headers``."""
    size = len(buffer)
    at = headers + 8
    found = HeaderOffsets()
    found.headers = headers
    if at + 1 > size:
        raise MalformedPacketError(packet, "message_id", "cut off")
    if buffer[at]:
        if at + 5 > size:
            raise MalformedPacketError(packet, "address", "cut off")
        length: int = _I32.unpack_from(buffer, at + 1)[0]
        if length < 0 or length & 1 or length > size - at - 5:
            raise MalformedPacketError(packet, "address", f"length of {length} bytes")
        found.address = buffer[at + 1 : at + 5 + length]
        at += 5 + length
    else:
        found.address = None
        at += 1
    if at >= size:
        raise MalformedPacketError(packet, "user_id", "cut off")
    at += 17 if buffer[at] == 1 else 1
    if at + 20 > size:
        raise _cut_off(packet, size - at)
    found.fixed = at
    found.type, durable, found.expiration, found.timestamp, found.priority = _FIXED.unpack_from(buffer, at)
    found.durable = durable != 0
    found.properties = at + 19
    return found


@dataclass(slots=True)
class CoreMessage:
    """A message taken apart: for clients, and for the broker where it has to change one.

    ``properties`` keep their wire order and types.  ``user_id`` is 16 bytes or None; times are ms since the epoch, 0 = none.
    """

    message_id: int = 0
    address: str | None = None
    user_id: bytes | None = None
    type: int = TYPE_DEFAULT
    durable: bool = False
    expiration: int = 0
    timestamp: int = 0
    priority: int = 4
    properties: dict[str, TypedValue] = field(default_factory=dict)
    body: bytes = b""

    def get(self, key: str) -> object:
        """The value of a property, None when it is missing."""
        entry = self.properties.get(key)
        return None if entry is None else entry[1]


def encode_headers(message: CoreMessage, last: bytes = b"") -> bytes:
    """The headers-and-properties block, with ``last`` as one more property, the last one, which is encoded already.

    Raises ValueError when a value does not fit its field.
    """
    user_id = message.user_id
    if user_id is not None and len(user_id) != 16:
        raise ValueError(f"a user id has 16 bytes, not {len(user_id)}")
    try:
        fixed = _FIXED.pack(message.type, 1 if message.durable else 0, message.expiration, message.timestamp, message.priority)
        message_id = _I64.pack(message.message_id)
    except struct.error as error:
        raise ValueError(f"a header of the message does not fit its field: {error}") from error
    return b"".join(
        (
            message_id,
            b"\x00" if message.address is None else b"\x01" + encode_simple_string(message.address),
            b"\x00" if user_id is None else b"\x01" + user_id,
            fixed,
            encode_properties(message.properties, last),
        )
    )


def encode_message(message: CoreMessage, last: bytes = b"") -> bytes:
    """The whole buffer of a regular message.  ``last`` is as for :func:`encode_headers`."""
    return b"".join((_I32.pack(len(message.body) + 13), message.body, encode_headers(message, last)))


def decode_headers(buffer: bytes, headers: int = 0, packet: str = "message") -> CoreMessage:
    """Read a headers-and-properties block that starts at offset ``headers`` and ends with the buffer."""
    found = scan_headers(buffer, headers, packet)
    address = None
    user_id_at = headers + 9
    if found.address is not None:
        address = decode_utf_16(found.address[4:])
        user_id_at += len(found.address)
    properties, _ = decode_properties(buffer, found.properties, len(buffer), packet)
    return CoreMessage(
        message_id=_I64.unpack_from(buffer, headers)[0],
        address=address,
        user_id=buffer[user_id_at + 1 : found.fixed] if buffer[user_id_at] == 1 else None,
        type=found.type,
        durable=found.durable,
        expiration=found.expiration,
        timestamp=found.timestamp,
        priority=found.priority,
        properties=properties,
    )


def decode_message(buffer: bytes, packet: str = "message") -> CoreMessage:
    """Read a whole regular message."""
    end = body_end(buffer, packet)
    message = decode_headers(buffer, end, packet)
    message.body = buffer[4:end]
    return message


def user_id_text(user_id: bytes) -> str:
    """The text of a user id, as the Java library prints it: as a version 1 UUID, even if the bytes have another version."""
    masked = bytearray(user_id)
    masked[6] = masked[6] & 0x0F | 0x10
    masked[8] = masked[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(masked)))
