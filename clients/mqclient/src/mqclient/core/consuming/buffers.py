"""The buffer of a consumer: messages that have arrived and were not taken yet."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from mqclient.core.message import ClientMessage

PRIORITIES = 10


class MessageBuffer(Protocol):
    """The messages that have arrived for a consumer, ordered by priority (9 first) and arrival."""

    def put(self, message: ClientMessage) -> None: ...

    def pop(self) -> ClientMessage | None:
        """The next message, None when there is none.  Does not wait."""

    def clear(self) -> list[ClientMessage]:
        """Take everything out."""

    def close(self) -> None:
        """The consumer was closed: nothing comes any more."""

    def pause(self) -> None:
        """The session was stopped: ``pop`` gives nothing until :meth:`resume`."""

    def resume(self) -> None: ...

    def __len__(self) -> int: ...


class PriorityBuffer:
    """The buffer of a consumer in the thread of the reactor or loop."""

    __slots__ = ("_count", "_levels", "_paused")

    def __init__(self) -> None:
        self._levels: tuple[deque[ClientMessage], ...] = tuple(deque() for _ in range(PRIORITIES))
        self._count = 0
        self._paused = False

    def __len__(self) -> int:
        return self._count

    def put(self, message: ClientMessage) -> None:
        self._levels[min(max(message.priority, 0), PRIORITIES - 1)].append(message)
        self._count += 1

    def pop(self) -> ClientMessage | None:
        if self._count and not self._paused:
            for level in reversed(self._levels):
                if level:
                    self._count -= 1
                    return level.popleft()
        return None

    def clear(self) -> list[ClientMessage]:
        messages = [message for level in reversed(self._levels) for message in level]
        for level in self._levels:
            level.clear()
        self._count = 0
        return messages

    def close(self) -> None:
        self.clear()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
