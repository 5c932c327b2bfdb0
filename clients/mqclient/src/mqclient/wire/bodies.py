"""The bodies of the message types: text, map, stream, object, and the primitive values of a bytes message.

This module knows no JMS; a value with a type is a ``TypedValue`` of :mod:`mqclient.wire.properties`.  Every reader takes bytes from a peer
and raises :class:`MalformedPacketError` (packet ``message``, field ``body``) when they do not fit the type.

Source: ``protocol-spec/``, chapter "Message encoding".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from mqclient.errors import MalformedPacketError
from mqclient.wire.primitives import Decoder, Encoder, decode_f32, decode_utf, encode_f32, encode_simple_string, encode_utf
from mqclient.wire.properties import (
    BOOLEAN,
    BYTE,
    BYTES,
    CHAR,
    DOUBLE,
    FIXED,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    TypedValue,
    decode_properties,
    encode_properties,
)

UTF_BYTES_MAX = 0xFFFF
"""Bytes of a string of a bytes message in its UTF form: its encoding allows no more."""

_I32 = struct.Struct(">i")
_U8 = struct.Struct(">B")
_U16 = struct.Struct(">H")


class EndOfBodyError(MalformedPacketError):
    """A value was asked for behind the last byte of a body; the position is where it was before."""


# --- text -------------------------------------------------------------------------------------------------------------


def encode_text(text: str | None) -> bytes:
    """The body of a text message: a nullable SimpleString."""
    return b"\x00" if text is None else b"\x01" + encode_simple_string(text)


def decode_text(body: bytes) -> str | None:
    """The text; None for a null text and for a body without a byte.  Surplus bytes are ignored.

    Raises :class:`MalformedPacketError` for a body that :func:`encode_text` has not made.
    """
    if not body:
        return None
    source = Decoder(body, "message")
    source.field = "body"
    try:
        return source.nullable_simple_string()
    except MalformedPacketError as error:
        text = f"is not an encoded text ({error.reason}): its sender has put other bytes into a text message"
        raise MalformedPacketError("message", "body", text) from error


# --- map --------------------------------------------------------------------------------------------------------------


def encode_map(entries: dict[str, TypedValue]) -> bytes:
    """The body of a map message: one property block, in the order of ``entries``."""
    return encode_properties(entries)


def decode_map(body: bytes) -> dict[str, TypedValue]:
    """The entries in their order; none for a body without a byte.  Surplus bytes are ignored."""
    if not body:
        return {}
    return decode_properties(body, 0, len(body), "message", "body")[0]


# --- object -----------------------------------------------------------------------------------------------------------


def encode_object(serialised: bytes | None) -> bytes:
    """The body of an object message: the serialised object behind its length, nothing for a null object."""
    return b"" if serialised is None else _I32.pack(len(serialised)) + serialised


def decode_object(body: bytes) -> bytes | None:
    """The serialised object; None for a body that is empty or says a length of 0."""
    if not body:
        return None
    source = Decoder(body, "message")
    source.field = "body"
    return source.raw(source.i32()) or None


# --- stream -----------------------------------------------------------------------------------------------------------


def encode_stream(items: Sequence[TypedValue]) -> bytes:
    """The body of a stream message.  A null of any type travels as a null string.

    Raises ValueError when a value does not fit its type.
    """
    out = Encoder()
    for kind, value in items:
        if value is None:
            out.data += b"\x0a\x00"
        elif kind == STRING and isinstance(value, str):
            out.i8(STRING)
            out.nullable_string(value)
        elif kind == BYTES and isinstance(value, (bytes, bytearray)):
            out.i8(BYTES)
            out.i32(len(value))
            out.raw(bytes(value))
        else:
            out.i8(kind)
            out.raw(_primitive(kind, value))
    return bytes(out.data)


def decode_stream(body: bytes) -> list[TypedValue]:
    """The items with their types, in order; a null is ``(STRING, None)``."""
    source = Decoder(body, "message")
    source.field = "body"
    items: list[TypedValue] = []
    while source.remaining:
        kind = source.i8()
        if kind == STRING:
            items.append((STRING, source.nullable_string()))
        elif kind == BYTES:
            items.append((BYTES, source.raw(source.i32())))
        elif kind == BOOLEAN:
            items.append((BOOLEAN, source.boolean()))
        elif kind == FLOAT:
            items.append((FLOAT, decode_f32(body, source.take(4))))
        elif kind in FIXED:
            form = FIXED[kind]
            items.append((kind, form.unpack_from(body, source.take(form.size))[0]))
        else:
            raise source.fail(f"unknown value type {kind}")
    return items


# --- bytes ------------------------------------------------------------------------------------------------------------


def _primitive(kind: int, value: object) -> bytes:
    try:
        if kind == BOOLEAN:
            return b"\xff" if value else b"\x00"
        if kind == FLOAT and isinstance(value, (int, float)):
            return encode_f32(value)
        return FIXED[kind].pack(value)
    except (KeyError, struct.error, OverflowError) as error:
        raise ValueError(f"{value!r} does not fit the value type {kind}") from error


class BytesWriter:
    """Builds the body of a bytes message from primitive values, as Java's ``DataOutput`` does.

    Every method raises ValueError when the value does not fit the type; nothing is written then.
    """

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def write_boolean(self, value: bool) -> None:
        self.data.append(0xFF if value else 0)

    def write_byte(self, value: int) -> None:
        """A number from -128 to 127."""
        self.data += _primitive(BYTE, value)

    def write_short(self, value: int) -> None:
        """A number of 16 bits with sign."""
        self.data += _primitive(SHORT, value)

    def write_char(self, value: int) -> None:
        """A UTF-16 code unit."""
        self.data += _primitive(CHAR, value)

    def write_int(self, value: int) -> None:
        """A number of 32 bits with sign."""
        self.data += _primitive(INT, value)

    def write_long(self, value: int) -> None:
        """A number of 64 bits with sign."""
        self.data += _primitive(LONG, value)

    def write_float(self, value: float) -> None:
        """A number that is rounded to 32 bits."""
        self.data += _primitive(FLOAT, value)

    def write_double(self, value: float) -> None:
        self.data += _primitive(DOUBLE, value)

    def write_utf(self, value: str) -> None:
        """A string behind the number of its bytes; ValueError when it takes more than 65535 of them."""
        data = encode_utf(value)
        if len(data) > UTF_BYTES_MAX:
            raise ValueError(f"a string of {len(data)} bytes, {UTF_BYTES_MAX} are allowed")
        self.data += _U16.pack(len(data)) + data

    def write_bytes(self, value: bytes) -> None:
        """Bytes as they are, without a length."""
        self.data += value


class BytesReader:
    """Takes primitive values from a body, in order.

    Every method raises :class:`EndOfBodyError`, with ``position`` unchanged, when fewer bytes are left than the value takes.
    """

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def remaining(self) -> int:
        """Bytes that are not read."""
        return len(self.data) - self.position

    def _take(self, size: int) -> int:
        start = self.position
        if size > len(self.data) - start:
            raise EndOfBodyError("message", "body", f"needs {size} bytes, {len(self.data) - start} left")
        self.position = start + size
        return start

    def _number(self, form: struct.Struct) -> int:
        value: int = form.unpack_from(self.data, self._take(form.size))[0]
        return value

    def read_boolean(self) -> bool:
        return self.data[self._take(1)] != 0

    def read_byte(self) -> int:
        return self._number(FIXED[BYTE])

    def read_unsigned_byte(self) -> int:
        return self._number(_U8)

    def read_short(self) -> int:
        return self._number(FIXED[SHORT])

    def read_unsigned_short(self) -> int:
        return self._number(_U16)

    def read_char(self) -> int:
        """A UTF-16 code unit."""
        return self._number(_U16)

    def read_int(self) -> int:
        return self._number(FIXED[INT])

    def read_long(self) -> int:
        return self._number(FIXED[LONG])

    def read_float(self) -> float:
        return decode_f32(self.data, self._take(4))

    def read_double(self) -> float:
        value: float = FIXED[DOUBLE].unpack_from(self.data, self._take(8))[0]
        return value

    def read_utf(self) -> str:
        """A string; :class:`MalformedPacketError` when its bytes are not the UTF form."""
        start = self.position
        size = self.read_unsigned_short()
        try:
            return decode_utf(self.read_bytes(size))
        except MalformedPacketError:
            self.position = start
            raise
        except ValueError as error:
            self.position = start
            raise MalformedPacketError("message", "body", f"bad characters: {error}") from error

    def read_bytes(self, size: int) -> bytes:
        """Exactly ``size`` bytes; ValueError for a negative number of them."""
        if size < 0:
            raise ValueError(f"{size} bytes cannot be read")
        start = self._take(size)
        return self.data[start : start + size]
