"""The buffer of a consumer: messages that have arrived and were not taken yet."""

from __future__ import annotations

from collections import deque

from mqclient.core.message import ClientMessage

PRIORITIES = 10


class PriorityBuffer:
    """Higher priorities first, in order of arrival within one; implements :class:`mqclient.core.api.MessageBuffer`."""

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
