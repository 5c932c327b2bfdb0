"""Values in a filter: Java's types, their order, their arithmetic and their text.

A value is None (missing), a bool, an ``int`` (Java's Integer), a ``float`` (Double), a ``str``, ``bytes``, or one of the classes below for
Java's other types.  A comparison returns a number below, at or above zero.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Final, TypeAlias

from mqbroker.messaging.filters.errors import FilterEvaluationError
from mqclient.wire import properties as kinds

I32_MAX: Final = 2**31 - 1
I64_MAX: Final = 2**63 - 1


class Byte(int):
    __slots__ = ()


class Short(int):
    __slots__ = ()


class Long(int):
    __slots__ = ()


class Float(float):
    """A number of 32 bits."""

    __slots__ = ()


class Character(str):
    """A single UTF-16 code unit; never equal to a string."""

    __slots__ = ()


Value: TypeAlias = bool | int | float | str | bytes | None


def from_property(kind: int, value: Value) -> Value:
    """The value of a property of this type id."""
    if kind in (kinds.STRING, kinds.INT, kinds.BOOLEAN, kinds.DOUBLE, kinds.BYTES, kinds.NULL):
        return value
    assert isinstance(value, (int, float))
    if kind == kinds.LONG:
        return Long(value)
    if kind == kinds.BYTE:
        return Byte(value)
    if kind == kinds.SHORT:
        return Short(value)
    if kind == kinds.FLOAT:
        return Float(value)
    return Character(chr(int(value)))


def integer(value: int) -> int:
    """A whole number, not negative, of the narrower of Integer and Long."""
    return value if value <= I32_MAX else Long(value)


def equal(left: Value, right: Value, convert: bool) -> bool | None:
    """``left = right``.  Not symmetrical, as in Artemis: a missing left side is unknown, a missing right side is false, both are true."""
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    if type(left) is type(right):
        if isinstance(left, float):
            return _order_floats(left, float(right)) == 0
        # a byte string equals none, not even itself
        return left == right and not isinstance(left, bytes)
    return _order_mixed(left, right, convert) == 0


def order(left: Value, right: Value, convert: bool) -> int | None:
    """How two values that are there compare; None when nothing compares these types in this direction.

    Raises FilterEvaluationError for byte strings.
    """
    if isinstance(left, bytes) or isinstance(right, bytes):
        raise FilterEvaluationError("byte strings have no order")
    if type(left) is type(right):
        if isinstance(left, float):
            return _order_floats(left, right)  # type: ignore[arg-type]
        return _sign(left, right)
    return _order_mixed(left, right, convert)


def calculate(operator: str, left: Value, right: Value, convert: bool) -> Value:
    """One of ``+ - * / %``; None when a side is missing.  With a string on its left ``+`` puts the two texts together.

    With ``convert`` strings that look like numbers are numbers, except where ``+`` joins texts.  Raises FilterEvaluationError.
    """
    if left is None or right is None:
        return None
    if type(left) is str and operator == "+":
        return left + text(right)
    if convert:
        left, right = _as_number(left), _as_number(right)
    return _calculate(operator, left, right)


def negate(value: Value) -> Value:
    """Unary minus.  None for a value that is no number; raises FilterEvaluationError for a byte or a short, as Artemis fails then."""
    if isinstance(value, (Byte, Short)):
        raise FilterEvaluationError(f"a {type(value).__name__.lower()} cannot be negated")
    if isinstance(value, Float):
        return Float(-value)
    if isinstance(value, float):
        return -value
    if isinstance(value, int) and not isinstance(value, bool):
        return _wrap64(-value) if isinstance(value, Long) else _wrap32(-value)
    return None


def text(value: Value) -> str:
    """The text of a value, as Java prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Float):
        return _float_text(value, _shortest_digits(value))
    if isinstance(value, float):
        return _float_text(value, repr(value))
    if isinstance(value, (str, int)):
        return str(value)
    raise FilterEvaluationError("a byte string has no text")


def _sign(left: object, right: object) -> int:
    return -1 if left < right else 1 if left > right else 0  # type: ignore[operator]


