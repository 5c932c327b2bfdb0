"""Names as columns of text can have them.

Strings of the protocol are any UTF-16 code units.  A NUL is refused by PostgreSQL, and half of a surrogate pair by every driver: each is
kept as a backslash and its number, and so is the backslash.
"""

from __future__ import annotations

import re

_ODD = re.compile("[\\\\\0\ud800-\udfff]")
_KEPT = re.compile(r"\\([0-9a-f]{4})")


def kept(text: str) -> str:
    """The text for a column."""
    return _ODD.sub(lambda found: f"\\{ord(found[0]):04x}", text)


def given(column: str) -> str:
    """The text that was kept."""
    return _KEPT.sub(lambda found: chr(int(found[1], 16)), column) if "\\" in column else column
