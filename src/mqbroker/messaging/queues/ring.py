"""Ring queues: no more than ``ring-size`` messages wait (Artemis manual, "Ring Queue").

After each delivery the ring removes the excess messages, beginning at the head; ready consumers come first.  Messages in delivery,
scheduled, or in pages and not read yet do not count.  A message that comes back to a full ring is removed itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mqbroker.messaging.queues.references import Reference

if TYPE_CHECKING:
    from mqbroker.messaging.queues.queue import Queue

REMOVED_TOGETHER = 1000
"""Messages that are removed in one turn, when a long queue becomes a small ring."""


class Ring:
    """Keeps a queue at ``size`` waiting messages (-1 = any number); the turn serves the ring after the queue.

    ``replaced`` settles removed references, which are in delivery without a consumer.
    """

    __slots__ = ("_queue", "_removed", "_replaced", "marked", "size")

    def __init__(self, queue: Queue, size: int, replaced: Callable[[Sequence[Reference]], None]) -> None:
        self._queue = queue
        self.size = size
        self._replaced = replaced
        self._removed: list[Reference] = []
        """References that came back to a full ring, until the end of the turn."""
        self.marked = False

    def takes_back(self, reference: Reference) -> bool:
        """May a reference in delivery wait again?  If not, the ring removes it."""
        if self._queue.references.count < self.size:
            return True
        reference.consumer = None
        self._removed.append(reference)
        self._queue.turn.mark_queue(self)
        return False

    def deliver(self) -> None:
        """Remove the excess messages."""
        queue = self._queue
        removed, self._removed = self._removed, []
        excess = queue.references.count - self.size if self.size >= 0 and not queue.deleted else 0
        for _ in range(min(excess, REMOVED_TOGETHER)):
            reference = queue.references.take_head()
            assert reference is not None
            queue.delivering += 1
            removed.append(reference)
        if removed:
            self._replaced(removed)
        if excess > REMOVED_TOGETHER:
            queue.turn.go_on_later(self, begun=True)
