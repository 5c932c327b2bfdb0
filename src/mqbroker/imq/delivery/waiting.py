"""The messages of a home that wait here for a consumer, by priority and in the order of their arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from mqbroker.messaging.queues.references import PRIORITIES, RemoteReference


class Waiting:
    """A few messages: at most the window of a remote consumer."""

    def __init__(self) -> None:
        self._levels: list[deque[RemoteReference]] = [deque() for _ in range(PRIORITIES)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[RemoteReference]:
        """The next in turn first."""
        for level in reversed(self._levels):
            yield from level

    def add(self, reference: RemoteReference) -> None:
        """Put it behind those that have arrived earlier with the same priority; also one that comes back."""
        level = self._levels[reference.priority]
        later: list[RemoteReference] = []
        while level and level[-1].message.message_id > reference.message.message_id:
            later.append(level.pop())
        level.append(reference)
        level.extend(reversed(later))
        self._count += 1

    def remove(self, reference: RemoteReference) -> None:
        level = self._levels[reference.priority]
        if level[0] is reference:
            level.popleft()
        else:
            level.remove(reference)
        self._count -= 1

    def clear(self) -> list[RemoteReference]:
        """Take all out."""
        found = list(self)
        for level in self._levels:
            level.clear()
        self._count = 0
        return found
