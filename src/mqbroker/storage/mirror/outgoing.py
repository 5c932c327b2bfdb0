"""Changes on their way from the thread that makes them to the loop, which sends them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from mqbroker.storage.mirror.changes import WRITE_MAX, Buffer, Change, Sync, SyncDirectory, Write, encode_change

TOGETHER_MAX = 256 * 1024
"""Bytes of changes that wait for a sync before the loop hears of them: it is woken once per sync, not once per change."""


class Outgoing:
    """Numbers changes, encodes them, and keeps them until the loop takes them.

    ``put`` and ``sync_ended`` are called by one thread at a time, all else by the loop.  ``call(function)`` calls on the loop, where
    ``ready`` is called when there is something to take.
    """

    def __init__(self, call: Callable[[Callable[[], object]], object], ready: Callable[[], object]) -> None:
        self.number = 0
        """Of the change that was put last."""
        self.synced = 0
        """The number of the last sync that has ended on this side."""
        self.taken = 0
        """The number of the change that the loop took last."""
        self._call = call
        self._ready = ready
        self._waiting: deque[tuple[int, list[Buffer]]] = deque()
        self._size = 0
        """Bytes put since the loop was called."""
        self._called = False

    def put(self, change: Change) -> int:
        """Returns the number of the change, of its last part for one that has several."""
        if isinstance(change, Write) and len(change.data) > WRITE_MAX:
            handle, offset, data = change
            view = memoryview(data)
            for at in range(0, len(view), WRITE_MAX):
                self._put(Write(handle, offset + at, view[at : at + WRITE_MAX]))
        else:
            self._put(change)
        return self.number

    def put_all(self, changes: Sequence[Change]) -> int:
        """For the loop, which calls :meth:`flush` after that.  Returns the number of the last change."""
        for change in changes:
            self._append(change)
        return self.number

    def flush(self) -> None:
        """For the loop: there is something to take."""
        self._size = 0
        self._ready()

    def sync_ended(self, number: int) -> None:
        self.synced = number

    def take(self) -> list[Buffer]:
        """The bytes that wait."""
        taken: list[Buffer] = []
        waiting = self._waiting
        while waiting:
            self.taken, buffers = waiting.popleft()
            taken += buffers
        return taken

    def _append(self, change: Change) -> None:
        buffers = encode_change(change)
        self.number += 1
        self._waiting.append((self.number, buffers))
        self._size += sum(map(len, buffers))

    def _put(self, change: Change) -> None:
        self._append(change)
        if self._size >= TOGETHER_MAX or isinstance(change, Sync | SyncDirectory):
            self._size = 0
            # The flag is taken back before the loop takes what waits, so nothing is left behind.
            if not self._called:
                self._called = True
                self._call(self._due)

    def _due(self) -> None:
        self._called = False
        self._ready()