def _order_floats(left: float, right: float) -> int:
    """Java's order of objects: NaN is equal to itself and above all, and 0.0 is above -0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right != 0.0:
        return 0
    return _sign(
        (left != left, math.copysign(1.0, left) if left == 0 else 0), (right != right, math.copysign(1.0, right) if right == 0 else 0)
    )


_RANK: Final[dict[type, int]] = {Byte: 1, Short: 2, int: 3, Long: 4, Float: 5, float: 6}


def _order_mixed(left: Value, right: Value, convert: bool) -> int | None:
    """The order of values of different types: the narrower becomes the wider, but a byte or short on the right is not widened."""
    left_rank, right_rank = _RANK.get(type(left), 0), _RANK.get(type(right), 0)
    if left_rank and right_rank:
        if right_rank < 3 and right_rank < left_rank:
            return None
        if left_rank < 5 and right_rank < 5:
            return _sign(left, right)
        assert isinstance(left, (int, float)) and isinstance(right, (int, float))
        if max(left_rank, right_rank) == 5:
            return _order_floats(_to_float(left), _to_float(right))
        return _order_floats(float(left), float(right))
    if convert:
        if type(left) is str:
            left = _converted(left, right)
        elif type(right) is str:
            right = _converted(right, left)
        else:
            return None
        if left is not None and right is not None:
            return order(left, right, False)
    return None


def _to_float(value: float) -> float:
    """The nearest number of 32 bits."""
    try:
        rounded: float = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,25}\Z")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?\Z")
_WHOLE_TYPES: Final[dict[type, tuple[type[int], int]]] = {Byte: (Byte, 2**7), Short: (Short, 2**15), int: (int, 2**31), Long: (Long, 2**63)}


def _converted(source: str, model: Value) -> Value:
    """``source`` read as a value of the type of ``model``; None when it is none."""
    if isinstance(model, bool):
        return source.lower() == "true"
    if isinstance(model, int):
        kind, limit = _WHOLE_TYPES[type(model)]
        value = int(source) if _WHOLE.match(source) else limit
        return kind(value) if -limit <= value < limit else None
    if isinstance(model, float):
        source = source.strip(" \t\n\r\f\v")
        if not _DECIMAL.match(source):
            return None
        number = float(source.rstrip("fFdD"))
        return Float(_to_float(number)) if isinstance(model, Float) else number
    return None


def _as_number(value: Value) -> Value:
    """A string with a point as a Double, another string as a Long; a string that is no number stays a string."""
    number = _converted(value, 0.0 if "." in value else Long()) if type(value) is str else None
    return value if number is None else number


def _wrap32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _wrap64(value: int) -> Long:
    return Long((value + 2**63) % 2**64 - 2**63)


def _calculate(operator: str, left: Value, right: Value) -> Value:
    if not _RANK.get(type(left)) or not _RANK.get(type(right)):
        raise FilterEvaluationError(f"{operator} needs numbers")
    assert isinstance(left, (int, float)) and isinstance(right, (int, float))
    if operator == "/":
        return _divide(float(left), float(right))
    if operator == "%":
        return _remainder(float(left), float(right))
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        return left + right if operator == "+" else left - right if operator == "-" else left * right
    result = left + right if operator == "+" else left - right if operator == "-" else left * right
    return _wrap64(result) if type(left) is Long or type(right) is Long else _wrap32(result)


def _divide(left: float, right: float) -> float:
    if right:
        return left / right
    if left != left or right != right or left == 0:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _remainder(left: float, right: float) -> float:
    if right == 0 or math.isinf(left) or left != left or right != right:
        return math.nan
    return math.fmod(left, right)


def _shortest_digits(value: float) -> str:
    """The fewest digits that stand for this 32-bit number."""
    if not math.isfinite(value):
        return repr(float(value))
    for precision in range(1, 9):
        found = f"{value:.{precision}g}"
        if _to_float(float(found)) == value:
            return found
    return f"{value:.9g}"


def _float_text(value: float, digits: str) -> str:
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    mantissa, _, exponent = digits.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    figures = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(figures))
    figures = figures.rstrip("0") or "0"
    if value == 0:
        return f"{sign}0.0"
    if 1e-3 <= abs(value) < 1e7:
        figures = "0" * (1 - point) + figures if point < 1 else figures.ljust(point, "0")
        cut = max(point, 1)
        return f"{sign}{figures[:cut]}.{figures[cut:] or '0'}"
    return f"{sign}{figures[0]}.{figures[1:] or '0'}E{point - 1}"
