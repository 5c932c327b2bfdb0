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
from mqclient.wire.primitives import decode_f32, decode_utf_16, encode_f32, encode_simple_string

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
FIXED: dict[int, struct.Struct] = {
    BYTE: struct.Struct(">b"),
    SHORT: struct.Struct(">h"),
    INT: struct.Struct(">i"),
    LONG: struct.Struct(">q"),
    DOUBLE: struct.Struct(">d"),
    CHAR: struct.Struct(">H"),
}
"""Forms of the values of fixed size, but BOOLEAN and FLOAT."""
_HEADS: dict[int, bytes] = {kind: bytes((kind,)) for kind in (NULL, BOOLEAN, BYTES, FLOAT, STRING, *FIXED)}
_SIZES: tuple[int, ...] = (0, -1, 1, 1, -1, 2, 4, 8, 4, 8, -1, 2, *(-1 for _ in range(12, 256)))
"""Bytes of a value by type id; -1: the value says it, or there is no such type."""
_ODD_OR_NEGATIVE = 0x80000001
PROPERTIES_MAX = 10_000
"""Properties of one message: each costs time whenever the table is walked, and memory when it is decoded."""
ENTRY_SIZE_MIN = 5
"""Bytes: an entry has a key length and a type at least."""


def encode_properties(properties: dict[str, TypedValue], last: bytes = b"") -> bytes:
    """The block for ``properties``, in their order, and for the encoded entry ``last``, if there is one; a single zero byte when there are
    none."""
    if not properties and not last:
        return b"\x00"
    parts = [_HEAD.pack(1, len(properties) + 1 if last else len(properties))]
    for key, (kind, value) in properties.items():
        parts.append(encode_simple_string(key))
        parts.append(encode_value(kind, value))
    parts.append(last)
    return b"".join(parts)


def encode_value(kind: int, value: Value) -> bytes:
    """A type id byte and the value.  Raises ValueError when the value does not fit the type."""
    try:
        head = _HEADS[kind]
        if kind == STRING:
            return head + encode_simple_string(value)  # type: ignore[arg-type]
        if kind == NULL:
            return head
        if kind == BOOLEAN:
            return head + (b"\x01" if value else b"\x00")
        if kind == BYTES:
            return head + _I32.pack(len(value)) + value  # type: ignore[arg-type, operator]
        if kind == FLOAT:
            return head + encode_f32(value)  # type: ignore[arg-type]
        return head + FIXED[kind].pack(value)
    except (KeyError, TypeError, AttributeError, OverflowError, struct.error) as error:
        raise ValueError(f"{value!r} does not fit the value type {kind}") from error


def decode_properties(
    data: bytes, start: int, end: int, packet: str = "message", field: str = "properties"
) -> tuple[dict[str, TypedValue], int]:
    """(properties in their order, where the block ends)."""
    properties: dict[str, TypedValue] = {}
    position = start + 1
    for key_start, key_end, kind, value_start, position in walk(data, start, end, packet, field):
        properties[decode_utf_16(data[key_start:key_end])] = (kind, decode_value(data, kind, value_start, position))
    if not properties and data[start]:
        position = start + 5
    return properties, position


def decode_value(data: bytes, kind: int, start: int, end: int) -> Value:
    """The value at ``data[start:end]``, as :func:`walk` gave it."""
    if kind == STRING:
        return decode_utf_16(data[start + 4 : end])
    if kind in FIXED:
        value: int | float = FIXED[kind].unpack_from(data, start)[0]
        return value
    if kind == BOOLEAN:
        return data[start] != 0
    if kind == BYTES:
        return data[start + 4 : end]
    if kind == FLOAT:
        return decode_f32(data, start)
    return None


