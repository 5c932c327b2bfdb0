"""Measuring a range of messages: how far it goes, how much is in it, and where its parts end."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.readers.places import Place
from mqbroker.messaging.readers.reading import PIECES_AT_ONCE, QueueLog
from mqbroker.messaging.readers.rows import Rows

if TYPE_CHECKING:
    from mqbroker.messaging.turns.steps import Steps

PARTS_MAX = 10_000
"""Parts that one range of a reader is cut into."""

TRAIL_LENGTH = 128
"""Places that are remembered while a range is measured."""


class Range:
    """(after, until] of a queue, with ``messages`` of ``size`` bytes in parts that end at ``ends``."""

    __slots__ = ("after", "ends", "messages", "size", "until")

    def __init__(self, after: int, until: int, messages: int, size: int, ends: list[int]) -> None:
        self.after = after
        self.until = until
        self.messages = messages
        self.size = size
        self.ends = ends


def measure(log: QueueLog, after: int, until: int, limits: tuple[int, int, int]) -> Steps[Range]:
    """How far a range goes: looks at all of its messages."""
    max_messages, max_bytes, parts = limits
    place = log.place(after)
    marks: list[tuple[int, int]] = []
    """(key, bytes up to it), one per some messages."""
    trail: list[Place] = []
    messages = size = 0
    last = after
    full = False
    while place.position < until and not full:
        trail = _thinned(trail, place)
        try:
            rows, _, _ = log.next_rows(place, until)
        except NotYet as pending:
            trail.pop()
            log.wait_for(pending)
            yield 0
            continue
        room = (max_messages - messages if max_messages >= 0 else -1, max_bytes - size if max_bytes >= 0 else -1)
        rows, full = _within(rows, *room, messages)
        step = max(1, len(rows.keys) // 64)
        sizes = rows.sizes()
        for start in range(0, len(sizes), step):
            size += sum(sizes[start : start + step])
            last = rows.keys[min(start + step, len(sizes)) - 1]
            marks.append((last, size))
        messages += len(sizes)
        yield max(len(sizes), 1 if log.queue.pages is None else PIECES_AT_ONCE)
    ends = _cut(marks, size, min(max(parts, 1), PARTS_MAX))
    for start in (after, *ends[:-1]):
        # A read from this place will follow.
        near = max((each for each in trail if each.position <= start), key=lambda each: each.position, default=None)
        if near is not None and near.sources:
            log.keep(near.moved(start))
    return Range(after, last, messages, size, ends)


def _thinned(trail: list[Place], place: Place) -> list[Place]:
    """The trail with one more place: not too many, so that memory stays flat however long the way is."""
    if len(trail) >= TRAIL_LENGTH:
        trail = trail[::2]
    return [*trail, place.copy()]


def _within(rows: Rows, messages: int, size: int, before: int) -> tuple[Rows, bool]:
    """As many rows as the limits allow (-1 = no limit), at least one if there were none ``before``; and whether a limit was reached."""
    end = len(rows.keys)
    if 0 <= messages < end:
        end = messages
    if size >= 0:
        total = 0
        for at, each in enumerate(rows.sizes()[:end]):
            total += each
            if total > size and (at or before):
                end = at
                break
    if end == len(rows.keys):
        return rows, False
    end = max(end, 0 if before else 1)
    while 0 < end < len(rows.keys) and rows.keys[end] == rows.keys[end - 1]:
        end += 1
    return rows.part(0, end), True


def _cut(marks: list[tuple[int, int]], size: int, parts: int) -> list[int]:
    """The ends of ``parts`` parts of similar size."""
    if not marks:
        return []
    totals = [total for _, total in marks]
    ends: list[int] = []
    for part in range(1, parts):
        at = min(bisect_left(totals, size * part // parts), len(marks) - 1)
        if not ends or marks[at][0] > ends[-1]:
            ends.append(marks[at][0])
    if not ends or ends[-1] < marks[-1][0]:
        ends.append(marks[-1][0])
    return ends
