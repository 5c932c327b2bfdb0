"""TypedProperties: the property table of messages and the body of map messages.

Wire layout (``protocol-spec/``, chapter "Message encoding")::

    i8 marker (0 = no properties, nothing follows), i32 count, then per entry
    i32 key bytes, key (UTF-16LE), i8 type, value
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from mqclient.errors import MalformedPacketError
from mqclient.wire.primitives import encode_simple_string

NULL: Final = 0
BOOLEAN: Final = 2
BYTE: Final = 3
BYTES: Final = 4
SHORT: Final = 5
INT: Final = 6
LONG: Final = 7
FLOAT: Final = 8
DOUBLE: Final = 9
STRING: Final = 10
CHAR: Final = 11

Value = None | bool | int | float | str | bytes
TypedValue = tuple[int, Value]
"""A type id and a value.  CHAR is its UTF-16 code unit as an int."""

_I32 = struct.Struct(">i")
_HEAD = struct.Struct(">Bi")
_FIXED: dict[int, struct.Struct] = {
    BYTE: struct.Struct(">b"),
    SHORT: struct.Struct(">h"),
    INT: struct.Struct(">i"),
    LONG: struct.Struct(">q"),
    FLOAT: struct.Struct(">f"),
    DOUBLE: struct.Struct(">d"),
    CHAR: struct.Struct(">H"),
}
_SIZES: tuple[int, ...] = (0, -1, 1, 1, -2, 2, 4, 8, 4, 8, -2, 2)
"""Bytes of a value by type id; -2: an i32 length and that many bytes; -1: no such type."""


def encode_properties(properties: dict[str, TypedValue]) -> bytes:
    """The block for ``properties``, in their order; a single zero byte when there are none."""
    if not properties:
        return b"\x00"
    parts = [_HEAD.pack(1, len(properties))]
    for key, (kind, value) in properties.items():
        parts.append(encode_simple_string(key))
        parts.append(encode_value(kind, value))
    return b"".join(parts)


def encode_value(kind: int, value: Value) -> bytes:
    """A type id byte and the value."""
    head = bytes((kind,))
    if kind == STRING:
        assert isinstance(value, str)
        return head + encode_simple_string(value)
    if kind == NULL:
        return head
    if kind == BOOLEAN:
        return head + (b"\x01" if value else b"\x00")
    if kind == BYTES:
        assert isinstance(value, bytes)
        return head + _I32.pack(len(value)) + value
    return head + _FIXED[kind].pack(value)


def decode_properties(data: bytes, start: int, end: int, packet: str = "message") -> tuple[dict[str, TypedValue], int]:
    """(properties in their order, where the block ends)."""
    properties: dict[str, TypedValue] = {}
    position = start + 1
    for key_start, key_end, kind, value_start, value_end in walk(data, start, end, packet):
        try:
            key = data[key_start:key_end].decode("utf-16-le", "surrogatepass")
            properties[key] = (kind, decode_value(data, kind, value_start, value_end))
        except ValueError as error:
            raise MalformedPacketError(packet, "properties", str(error)) from error
        position = value_end
    if not properties and start < end and data[start]:
        position = start + 5
    return properties, position


def decode_value(data: bytes, kind: int, start: int, end: int) -> Value:
    """The value at ``data[start:end]``, as :func:`walk` gave it."""
    if kind == STRING:
        return data[start + 4 : end].decode("utf-16-le", "surrogatepass")
    if kind == NULL:
        return None
    if kind == BOOLEAN:
        return data[start] != 0
    if kind == BYTES:
        return data[start + 4 : end]
    value: int | float = _FIXED[kind].unpack_from(data, start)[0]
    return value


def walk(data: bytes, start: int, end: int, packet: str = "message") -> Iterator[tuple[int, int, int, int, int]]:
    """Every entry as (key start, key end, type, value start, value end), without decoding any."""
    if start >= end:
        raise MalformedPacketError(packet, "properties", "the marker is missing")
    if data[start] == 0:
        return
    position = start + 5
    if position > end:
        raise MalformedPacketError(packet, "properties", "the count is missing")
    count: int = _I32.unpack_from(data, start + 1)[0]
    if count < 0 or count * 5 > end - position:
        raise MalformedPacketError(packet, "properties", f"{count} entries cannot fit in {end - position} bytes")
    for _ in range(count):
        if position + 5 > end:
            raise MalformedPacketError(packet, "properties", "an entry is cut off")
        size: int = _I32.unpack_from(data, position)[0]
        key_start = position + 4
        key_end = key_start + size
        if size < 0 or size & 1 or key_end >= end:
            raise MalformedPacketError(packet, "properties", f"key of {size} bytes")
        kind = data[key_end]
        value_start = key_end + 1
        length = _SIZES[kind] if kind < 12 else -1
        if length == -2:
            if value_start + 4 > end:
                raise MalformedPacketError(packet, "properties", "a value is cut off")
            length = _I32.unpack_from(data, value_start)[0]
            if length < 0 or (kind == STRING and length & 1):
                raise MalformedPacketError(packet, "properties", f"value of {length} bytes")
            length += 4
        elif length < 0:
            raise MalformedPacketError(packet, "properties", f"unknown value type {kind}")
        position = value_start + length
        if position > end:
            raise MalformedPacketError(packet, "properties", "a value is cut off")
        yield key_start, key_end, kind, value_start, position