def walk(data: bytes, start: int, end: int, packet: str = "message", field: str = "properties") -> Iterator[tuple[int, int, int, int, int]]:
    """Every entry as (key start, key end, type, value start, value end), without decoding any."""
    unpack = _I32.unpack_from
    sizes = _SIZES
    position, count = _open(data, start, end, packet, field)
    try:
        for _ in range(count):
            size: int = unpack(data, position)[0]
            if size & _ODD_OR_NEGATIVE:
                raise MalformedPacketError(packet, field, f"key of {size} bytes")
            key_start = position + 4
            key_end = key_start + size
            kind = data[key_end]
            value_start = key_end + 1
            length = sizes[kind]
            if length < 0:
                length = _variable_length(data, kind, value_start, packet, field)
            position = value_start + length
            if position > end:
                raise MalformedPacketError(packet, field, "a value is cut off")
            yield key_start, key_end, kind, value_start, position
    except (struct.error, IndexError) as error:
        raise MalformedPacketError(packet, field, "an entry is cut off") from error


def check_block(data: bytes, start: int, end: int, packet: str = "message", field: str = "properties") -> None:
    """Raises MalformedPacketError unless the block at ``start`` can be decoded, and so walked through and searched, later on."""
    position, count = _open(data, start, end, packet, field)
    check_entries(data, position, end, count, packet, field)


def check_entries(data: bytes, position: int, end: int, count: int, packet: str = "message", field: str = "properties") -> None:
    """As :func:`check_block`, for ``count`` entries of a block, the first of which is at ``position``."""
    unpack = _I32.unpack_from
    sizes = _SIZES
    try:
        for _ in range(count):
            size: int = unpack(data, position)[0]
            if size & _ODD_OR_NEGATIVE:
                raise MalformedPacketError(packet, field, f"key of {size} bytes")
            value_start = position + size + 5
            kind = data[value_start - 1]
            length = sizes[kind]
            if length < 0:
                length = _variable_length(data, kind, value_start, packet, field)
            position = value_start + length
            if position > end:
                raise MalformedPacketError(packet, field, "a value is cut off")
    except (struct.error, IndexError) as error:
        raise MalformedPacketError(packet, field, "an entry is cut off") from error


def find_property(data: bytes, start: int, end: int, key: bytes, packet: str = "message") -> tuple[int, int, int] | None:
    """(type, value start, value end) of the entry with this key, which is given in UTF-16LE; None when there is none.

    Much faster than a walk where the bytes of the key do not occur at all.  A block is then not checked.
    """
    candidate = data.find(key, start, end)
    if candidate < 0:
        return None
    unpack = _I32.unpack_from
    sizes = _SIZES
    position, count = _open(data, start, end, packet, "properties")
    try:
        for _ in range(count):
            here = position + 4
            if candidate < here:  # the found bytes are not at the place of a key
                candidate = data.find(key, here, end)
                if candidate < 0:
                    return None
            size: int = unpack(data, position)[0]
            if size & _ODD_OR_NEGATIVE:
                raise MalformedPacketError(packet, "properties", f"key of {size} bytes")
            start = here + size + 1
            kind = data[start - 1]
            length = sizes[kind]
            if length < 0:
                length = _variable_length(data, kind, start, packet, "properties")
            position = start + length
            if position > end:
                raise MalformedPacketError(packet, "properties", "a value is cut off")
            if here == candidate and size == len(key):
                return kind, start, position
    except (struct.error, IndexError) as error:
        raise MalformedPacketError(packet, "properties", "an entry is cut off") from error
    return None


def bytes_property(key: bytes, value: bytes) -> bytes:
    """An entry of a block: a BYTES value with its key, which is given in UTF-16LE."""
    return b"".join((_I32.pack(len(key)), key, _HEADS[BYTES], _I32.pack(len(value)), value))


def string_property(key: str, value: str) -> bytes:
    """An entry of a block: a STRING value with its key."""
    return encode_simple_string(key) + encode_value(STRING, value)


