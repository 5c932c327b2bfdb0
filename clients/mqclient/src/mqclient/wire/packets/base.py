"""What all packets share: kinds of fields, optional groups, the base class and the table of all packet types.

Source: ``protocol-spec/``, chapter "Primitive encodings".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

from mqclient.wire.primitives import Reader, Writer

VERSION_MIN = 121
VERSION_MAX = 136
"""Protocol versions that are spoken, both included."""

ROUTING_MULTICAST = 0
ROUTING_ANYCAST = 1

ALL_GROUPS = 99
"""Value of ``groups`` on a packet that has every optional group."""


class Kind:
    """How one field is written and read."""

    __slots__ = ("name", "read", "write")

    def __init__(self, name: str, write: Callable[[Writer, Any], None], read: Callable[[Reader], Any]) -> None:
        self.name = name
        self.write = write
        self.read = read


def _array(name: str, size: int, write: Callable[[Writer, Any], None], read: Callable[[Reader], Any]) -> Kind:
    def write_all(out: Writer, values: tuple[Any, ...]) -> None:
        out.i32(len(values))
        for value in values:
            write(out, value)

    def read_all(source: Reader) -> tuple[Any, ...]:
        return tuple(read(source) for _ in range(source.count(size)))

    return Kind(name, write_all, read_all)


def _optional(name: str, write: Callable[[Writer, Any], None], read: Callable[[Reader], Any]) -> Kind:
    def write_present(out: Writer, value: Any) -> None:
        out.boolean(value is not None)
        if value is not None:
            write(out, value)

    return Kind(name, write_present, lambda source: read(source) if source.boolean() else None)


I8 = Kind("i8", Writer.i8, Reader.i8)
I32 = Kind("i32", Writer.i32, Reader.i32)
I64 = Kind("i64", Writer.i64, Reader.i64)
BOOL = Kind("bool", Writer.boolean, Reader.boolean)
STR = Kind("Str", Writer.string, Reader.string)
NSTR = Kind("NStr", Writer.nullable_string, Reader.nullable_string)
SSTR = Kind("SStr", Writer.simple_string, Reader.simple_string)
NSSTR = Kind("NSStr", Writer.nullable_simple_string, Reader.nullable_simple_string)
NBOOL = Kind("NBool", Writer.nullable_bool, Reader.nullable_bool)
NINT = Kind("NInt", Writer.nullable_int, Reader.nullable_int)
NLONG = Kind("NLong", Writer.nullable_long, Reader.nullable_long)
XID = Kind("Xid", Writer.xid, Reader.xid)
TRANSPORT = Kind("TC", Writer.transport, Reader.transport)
CONNECTOR = _optional("bool, TC if true", Writer.transport, Reader.transport)
BLOB = Kind("i32 n, n bytes", Writer.blob, Reader.blob)
I8_ARRAY = _array("i32 n, n x i8", 1, Writer.i8, Reader.i8)
I64_ARRAY = _array("i32 n, n x i64", 8, Writer.i64, Reader.i64)
SSTR_ARRAY = _array("i32 n, n x SStr", 4, Writer.simple_string, Reader.simple_string)
XID_ARRAY = _array("i32 n, n x Xid", 12, Writer.xid, Reader.xid)
REST = Kind("bytes to the end", Writer.raw, lambda source: source.raw(source.remaining))


class Group:
    """Marks the start of fields that are present only if bytes are left (``minimum`` of them at least).

    They are neither written nor read on a connection of a version below ``since``.
    """

    __slots__ = ("minimum", "since")

    def __init__(self, minimum: int = 1, since: int = 0) -> None:
        self.minimum = minimum
        self.since = since


Field = tuple[str, Kind]
FieldTable = tuple["Field | Group", ...]


class Packet:
    """Base of all packets.

    TYPE is the signed packet type; NAME the protocol's name; COUNTED says whether the packet advances the confirmation window of a
    session channel; RESPONSE whether it completes a blocking call.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    TYPE: ClassVar[int]
    NAME: ClassVar[str]
    FIELDS: ClassVar[FieldTable] = ()
    COUNTED: ClassVar[bool] = True
    RESPONSE: ClassVar[bool] = False
    SINCE: ClassVar[int] = 0

    # Here, because dataclasses would write them for each of the many packets: a third of the time in which these are imported.

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in fields(self))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        shown = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr]  # type: ignore[arg-type]
        return f"{self.__class__.__qualname__}({', '.join(shown)})"


PACKETS: dict[int, type[Packet]] = {}
"""Every packet class by its type; complete once :mod:`mqclient.wire.packets` is imported, and not changed afterwards."""

PacketClass = TypeVar("PacketClass", bound=type[Packet])


def register(cls: PacketClass) -> PacketClass:
    """Class decorator: enter a packet into :data:`PACKETS`."""
    if cls.TYPE in PACKETS:
        raise TypeError(f"packet type {cls.TYPE} is used twice")
    PACKETS[cls.TYPE] = cls
    return cls
