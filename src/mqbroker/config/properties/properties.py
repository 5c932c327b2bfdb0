"""Java properties files, with line numbers.

``key = value``, ``key: value`` or ``key value``; ``#`` and ``!`` begin comments; a backslash at the end of a line continues it, and before
a character it removes the special meaning, or gives ``\\t \\n \\r \\f \\uXXXX``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LINE_ENDS = re.compile(r"\r\n|\r|\n")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


class PropertiesError(ValueError):
    """A text that is no properties file; ``line`` counts from 1."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: {text}")
        self.line = line
        self.text = text


@dataclass(frozen=True, slots=True)
class Property:
    """One entry, which begins in ``line``."""

    key: str
    value: str
    line: int


def parse_properties(data: bytes | str) -> list[Property]:
    """The entries in their order; a key may be there twice.  Bytes are UTF-8, or else ISO 8859-1.  Raises :class:`PropertiesError`."""
    entries: list[Property] = []
    for number, text in _logical_lines(data if isinstance(data, str) else decode_properties(data)):
        key, value = _split(text)
        entries.append(Property(_unescaped(key, number), _unescaped(value, number), number))
    return entries


def decode_properties(data: bytes) -> str:
    """The text of a properties file."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    start, gathered = 0, ""
    for number, raw in enumerate(LINE_ENDS.split(text), 1):
        line = raw.lstrip(_BLANKS)
        if not start:
            if not line or line[0] in "#!":
                continue
            start = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            gathered += line[:-1]
            continue
        if gathered or line:
            yield start, gathered + line
        start, gathered = 0, ""
    if gathered:
        yield start, gathered


def _split(text: str) -> tuple[str, str]:
    position = 0
    while position < len(text) and text[position] not in "=:" + _BLANKS:
        position += 2 if text[position] == "\\" else 1
    key, rest = text[:position], text[position:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    result: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position >= len(text):
            result.append(character)
            continue
        character = text[position]
        position += 1
        if character != "u":
            result.append(_ESCAPES.get(character, character))
            continue
        digits = text[position : position + 4]
        if not re.fullmatch(r"[0-9A-Fa-f]{4}", digits):
            raise PropertiesError(line, f"\\u{digits}: expected four hexadecimal digits")
        result.append(chr(int(digits, 16)))
        position += 4
    joined = "".join(result)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two escapes may be the halves of one character
