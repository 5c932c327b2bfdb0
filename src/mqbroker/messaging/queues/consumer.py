"""A consumer as its queue knows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mqbroker.messaging.filters.filter import Filter
from mqbroker.messaging.queues.references import Cursor, Reference
from mqbroker.messaging.turns.turn import Deliverable


class QueueConsumer(Protocol):
    """Takes messages from a queue.

    ``ready`` is true while the consumer can take one more message (credits, started, connection writable); code that sets it to true marks
    the queue.  ``cursor`` is kept by the queue for a consumer with a filter.
    """

    ready: bool
    filter: Filter | None
    priority: int
    cursor: Cursor | None

    def handle(self, reference: Reference) -> None:
        """Take a reference that has left the queue's list; it is in delivery until acknowledged or returned."""

    def handle_first(self, reference: Reference, key: str) -> None:
        """As :meth:`handle`, for the first message of a group: this delivery has the property ``key``, which is true."""

    def queue_deleted(self) -> None:
        """The queue is gone; the consumer gets nothing more."""


WhenAnswered = Callable[[Callable[[], object]], object]


class Source(Deliverable, Protocol):
    """Gives the consumers of a queue what other brokers keep."""

    def awaited(self, consumer: QueueConsumer) -> WhenAnswered | None:
        """Has a broker not answered yet whether it has messages for ``consumer``?  Then what calls a function when it has; else None."""
