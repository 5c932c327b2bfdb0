"""The primitive encodings of the CORE protocol: strings, nullables, transaction ids, connectors.

Source: ``protocol-spec/``, chapter "Primitive encodings".  All integers are big-endian; only the code units of a
SimpleString are little-endian.
"""

from __future__ import annotations

import struct
from codecs import utf_16_be_decode, utf_16_be_encode, utf_16_le_decode, utf_16_le_encode
from typing import NamedTuple

from mqclient.errors import MalformedPacketError
from mqclient.urls import holds_password

_U16 = struct.Struct(">H")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_F32 = struct.Struct(">f")
_F64 = struct.Struct(">d")

SHORT_STRING_UNITS = 9
"""Strings of fewer UTF-16 code units than this are written as plain code units."""
UTF_STRING_UNITS = 0xFFF
"""Strings of at least this many code units are written as an embedded SimpleString."""

TransportValue = bool | int | str
"""A connector parameter.  ``int`` travels as i32 where it fits and as i64 otherwise; see :class:`Long`."""


class Long(int):
    """An integer that travels as 64 bits although 32 would do."""

    __slots__ = ()


class Xid(NamedTuple):
    """An XA transaction branch id."""

    format_id: int
    branch_qualifier: bytes
    global_transaction_id: bytes


class TransportConfiguration(NamedTuple):
    """A connector as it travels in topology packets: name, Java factory class, parameters in their order."""

    name: str
    factory_class_name: str
    parameters: tuple[tuple[str, TransportValue], ...] = ()

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={'****' if holds_password(name) else value}" for name, value in self.parameters)
        return f"<TransportConfiguration {self.name} {self.factory_class_name} {shown}>"


def encode_utf(text: str) -> bytes:
    """The UTF form: each UTF-16 code unit on its own, one to three bytes (surrogates as CESU-8, NUL as one zero)."""
    if text.isascii():
        return text.encode("ascii")
    units = text.encode("utf-16-be", "surrogatepass")
    return b"".join(chr(unit).encode("utf-8", "surrogatepass") for (unit,) in _U16.iter_unpack(units))


def decode_utf(data: bytes) -> str:
    """Read the UTF form; ``C0 80`` of 1.x peers is accepted as NUL.  Raises ValueError when it is not that form."""
    if data.isascii():
        return data.decode("ascii")
    if max(data) >= 0xF0:
        raise ValueError("four-byte UTF-8 sequence")
    text = data.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def encode_simple_string(text: str) -> bytes:
    """SimpleString: i32 byte length, then UTF-16LE code units."""
    data = utf_16_le_encode(text, "surrogatepass")[0]  # a sixth of the time of str.encode, which looks the codec up
    return _I32.pack(len(data)) + data


def decode_utf_16(data: bytes) -> str:
    """The text of UTF-16LE code units.  Halves of a surrogate pair may stand alone; the number of bytes must be even."""
    return utf_16_le_decode(data, "surrogatepass", True)[0]


def encode_f32(value: float) -> bytes:
    """Four bytes of a float.  A NaN keeps its bits, which the processor's own conversion would change.

    Raises OverflowError when the number is too great for 32 bits.
    """
    if value == value:
        return _F32.pack(value)
    bits: int = _U64.unpack(_F64.pack(value))[0]
    return _U32.pack(bits >> 32 & 0x80000000 | 0x7F800000 | (bits >> 29 & 0x7FFFFF or 0x400000))


def decode_f32(data: bytes, start: int) -> float:
    """The float at ``start``; the inverse of :func:`encode_f32`."""
    value: float = _F32.unpack_from(data, start)[0]
    if value == value:
        return value
    bits: int = _U32.unpack_from(data, start)[0]
    special: float = _F64.unpack(_U64.pack((bits & 0x80000000) << 32 | 0x7FF0000000000000 | (bits & 0x7FFFFF) << 29))[0]
    return special