def with_property(data: bytes, start: int, entry: bytes) -> bytes:
    """``data`` with one more entry, the first one, in the block at ``start``; the rest is neither looked at nor decoded."""
    if not data[start]:
        return b"".join((data[:start], _HEAD.pack(1, 1), entry, data[start + 1 :]))
    # A count that cannot be true stays one.
    count = (_I32.unpack_from(data, start + 1)[0] + 1) & 0x7FFFFFFF
    return b"".join((data[:start], _HEAD.pack(1, count), entry, data[start + 5 :]))


def without_properties(data: bytes, start: int, prefixes: tuple[bytes, ...]) -> tuple[bytes, dict[str, TypedValue]]:
    """``data`` without the entries of the block at ``start`` (the last part of ``data``) whose keys begin with ``prefixes``, and these
    entries."""
    kept: list[bytes] = []
    removed: dict[str, TypedValue] = {}
    for key_start, key_end, kind, value_start, value_end in walk(data, start, len(data)):
        if data.startswith(prefixes, key_start, key_end):
            removed[decode_utf_16(data[key_start:key_end])] = (kind, decode_value(data, kind, value_start, value_end))
        else:
            kept.append(data[key_start - 4 : value_end])
    if not removed:
        return data, removed
    return b"".join((data[:start], _HEAD.pack(1, len(kept)) if kept else b"\x00", *kept)), removed


def find_prefix(data: bytes, start: int, end: int, prefix: bytes, packet: str = "message") -> list[tuple[int, int, int, int, int]]:
    """Entries whose keys begin with ``prefix`` (in UTF-16LE), in the form of :func:`walk`.  The bytes after the last one are not
    checked."""
    found: list[tuple[int, int, int, int, int]] = []
    candidate = data.find(prefix, start, end)
    if candidate < 0:
        return found
    unpack = _I32.unpack_from
    sizes = _SIZES
    position, count = _open(data, start, end, packet, "properties")
    try:
        for _ in range(count):
            here = position + 4
            if candidate < here:  # the found bytes are not at the place of a key
                candidate = data.find(prefix, here, end)
                if candidate < 0:
                    break
            size: int = unpack(data, position)[0]
            if size & _ODD_OR_NEGATIVE:
                raise MalformedPacketError(packet, "properties", f"key of {size} bytes")
            key_end = here + size
            kind = data[key_end]
            length = sizes[kind]
            if length < 0:
                length = _variable_length(data, kind, key_end + 1, packet, "properties")
            position = key_end + 1 + length
            if position > end:
                raise MalformedPacketError(packet, "properties", "a value is cut off")
            if here == candidate and size >= len(prefix):
                found.append((here, key_end, kind, key_end + 1, position))
    except (struct.error, IndexError) as error:
        raise MalformedPacketError(packet, "properties", "an entry is cut off") from error
    return found


def _open(data: bytes, start: int, end: int, packet: str, field: str) -> tuple[int, int]:
    """(where the first entry is, number of entries); the number is not greater than the bytes allow."""
    if start >= end:
        raise MalformedPacketError(packet, field, "the marker is missing")
    if not data[start]:
        return start + 1, 0
    position = start + 5
    if position > end:
        raise MalformedPacketError(packet, field, "the count is missing")
    count: int = _I32.unpack_from(data, start + 1)[0]
    if count < 0 or count * ENTRY_SIZE_MIN > end - position:
        raise MalformedPacketError(packet, field, f"{count} entries cannot fit in {end - position} bytes")
    return position, count


def _variable_length(data: bytes, kind: int, start: int, packet: str, field: str) -> int:
    """Bytes of a value with its length at ``start``; raises struct.error when that is cut off."""
    if kind != STRING and kind != BYTES:
        raise MalformedPacketError(packet, field, f"unknown value type {kind}")
    length: int = _I32.unpack_from(data, start)[0]
    if length < 0 or (kind == STRING and length & 1):
        raise MalformedPacketError(packet, field, f"value of {length} bytes")
    return length + 4
