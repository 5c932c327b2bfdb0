"""Common parts of all packets: kinds of fields, optional groups, the base class and the table of all packet types.

Source: ``protocol-spec/``, chapter "Primitive encodings".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform

from mqclient.wire.primitives import Decoder, Encoder, TransportConfiguration, Xid

VERSION_MIN = 121
VERSION_MAX = 136
"""Protocol versions that are spoken, both included."""

ROUTING_MULTICAST = 0
ROUTING_ANYCAST = 1

ALL_GROUPS = 99
"""Value of ``groups`` on a packet that has every optional group."""


class Kind:
    """The codec of one field."""

    __slots__ = ("read", "write")

    def __init__(self, write: Callable[[Encoder, Any], None], read: Callable[[Decoder], Any]) -> None:
        self.write = write
        self.read = read


def _array(size: int, write: Callable[[Encoder, Any], None], read: Callable[[Decoder], Any]) -> Kind:
    def write_all(out: Encoder, values: tuple[Any, ...]) -> None:
        out.i32(len(values))
        for value in values:
            write(out, value)

    def read_all(source: Decoder) -> tuple[Any, ...]:
        return tuple(read(source) for _ in range(source.count(size)))

    return Kind(write_all, read_all)


def _optional(write: Callable[[Encoder, Any], None], read: Callable[[Decoder], Any]) -> Kind:
    def write_present(out: Encoder, value: Any) -> None:
        out.boolean(value is not None)
        if value is not None:
            write(out, value)

    return Kind(write_present, lambda source: read(source) if source.boolean() else None)


class Group:
    """Marks the first of fields that are present only if bytes are left (``minimum`` of them at least).

    The fields are neither written nor read on a connection of a version below ``since``.
    """

    __slots__ = ("minimum", "since")

    def __init__(self, minimum: int = 1, since: int = 0) -> None:
        self.minimum = minimum
        self.since = since


CONNECTOR_KIND = _optional(Encoder.transport, Decoder.transport)

# Types of fields: the type of the value, and how it is written and read.
I8 = Annotated[int, Kind(Encoder.i8, Decoder.i8)]
I32 = Annotated[int, Kind(Encoder.i32, Decoder.i32)]
I64 = Annotated[int, Kind(Encoder.i64, Decoder.i64)]
BOOL = Annotated[bool, Kind(Encoder.boolean, Decoder.boolean)]
STR = Annotated[str, Kind(Encoder.string, Decoder.string)]
NSTR = Annotated[str | None, Kind(Encoder.nullable_string, Decoder.nullable_string)]
SSTR = Annotated[str, Kind(Encoder.simple_string, Decoder.simple_string)]
NSSTR = Annotated[str | None, Kind(Encoder.nullable_simple_string, Decoder.nullable_simple_string)]
NBOOL = Annotated[bool | None, Kind(Encoder.nullable_bool, Decoder.nullable_bool)]
NINT = Annotated[int | None, Kind(Encoder.nullable_int, Decoder.nullable_int)]
NLONG = Annotated[int | None, Kind(Encoder.nullable_long, Decoder.nullable_long)]
XID = Annotated[Xid, Kind(Encoder.xid, Decoder.xid)]
TRANSPORT = Annotated[TransportConfiguration, Kind(Encoder.transport, Decoder.transport)]
CONNECTOR = Annotated[TransportConfiguration | None, CONNECTOR_KIND]
BLOB = Annotated[bytes, Kind(Encoder.blob, Decoder.blob)]
I8_ARRAY = Annotated[tuple[int, ...], _array(1, Encoder.i8, Decoder.i8)]
I64_ARRAY = Annotated[tuple[int, ...], _array(8, Encoder.i64, Decoder.i64)]
SSTR_ARRAY = Annotated[tuple[str, ...], _array(4, Encoder.simple_string, Decoder.simple_string)]
XID_ARRAY = Annotated[tuple[Xid, ...], _array(12, Encoder.xid, Decoder.xid)]
REST = Annotated[bytes, Kind(Encoder.raw, lambda source: source.raw(source.remaining))]

T = TypeVar("T")
GROUP = Annotated[T, Group()]
"""``GROUP[NINT]`` is the type of a field that begins an optional group."""


class Packet:
    """Base of all packets.

    TYPE is the signed packet type; NAME the protocol's name; COUNTED says whether the packet advances the confirmation window of a
    session channel; RESPONSE whether it completes a blocking call; SINCE is the first protocol version with it.  FIELDS lists its fields in
    wire order, with a :class:`Group` before each optional group; it is empty where the codec is written by hand.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    TYPE: ClassVar[int]
    NAME: ClassVar[str]
    FIELDS: ClassVar[tuple[tuple[str, Kind] | Group, ...]] = ()
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

P = TypeVar("P", bound=Packet)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def packet(
    number: int, name: str, *, since: int = 0, counted: bool = True, response: bool = False, last: str | None = None
) -> Callable[[type[P]], type[P]]:
    """Class decorator: make a packet of a class, and enter it into :data:`PACKETS`.

    Its fields go over the wire in their order, each as its type says (:data:`I8` and so on), to the field ``last`` (None: all).
    The other arguments are the attributes of :class:`Packet`.  A class with ``__slots__`` has the fields of its base.
    """

    def enter(cls: type[P]) -> type[P]:
        if number in PACKETS:
            raise TypeError(f"packet type {number} is used twice")
        if "__slots__" not in vars(cls):
            cls = dataclass(slots=True, eq=False, repr=False)(cls)
        cls.TYPE, cls.NAME, cls.SINCE, cls.COUNTED, cls.RESPONSE = number, name, since, counted, response
        cls.FIELDS = _table(cls, last)
        PACKETS[number] = cls
        return cls

    return enter


def _table(cls: type[Packet], last: str | None) -> tuple[tuple[str, Kind] | Group, ...]:
    table: list[tuple[str, Kind] | Group] = []
    for each in fields(cls):  # type: ignore[arg-type]
        if kind := getattr(each.type, "__metadata__", ()):
            table += [*kind[1:], (each.name, kind[0])]
        if each.name == last:
            break
    return tuple(table)