class Encoder:
    """Appends primitive values to a byte buffer."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def i8(self, value: int) -> None:
        self.data.append(value & 0xFF)

    def i32(self, value: int) -> None:
        self.data += _I32.pack(value)

    def i64(self, value: int) -> None:
        self.data += _I64.pack(value)

    def boolean(self, value: bool) -> None:
        self.data.append(0xFF if value else 0)

    def raw(self, value: bytes) -> None:
        self.data += value

    def blob(self, value: bytes) -> None:
        self.data += _I32.pack(len(value)) + value

    def string(self, text: str) -> None:
        """Java String: three forms by its number of UTF-16 code units."""
        wide = utf_16_be_encode(text, "surrogatepass")[0]
        units = len(wide) >> 1
        self.data += _I32.pack(units)
        if units < SHORT_STRING_UNITS:
            self.data += wide
        elif units < UTF_STRING_UNITS:
            utf = encode_utf(text)
            self.data += _U16.pack(len(utf)) + utf
        else:
            self.data += encode_simple_string(text)

    def nullable_string(self, text: str | None) -> None:
        if text is None:
            self.data.append(0)
        else:
            self.data.append(1)
            self.string(text)

    def simple_string(self, text: str) -> None:
        self.data += encode_simple_string(text)

    def nullable_simple_string(self, text: str | None) -> None:
        if text is None:
            self.data.append(0)
        else:
            self.data.append(1)
            self.data += encode_simple_string(text)

    def nullable_bool(self, value: bool | None) -> None:
        self.data += b"\x00" if value is None else b"\xff\xff" if value else b"\xff\x00"

    def nullable_int(self, value: int | None) -> None:
        self.data += b"\x00" if value is None else b"\xff" + _I32.pack(value)

    def nullable_long(self, value: int | None) -> None:
        self.data += b"\x00" if value is None else b"\xff" + _I64.pack(value)

    def xid(self, value: Xid) -> None:
        self.data += _I32.pack(value.format_id)
        for part in (value.branch_qualifier, value.global_transaction_id):
            self.data += _I32.pack(len(part)) + part

    def transport(self, value: TransportConfiguration) -> None:
        self.string(value.name)
        self.string(value.factory_class_name)
        self.i32(len(value.parameters))
        for key, parameter in value.parameters:
            self.string(key)
            if isinstance(parameter, bool):
                self.i8(0)
                self.boolean(parameter)
            elif isinstance(parameter, str):
                self.i8(3)
                self.string(parameter)
            elif isinstance(parameter, Long) or not -0x80000000 <= parameter <= 0x7FFFFFFF:
                self.i8(2)
                self.i64(parameter)
            else:
                self.i8(1)
                self.i32(parameter)


class Decoder:
    """Takes primitive values from ``data[position:end]``; every length is compared with the bytes that are left.

    :class:`MalformedPacketError` names ``packet`` and ``field`` when a value does not fit.
    """

    __slots__ = ("data", "end", "field", "packet", "position")

    def __init__(self, data: bytes, packet: str, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end
        self.packet = packet
        self.field = ""

    def fail(self, reason: str) -> MalformedPacketError:
        return MalformedPacketError(self.packet, self.field, reason)

    @property
    def remaining(self) -> int:
        return self.end - self.position

    def take(self, size: int) -> int:
        """Reserve ``size`` bytes; returns where they start."""
        start = self.position
        if size < 0 or size > self.end - start:
            raise self.fail(f"needs {size} bytes, {self.end - start} left")
        self.position = start + size
        return start

    def raw(self, size: int) -> bytes:
        start = self.take(size)
        return self.data[start : start + size]

    def blob(self) -> bytes:
        return self.raw(self.i32())

    def i8(self) -> int:
        value = self.data[self.take(1)]
        return value - 256 if value > 127 else value

    def i32(self) -> int:
        value: int = _I32.unpack_from(self.data, self.take(4))[0]
        return value

    def i64(self) -> int:
        value: int = _I64.unpack_from(self.data, self.take(8))[0]
        return value

    def boolean(self) -> bool:
        return self.data[self.take(1)] != 0

    def count(self, item_size: int) -> int:
        """An i32 number of items that take at least ``item_size`` bytes each."""
        value = self.i32()
        if value < 0 or value * item_size > self.remaining:
            raise self.fail(f"{value} items cannot fit in {self.remaining} bytes")
        return value

    def string(self) -> str:
        units = self.i32()
        if units < 0:
            raise self.fail(f"negative length {units}")
        if units < SHORT_STRING_UNITS:
            return utf_16_be_decode(self.raw(units * 2), "surrogatepass", True)[0]
        if units < UTF_STRING_UNITS:
            size: int = _U16.unpack_from(self.data, self.take(2))[0]
            try:
                return decode_utf(self.raw(size))
            except ValueError as error:
                raise self.fail(f"bad characters: {error}") from error
        return self.simple_string()

    def nullable_string(self) -> str | None:
        return self.string() if self.boolean() else None

    def simple_string(self) -> str:
        size = self.i32()
        if size & 1:
            raise self.fail(f"odd byte length {size}")
        return decode_utf_16(self.raw(size))

    def nullable_simple_string(self) -> str | None:
        return self.simple_string() if self.boolean() else None

    def nullable_bool(self) -> bool | None:
        return self.boolean() if self.boolean() else None

    def nullable_int(self) -> int | None:
        return self.i32() if self.boolean() else None

    def nullable_long(self) -> int | None:
        return self.i64() if self.boolean() else None

    def xid(self) -> Xid:
        format_id = self.i32()
        branch_qualifier = self.raw(self.i32())
        return Xid(format_id, branch_qualifier, self.raw(self.i32()))

    def transport(self) -> TransportConfiguration:
        name = self.string()
        factory = self.string()
        parameters: list[tuple[str, TransportValue]] = []
        for _ in range(self.count(6)):
            key = self.string()
            kind = self.i8()
            if kind == 0:
                parameters.append((key, self.boolean()))
            elif kind == 1:
                parameters.append((key, self.i32()))
            elif kind == 2:
                parameters.append((key, Long(self.i64())))
            elif kind == 3:
                parameters.append((key, self.string()))
            else:
                raise self.fail(f"unknown parameter type {kind}")
        return TransportConfiguration(name, factory, tuple(parameters))
