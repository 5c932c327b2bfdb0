"""The primitive types of the CORE protocol, described with ``construct``.

Together with the other ``grammar`` modules this is the reference of the wire: the tables of ``protocol-spec/`` are made from it, and the
tests hold the codecs that run against it.  It is written for reading and shares no code with them; nothing imports it at run time.

A type has a ``label``, the name that the specification gives it.  Values are plain: ``str``, ``int``, ``bool``, ``bytes``, ``None`` and
tuples of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import construct as cs

Context = Any
"""The knowledge of ``construct`` while it reads or writes one packet: the fields before this one, and ``_params.version``."""


class Wire(cs.Subconstruct):  # type: ignore[misc]
    """A type with the name and the explanation that it has in the specification."""

    def __init__(self, label: str, subcon: Any, meaning: str = "") -> None:
        super().__init__(subcon)
        self.label = label
        self.meaning = meaning


class Mapped(cs.Adapter):  # type: ignore[misc]
    """Values that are read with one function and written with another; a ValueError of either is a refusal."""

    def __init__(self, subcon: Any, read: Callable[[Any], Any], write: Callable[[Any], Any]) -> None:
        super().__init__(subcon)
        self.read = read
        self.write = write

    def _decode(self, obj: Any, context: Context, path: str) -> Any:
        try:
            return self.read(obj)
        except ValueError as error:
            raise cs.ValidationError(str(error), path=path) from error

    def _encode(self, obj: Any, context: Context, path: str) -> Any:
        return self.write(obj)


I8 = Wire("i8", cs.Int8sb, "one byte, a signed integer")
I16 = Wire("i16", cs.Int16sb, "two bytes, a signed integer")
I32 = Wire("i32", cs.Int32sb, "four bytes, a signed integer")
I64 = Wire("i64", cs.Int64sb, "eight bytes, a signed integer")
F32 = Wire("f32", cs.Int32ub, "four bytes, IEEE 754")  # the value in this grammar is the bit pattern: every NaN differs
F64 = Wire("f64", cs.Int64ub, "eight bytes, IEEE 754")
CHAR = Wire("char", cs.Int16ub, "two bytes, one UTF-16 code unit")
BOOL = Wire(
    "bool", Mapped(cs.Int8ub, lambda byte: byte != 0, lambda value: 0xFF if value else 0), "one byte, written FF or 00; all but 00 is true"
)
BOOL01 = Wire(
    "bool01", Mapped(cs.Int8ub, lambda byte: byte != 0, lambda value: 1 if value else 0), "one byte, written 01 or 00; all but 00 is true"
)
BYTES = Wire("i32 n, n bytes", cs.Prefixed(cs.Int32sb, cs.GreedyBytes), "a length, 0 or more, and as many bytes")
REST = Wire("bytes to the end", cs.GreedyBytes, "all bytes that the frame has left")


# --- strings ----------------------------------------------------------------------------------------------------------


def code_units(text: str) -> list[int]:
    """The UTF-16 code units of ``text``."""
    raw = text.encode("utf-16-be", "surrogatepass")
    return [raw[i] << 8 | raw[i + 1] for i in range(0, len(raw), 2)]


def text_of(units: list[int]) -> str:
    """The text of UTF-16 code units; halves of a pair that stand alone stay as they are."""
    return b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be", "surrogatepass")


def utf_form(text: str) -> bytes:
    """Every code unit on its own: one byte up to 7F, two up to 7FF, else three."""
    out = bytearray()
    for unit in code_units(text):
        if unit <= 0x7F:
            out.append(unit)
        elif unit <= 0x7FF:
            out += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            out += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return bytes(out)


def read_utf_form(data: bytes) -> str:
    """The inverse of :func:`utf_form`, which also takes ``C0 80`` for NUL.  Raises ValueError for anything else."""
    units: list[int] = []
    position = 0
    while position < len(data):
        lead = data[position]
        if lead < 0x80:
            size, unit = 1, lead
        elif 0xC0 <= lead < 0xE0:
            size, unit = 2, lead & 0x1F
        elif 0xE0 <= lead < 0xF0:
            size, unit = 3, lead & 0x0F
        else:
            raise ValueError(f"lead byte {lead:02X}")
        tail = data[position + 1 : position + size]
        if len(tail) != size - 1 or any(byte & 0xC0 != 0x80 for byte in tail):
            raise ValueError("a character is cut off")
        for byte in tail:
            unit = unit << 6 | byte & 0x3F
        if unit < (0, 0, 0x80, 0x800)[size] and data[position : position + size] != b"\xc0\x80":
            raise ValueError("a character in a form that is too long")
        units.append(unit)
        position += size
    return text_of(units)


def _read_little(data: bytes) -> str:
    if len(data) % 2:
        raise ValueError("odd number of bytes")
    return text_of([data[i] | data[i + 1] << 8 for i in range(0, len(data), 2)])


def _write_little(text: str) -> bytes:
    return b"".join(unit.to_bytes(2, "little") for unit in code_units(text))


UTF = Wire(
    "UTF",
    Mapped(cs.Prefixed(cs.Int16ub, cs.GreedyBytes), read_utf_form, utf_form),
    "u16 byte count, then the UTF form of every UTF-16 code unit",
)
SSTR = Wire(
    "SStr",
    Mapped(cs.Prefixed(cs.Int32sb, cs.GreedyBytes), _read_little, _write_little),
    "i32 byte count, then UTF-16LE code units",
)
_PLAIN_UNITS = Mapped(
    cs.Array(cs.this.units, cs.Int16ub),
    lambda units: text_of(list(units)),
    code_units,
)
STR = Wire(
    "Str",
    Mapped(
        cs.Struct(
            "units" / cs.Rebuild(cs.Int32sb, lambda context: len(code_units(context.text))),
            cs.Check(cs.this.units >= 0),
            "text" / cs.IfThenElse(cs.this.units < 9, _PLAIN_UNITS, cs.IfThenElse(cs.this.units < 0xFFF, UTF, SSTR)),
        ),
        lambda found: found.text,
        lambda text: {"text": text},
    ),
    "i32 number of UTF-16 code units, then one of three forms",
)


# --- nullables --------------------------------------------------------------------------------------------------------


def nullable(label: str, marker: Any, subcon: Any, meaning: str = "") -> Wire:
    """A marker byte that says whether the value follows."""
    return Wire(
        label,
        Mapped(
            cs.Struct(
                "present" / cs.Rebuild(marker, lambda context: context.value is not None),
                "value" / cs.If(cs.this.present, subcon),
            ),
            lambda found: found.value,
            lambda value: {"value": value},
        ),
        meaning,
    )


_EXACTLY_ONE = Mapped(cs.Int8ub, lambda byte: byte == 1, lambda value: 1 if value else 0)

NSTR = nullable("NStr", BOOL01, STR, "00, or 01 and a Str")
NSSTR = nullable("NSStr", BOOL01, SSTR, "00, or 01 and a SStr")
NBOOL = nullable("NBool", BOOL, BOOL, "00, or FF and a bool")
NINT = nullable("NInt", BOOL, I32, "00, or FF and an i32")
NLONG = nullable("NLong", BOOL, I64, "00, or FF and an i64")
USER_ID = nullable("UserId", _EXACTLY_ONE, cs.Bytes(16), "00, or exactly 01 and 16 bytes")


# --- compounds --------------------------------------------------------------------------------------------------------


def as_tuple(*names: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    def read(found: Any) -> Any:
        return tuple(found[name] for name in names)

    def write(values: Any) -> Any:
        return dict(zip(names, values, strict=True))

    return read, write


XID = Wire(
    "Xid",
    Mapped(
        cs.Struct("format_id" / I32, "branch_qualifier" / BYTES, "global_transaction_id" / BYTES),
        *as_tuple("format_id", "branch_qualifier", "global_transaction_id"),
    ),
    "i32 format id, then branch qualifier and global transaction id, each as i32 n and n bytes",
)


def array(label: str, subcon: Any) -> Wire:
    """An i32 number of items, and the items."""
    return Wire(label, Mapped(cs.PrefixedArray(cs.Int32sb, subcon), tuple, list))


PARAMETER = Mapped(
    cs.Struct(
        "key" / STR,
        "kind" / I8,
        "value" / cs.Switch(cs.this.kind, {0: BOOL, 1: I32, 2: I64, 3: STR}, default=cs.Error),
    ),
    *as_tuple("key", "kind", "value"),
)
TRANSPORT = Wire(
    "TC",
    Mapped(
        cs.Struct("name" / STR, "factory_class_name" / STR, "parameters" / array("", PARAMETER)),
        *as_tuple("name", "factory_class_name", "parameters"),
    ),
    "Str name, Str factory class, i32 n, n parameters of Str key, i8 type (0 bool, 1 i32, 2 i64, 3 Str) and value",
)
CONNECTOR = nullable("bool, TC", BOOL, TRANSPORT, "bool, and a TC if it is true")
I8_ARRAY = array("i32 n, n × i8", I8)
I64_ARRAY = array("i32 n, n × i64", I64)
SSTR_ARRAY = array("i32 n, n × SStr", SSTR)
XID_ARRAY = array("i32 n, n × Xid", XID)
