"""Java's primitive types in Python, and the conversions that JMS allows between them.

A JMS property, map entry or stream item has a Java type.  Python values get one like this:

======================  =======================================================================
Python                  Java
======================  =======================================================================
``bool``                boolean
``int``                 int where it fits into 32 bits, else long; larger is an error
``float``               double
``str``                 String
``bytes`` (and alike)   byte[]
``None``                null
======================  =======================================================================

To choose another type, wrap the value: ``Byte(1)``, ``Short(1)``, ``Long(1)``, ``Float(1.5)``, ``Char("x")``.  Values that are read have
these types, too, so that a value that is passed on keeps its sender's type.  All of them behave as plain ``int``, ``float`` and ``str``.
Conversions: the table in chapter 3.5.4 of the JMS 2.0 specification.
"""

from __future__ import annotations

import math
import struct
from typing import Final

from mqclient.jms.exceptions import MessageFormatException
from mqclient.wire import properties as types
from mqclient.wire.properties import TypedValue

_F32 = struct.Struct(">f")
_BITS: Final = {types.BYTE: 8, types.SHORT: 16, types.INT: 32, types.LONG: 64}
NAMES: Final = {
    types.NULL: "null",
    types.BOOLEAN: "boolean",
    types.BYTE: "byte",
    types.BYTES: "byte[]",
    types.SHORT: "short",
    types.INT: "int",
    types.LONG: "long",
    types.FLOAT: "float",
    types.DOUBLE: "double",
    types.STRING: "String",
    types.CHAR: "char",
}


