"""The kinds of value that elements and attributes of broker.xml have."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

ROUTING_TYPES = {"MULTICAST": 0, "ANYCAST": 1}

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?")
_BYTES = re.compile(r"\s*([0-9]{1,19})\s*([kmg]?)i?b?\s*", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


@dataclass(frozen=True, slots=True)
class Kind:
    """``convert`` turns a trimmed text into the value or raises ValueError; ``expected`` completes the sentence "expected …"."""

    expected: str
    convert: Callable[[str], Any]
    choices: tuple[str, ...] = ()

    def show(self, value: object) -> str:
        """``value`` as it is written in broker.xml."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)


def _checked(convert: Callable[[str], T], valid: Callable[[T], object]) -> Callable[[str], T]:
    """``convert``, with a ValueError for each value that is not ``valid``."""

    def checked(text: str) -> T:
        value = convert(text)
        if not valid(value):
            raise ValueError(text)
        return value

    return checked


def integer(minimum: int = -LONG_MAX - 1, maximum: int = LONG_MAX, *others: int) -> Kind:
    """A whole number from ``minimum`` to ``maximum``, or one of ``others``."""
    if maximum not in (INT_MAX, LONG_MAX):
        text = f"a whole number from {minimum} to {maximum}"
    elif minimum > -INT_MAX - 1:
        text = f"a whole number of at least {minimum}"
    else:
        text = "a whole number"
    for other in others:
        text += f", or {other}"

    def convert(text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise ValueError(text)
        value = int(text)
        if not minimum <= value <= maximum and value not in others:
            raise ValueError(text)
        return value

    return Kind(text, convert)


def decimal(minimum: float, maximum: float | None = None) -> Kind:
    """A number with a fraction."""
    text = f"a number of at least {minimum:g}" if maximum is None else f"a number from {minimum:g} to {maximum:g}"

    def convert(text: str) -> float:
        if not _DECIMAL.fullmatch(text):
            raise ValueError(text)
        value = float(text)
        if value < minimum or value > (maximum if maximum is not None else 1e300):
            raise ValueError(text)
        return value

    return Kind(text, convert)


def byte_size(minimum: int = 0, *others: int) -> Kind:
    """A number of bytes with an optional suffix: K, M, G, each also with ``i``, ``B`` or both; powers of 1024."""

    def convert(text: str) -> int:
        if _INTEGER.fullmatch(text):
            value = int(text)
        else:
            match = _BYTES.fullmatch(text)
            if match is None:
                raise ValueError(text)
            value = int(match[1]) * _FACTORS[match[2].lower()]
        if (value < minimum and value not in others) or value > LONG_MAX:
            raise ValueError(text)
        return value

    ending = "".join(f", or {other}" for other in others)
    least = f" of at least {minimum}" if minimum > 0 else ""
    return Kind(f"a number of bytes{least}, with or without a suffix as in 512K, 10M, 2GiB{ending}", convert)


def choice(*names: str) -> Kind:
    """One of the names, in upper case."""
    expected = " or ".join(names) if len(names) == 2 else "one of " + ", ".join(names)
    return Kind(expected, _checked(str.upper, lambda name: name in names), names)


def characters(count: int) -> Kind:
    """A text of exactly ``count`` characters."""
    return Kind("one character" if count == 1 else f"exactly {count} characters", _checked(str, lambda text: len(text) == count))


def _boolean(text: str) -> bool:
    folded = text.lower()
    if folded not in ("true", "false"):
        raise ValueError(text)
    return folded == "true"


def _optional_text(text: str) -> str | None:
    return text or None


def _routing_type(text: str) -> int:
    try:
        return ROUTING_TYPES[text.upper()]
    except KeyError:
        raise ValueError(text) from None


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(text) from error
    return text


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


BOOLEAN = Kind("true or false", _boolean, ("true", "false"))
TEXT = Kind("a text", str)
FILLED_TEXT = Kind("a text that is not empty", _checked(str, bool))
OPTIONAL_TEXT = Kind("a text", _optional_text)
ROUTING_TYPE = Kind("ANYCAST or MULTICAST", _routing_type, ("ANYCAST", "MULTICAST"))
PATTERN = Kind("a regular expression", _pattern)
NAMES = Kind("a list of names with commas between", lambda text: frozenset(_split_names(text)))
NAME_LIST = Kind("one or more names with commas between", _checked(_split_names, bool))
POWER_OF_TWO = Kind("a power of two", _checked(integer(1, INT_MAX).convert, lambda value: value & (value - 1) == 0))
POSITIVE_DECIMAL = Kind("a number greater than 0", _checked(decimal(0).convert, bool))

INT = integer(-INT_MAX - 1, INT_MAX)
LONG = integer()
POSITIVE = integer(1)
NOT_NEGATIVE = integer(0)
COUNT_OR_NONE = integer(0, INT_MAX, -1)
LONG_OR_NONE = integer(0, LONG_MAX, -1)
POSITIVE_OR_NONE = integer(1, LONG_MAX, -1)
POSITIVE_INT_OR_NONE = integer(1, INT_MAX, -1)
PERCENT = integer(0, 100)
PERCENT_OR_NONE = integer(0, 100, -1)
BYTES = byte_size()
POSITIVE_BYTES = byte_size(1)
BYTES_OR_NONE = byte_size(0, -1)
