"""References that are not to be delivered before a certain time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Cancellable, Clock
from mqbroker.messaging.queues.references import Reference
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY, scheduled_time

SCHEDULED_KEY = KEY_SCHEDULED_DELIVERY.encode("utf-16-le")

RECHECK_SECONDS = 10.0
"""The longest that a timer runs: schedules are by the wall clock, which may be set while it runs."""


def scheduled_time_of(message: Message) -> int:
    """When the message is to be delivered (ms since the epoch), 0 = at once."""
    if message.buffer.find(SCHEDULED_KEY, message.properties_offset) < 0:
        return 0
    return scheduled_time(message.buffer, message.properties_offset)


class ScheduledReferences:
    """The scheduled references of one queue.  ``due`` is called with the references whose time has come, the earliest first."""

    def __init__(self, clock: Clock, due: Callable[[list[Reference]], None]) -> None:
        self._clock = clock
        self._due = due
        self._heap: list[tuple[int, int, Reference]] = []
        self._sequence = 0
        self._places: dict[Reference, int] = {}
        """Scheduled references with their numbers in the heap; a heap entry with another number, or without one here, has been removed."""
        self._timer: Cancellable | None = None
        self.count = 0
        self.size = 0
        """Bytes of the messages, with large bodies."""
        self.durable_count = 0
        self.durable_size = 0

    def add(self, reference: Reference) -> None:
        """Keep ``reference`` until ``reference.scheduled``."""
        self._sequence += 1
        heapq.heappush(self._heap, (reference.scheduled, self._sequence, reference))
        self._places[reference] = self._sequence
        self._count(reference, 1)
        if self._heap[0][2] is reference:
            self._arm()

    def remove(self, reference: Reference) -> None:
        """Take a reference out before its time."""
        if self._places.pop(reference, None) is not None:
            self._count(reference, -1)
            if len(self._heap) > 2 * self.count + 100:
                self._heap = [entry for entry in self._heap if self._places.get(entry[2]) == entry[1]]
                heapq.heapify(self._heap)

    def _count(self, reference: Reference, sign: int) -> None:
        message = reference.message
        self.count += sign
        self.size += sign * message.stored_size
        if message.durable:
            self.durable_count += sign
            self.durable_size += sign * message.stored_size

    def __contains__(self, reference: Reference) -> bool:
        return reference in self._places

    def __iter__(self) -> Iterator[Reference]:
        return (entry[2] for entry in sorted(self._heap) if self._places.get(entry[2]) == entry[1])

    def clear(self) -> None:
        self._heap.clear()
        self._places.clear()
        self.count = self.size = self.durable_count = self.durable_size = 0
        self.stop()

    def stop(self) -> None:
        """End the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.0, (self._heap[0][0] - self._clock.wall_ms()) / 1000)
        self._timer = self._clock.call_later(min(delay, RECHECK_SECONDS), self._check)

    def _check(self) -> None:
        self._timer = None
        now = self._clock.wall_ms()
        due: list[Reference] = []
        while self._heap and self._heap[0][0] <= now:
            _, number, reference = heapq.heappop(self._heap)
            if self._places.get(reference) == number:
                del self._places[reference]
                self._count(reference, -1)
                due.append(reference)
        if self._heap:
            self._arm()
        if due:
            self._due(due)
