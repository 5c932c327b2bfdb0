"""LIKE patterns, matched in time that grows with the length of the text only.

Between two ``%`` of a pattern stands a piece of fixed length.  The first and the last piece have fixed places; each other piece is taken at
its first match, which leaves the most text for the pieces after it.  So no second attempt is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

PATTERN_LENGTH_MAX: Final = 4096
"""Characters of a LIKE pattern: the matcher for pieces with ``_`` carries a bit for each of them along."""

_Piece: TypeAlias = list[str | None]
"""Characters; None for any one character."""


class LikePattern:
    """``%`` stands for any text and ``_`` for one character; the escape character takes that meaning away from them and from itself.

    Before any other character the escape character stands for itself.
    """

    __slots__ = ("_finders", "_first", "_last", "_minimum", "_open", "escape", "text")

    def __init__(self, text: str, escape: str = "") -> None:
        self.text = text
        self.escape = escape
        pieces = _split(text, escape)
        self._open = len(pieces) > 1
        self._minimum = sum(map(len, pieces))
        self._first = _Fixed(pieces[0])
        self._last = _Fixed(pieces[-1] if self._open else [])
        self._finders = [_finder(piece) for piece in pieces[1:-1] if piece]

    def matches(self, text: str) -> bool:
        """Is the whole of ``text`` as the pattern says?"""
        size = len(text)
        if size < self._minimum or not self._first.at(text, 0):
            return False
        if not self._open:
            return size == self._minimum
        limit = size - self._last.size
        if not self._last.at(text, limit):
            return False
        position = self._first.size
        for find in self._finders:
            position = find(text, position, limit)
            if position < 0:
                return False
        return position <= limit


class _Fixed:
    """A piece that stands at a known place: literal runs at offsets."""

    __slots__ = ("_runs", "size")

    def __init__(self, piece: _Piece) -> None:
        self.size = len(piece)
        self._runs: list[tuple[int, str]] = []
        start = 0
        for at, character in enumerate([*piece, None]):
            if character is None:
                if at > start:
                    self._runs.append((start, "".join(filter(None, piece[start:at]))))
                start = at + 1

    def at(self, text: str, position: int) -> bool:
        return all(text.startswith(run, position + offset) for offset, run in self._runs)


_Find: TypeAlias = Callable[[str, int, int], int]
"""(text, from, to) to where the first occurrence that lies wholly between ends; -1 without one."""


def _finder(piece: _Piece) -> _Find:
    size = len(piece)
    lead = next((at for at, character in enumerate(piece) if character is not None), size)
    tail = next((at for at, character in enumerate(reversed(piece)) if character is not None), 0)
    core = piece[lead : size - tail]
    if None in core:
        return _search_bits(piece)
    literal = "".join(filter(None, core))

    def find(text: str, start: int, end: int) -> int:
        found = text.find(literal, start + lead, end - tail)
        return -1 if found < 0 or found + len(literal) + tail > end else found + len(literal) + tail

    return find


def _search_bits(piece: _Piece) -> _Find:
    """A search that keeps a bit for every beginning of the piece that the text has just shown (the shift-and method)."""
    anything = sum(1 << at for at, character in enumerate(piece) if character is None)
    masks: dict[str, int] = {}
    for at, character in enumerate(piece):
        if character is not None:
            masks[character] = masks.get(character, anything) | 1 << at
    whole = 1 << len(piece) - 1

    def find(text: str, start: int, end: int) -> int:
        state = 0
        get = masks.get
        for at in range(start, end):
            state = (state << 1 | 1) & get(text[at], anything)
            if state & whole:
                return at + 1
        return -1

    return find


def _split(text: str, escape: str) -> list[_Piece]:
    pieces: list[_Piece] = [[]]
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == escape:
            following = text[position : position + 1]
            if following and following in ("%", "_", escape):
                position += 1
                character = following
            pieces[-1].append(character)
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if character == "_" else character)
    return pieces
