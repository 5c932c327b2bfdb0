"""Messages in columns, as readers get them: nothing is made for each message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.messaging.message.message import Message
from mqclient.wire.message import body_end

if TYPE_CHECKING:
    from mqbroker.messaging.message.large_body import LargeBody


class Rows:
    """Messages in columns.  ``counts`` (deliveries) and ``bodies`` (of large messages) are by the row.

    ``keys`` ascend; they are the ids, but for a message in a page that stands behind one with a greater id.
    """

    __slots__ = ("bodies", "buffers", "counts", "ids", "keys")

    def __init__(self, keys: list[int], ids: list[int], buffers: list[bytes], counts: dict[int, int], bodies: dict[int, LargeBody]) -> None:
        self.keys = keys
        self.ids = ids
        self.buffers = buffers
        self.counts = counts
        self.bodies = bodies

    def part(self, start: int, end: int) -> Rows:
        """The rows from ``start`` to before ``end``."""
        if not start and end >= len(self.keys):
            return self
        counts = {row - start: count for row, count in self.counts.items() if start <= row < end}
        bodies = {row - start: body for row, body in self.bodies.items() if start <= row < end}
        return Rows(self.keys[start:end], self.ids[start:end], self.buffers[start:end], counts, bodies)

    def chosen(self, rows: list[int]) -> Rows:
        """The rows with these numbers, which ascend."""
        return self if len(rows) == len(self.keys) else self.rearranged(rows)

    def rearranged(self, rows: list[int]) -> Rows:
        """The rows with these numbers, in this order."""
        counts = {at: self.counts[row] for at, row in enumerate(rows) if row in self.counts} if self.counts else {}
        bodies = {at: self.bodies[row] for at, row in enumerate(rows) if row in self.bodies} if self.bodies else {}
        return Rows([self.keys[row] for row in rows], [self.ids[row] for row in rows], [self.buffers[row] for row in rows], counts, bodies)

    def and_then(self, other: Rows) -> Rows:
        """These rows, followed by the rows of ``other``."""
        if not self.keys:
            return other
        if not other.keys:
            return self
        size = len(self.keys)
        counts = {**self.counts, **{row + size: count for row, count in other.counts.items()}}
        bodies = {**self.bodies, **{row + size: body for row, body in other.bodies.items()}}
        return Rows(self.keys + other.keys, self.ids + other.ids, self.buffers + other.buffers, counts, bodies)

    def in_order(self) -> Rows:
        """The same rows, by their keys."""
        return self.rearranged(sorted(range(len(self.keys)), key=self.keys.__getitem__))

    def message(self, row: int) -> Message:
        """The message of one row, for a filter."""
        body = self.bodies.get(row)
        buffer = self.buffers[row]
        return Message.read(buffer, body_end(buffer) if body is None else 0, large=body)

    def sizes(self) -> list[int]:
        """Encoded bytes of each, with large bodies."""
        sizes = [*map(len, self.buffers)]
        for row, body in self.bodies.items():
            sizes[row] += body.size
        return sizes


NO_ROWS = Rows([], [], [], {}, {})


def merged(parts: list[Rows]) -> Rows:
    """Rows of several places, each in order, in the order of their keys."""
    parts = [part for part in parts if part.keys]
    if not parts:
        return NO_ROWS
    parts.sort(key=lambda part: part.keys[0])
    whole = parts[0]
    ordered = True
    for part in parts[1:]:
        ordered = ordered and whole.keys[-1] < part.keys[0]
        whole = whole.and_then(part)
    return whole if ordered else whole.in_order()