def check_integer(kind: int, value: object) -> int:
    """``value`` as an integer of Java type ``kind``; :class:`MessageFormatException` when it is none or too large."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise MessageFormatException(f"{value!r} is not an integer; a Java {NAMES[kind]} was expected")
    limit = 1 << (_BITS[kind] - 1)
    if not -limit <= value < limit:
        raise MessageFormatException(f"{value} does not fit into a Java {NAMES[kind]}")
    return value


class Byte(int):
    """An integer that travels as a Java byte (-128 to 127)."""

    def __new__(cls, value: int) -> Byte:
        return super().__new__(cls, check_integer(types.BYTE, value))


class Short(int):
    """An integer that travels as a Java short (16 bits)."""

    def __new__(cls, value: int) -> Short:
        return super().__new__(cls, check_integer(types.SHORT, value))


class Long(int):
    """An integer that travels as a Java long (64 bits), however small it is."""

    def __new__(cls, value: int) -> Long:
        return super().__new__(cls, check_integer(types.LONG, value))


class Float(float):
    """A number that travels as a Java float; it is rounded to 32 bits at once."""

    def __new__(cls, value: float) -> Float:
        try:
            return super().__new__(cls, _F32.unpack(_F32.pack(value))[0])
        except (OverflowError, struct.error) as error:
            raise MessageFormatException(f"{value!r} does not fit into a Java float") from error


class Char(str):
    """One UTF-16 code unit that travels as a Java char."""

    __slots__ = ()

    def __new__(cls, value: str) -> Char:
        if len(value) != 1 or ord(value) > 0xFFFF:
            raise MessageFormatException(f"{value!r} is not one character of Java (a single UTF-16 code unit)")
        return super().__new__(cls, value)


def typed(value: object) -> TypedValue:
    """The Java type of a Python value, and the value as the wire wants it (see the table above)."""
    if value is None:
        return types.NULL, None
    if isinstance(value, bool):
        return types.BOOLEAN, value
    if isinstance(value, int):
        if isinstance(value, Byte):
            return types.BYTE, int(value)
        if isinstance(value, Short):
            return types.SHORT, int(value)
        if isinstance(value, Long) or not -0x80000000 <= value <= 0x7FFFFFFF:
            return types.LONG, check_integer(types.LONG, int(value))
        return types.INT, value
    if isinstance(value, float):
        return (types.FLOAT if isinstance(value, Float) else types.DOUBLE), float(value)
    if isinstance(value, str):
        return (types.CHAR, ord(value)) if isinstance(value, Char) else (types.STRING, str(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return types.BYTES, bytes(value)
    raise MessageFormatException(
        f"a value of type {type(value).__name__} has no Java type; use bool, int, float, str, bytes, None or a wrapper such as Long"
    )


def untyped(entry: TypedValue) -> object:
    """The Python value of a typed one: a plain value, or a wrapper where the plain value would mean another Java type."""
    kind, value = entry
    if kind == types.LONG:
        return Long(value)  # type: ignore[arg-type]
    if kind == types.BYTE:
        return Byte(value)  # type: ignore[arg-type]
    if kind == types.SHORT:
        return Short(value)  # type: ignore[arg-type]
    if kind == types.FLOAT:
        return Float(value)  # type: ignore[arg-type]
    if kind == types.CHAR:
        return Char(chr(value))  # type: ignore[arg-type]
    return value


def exactly(kind: int, value: object) -> TypedValue:
    """``value`` as Java type ``kind``, for the explicit setters."""
    if kind == types.BOOLEAN:
        return kind, bool(value)
    if kind in _BITS:
        return kind, check_integer(kind, value)
    if kind in (types.FLOAT, types.DOUBLE):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MessageFormatException(f"{value!r} is not a number; a Java {NAMES[kind]} was expected")
        return kind, float(Float(value)) if kind == types.FLOAT else float(value)
    if value is None:
        return types.NULL, None
    if kind == types.CHAR and isinstance(value, str):
        return kind, ord(Char(value))
    if kind == types.STRING and isinstance(value, str):
        return kind, str(value)
    if kind == types.BYTES and isinstance(value, bytes | bytearray | memoryview):
        return kind, bytes(value)
    raise MessageFormatException(f"{value!r} cannot be set as a Java {NAMES[kind]}")


def to_boolean(entry: TypedValue | None) -> bool:
    """A boolean, or the text of one; null and a missing value are False."""
    kind, value = entry or (types.NULL, None)
    if kind in (types.BOOLEAN, types.NULL):
        return bool(value)
    if kind == types.STRING:
        return str(value).lower() == "true"
    raise _no_conversion(kind, "boolean")


def to_integer(entry: TypedValue | None, wanted: int) -> int:
    """An integer type from the same or a narrower one, or from a text."""
    kind, value = entry or (types.NULL, None)
    if kind in _BITS and _BITS[kind] <= _BITS[wanted]:
        assert isinstance(value, int)
        return value
    if kind == types.STRING:
        try:
            return check_integer(wanted, int(str(value)))
        except ValueError as error:
            raise MessageFormatException(f"the text {value!r} is not a Java {NAMES[wanted]}") from error
    raise _no_conversion(kind, NAMES[wanted])


def to_float(entry: TypedValue | None, wanted: int) -> float:
    """A float or double from the same or the narrower type, or from a text."""
    kind, value = entry or (types.NULL, None)
    if kind == types.FLOAT or (kind == types.DOUBLE and wanted == types.DOUBLE):
        assert isinstance(value, float)
        return value
    if kind == types.STRING:
        try:
            number = float(str(value))
        except ValueError as error:
            raise MessageFormatException(f"the text {value!r} is not a Java {NAMES[wanted]}") from error
        return float(Float(number)) if wanted == types.FLOAT else number
    raise _no_conversion(kind, NAMES[wanted])


def to_text(entry: TypedValue | None) -> str | None:
    """Any value but byte[] as Java prints it; None for null and for a missing value."""
    kind, value = entry or (types.NULL, None)
    if kind == types.NULL:
        return None
    if kind == types.BYTES:
        raise _no_conversion(kind, "String")
    if kind == types.BOOLEAN:
        return "true" if value else "false"
    if kind == types.CHAR:
        assert isinstance(value, int)
        return chr(value)
    if isinstance(value, float):
        return float_text(value, single=kind == types.FLOAT)
    return str(value)


def to_char(entry: TypedValue | None) -> str:
    """A char; there is no conversion from any other type."""
    kind, value = entry or (types.NULL, None)
    if kind != types.CHAR:
        raise _no_conversion(kind, "char")
    assert isinstance(value, int)
    return chr(value)


def to_bytes(entry: TypedValue | None) -> bytes | None:
    """A byte[], or None for null; there is no conversion from any other type."""
    kind, value = entry or (types.NULL, None)
    if kind == types.NULL:
        return None
    if kind != types.BYTES:
        raise _no_conversion(kind, "byte[]")
    assert isinstance(value, bytes)
    return value


def float_text(value: float, *, single: bool = False) -> str:
    """A float as Java prints it: shortest digits, exponent (``1.0E10``) outside 0.001 to 10,000,000."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    text = f"{value:.16e}"
    for digits in range(9 if single else 17):
        candidate = f"{value:.{digits}e}"
        if (float(Float(float(candidate))) if single else float(candidate)) == value:
            text = candidate
            break
    mantissa, exponent = text.split("e")
    if 1e-3 <= abs(value) < 1e7:
        places = max(1, len(mantissa.lstrip("-").replace(".", "")) - 1 - int(exponent))
        return f"{float(text):.{places}f}"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _no_conversion(kind: int, wanted: str) -> MessageFormatException:
    return MessageFormatException(f"a Java {NAMES[kind]} cannot be read as {wanted}")
