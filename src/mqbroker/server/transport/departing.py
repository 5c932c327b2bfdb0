"""Temporary queues whose connection has ended.  Other clients do not wait for their deletion, even if there are a thousand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from mqbroker.messaging.event import Event
from mqbroker.server.transport.limits import REQUESTS_SECONDS

if TYPE_CHECKING:
    from mqbroker.messaging.messaging import Messaging
    from mqbroker.messaging.ports import Clock
    from mqbroker.messaging.queues.queue import Queue

DELETED_TOGETHER = 50
"""Temporary queues that are deleted in one turn at most; :data:`.limits.REQUESTS_SECONDS` may end the turn sooner."""


class DepartingQueues:
    """Deletes the temporary queues of ended connections, the first of them at once.

    Until they are deleted they stay visible but receive nothing; creating a queue of the same name deletes the old queue first.
    """

    __slots__ = ("_clock", "_expected", "_messaging", "_queues", "taken_back")

    def __init__(self, messaging: Messaging, clock: Clock) -> None:
        self._messaging = messaging
        self._clock = clock
        self._queues: dict[str, Queue] = {}
        self._expected: dict[str, Queue] = {}
        self.taken_back: Event[Queue] = Event()
        """A client has come back to its temporary queue."""

    def __len__(self) -> int:
        return len(self._queues)

    def add(self, queues: Iterable[Queue]) -> None:
        """Delete ``queues``, whose connection has ended."""
        waiting = bool(self._queues)
        for queue in queues:
            if not queue.deleted:
                # Disabled, so that other queues of the address get its messages.
                queue.definition = replace(queue.definition, enabled=False)
                self._queues[queue.name] = queue
        if self._queues:
            self._messaging.core.routing.changed()
            if not waiting:
                self._delete_some()

    def others(self) -> list[Queue]:
        """The queues of the broker that stay."""
        return [queue for queue in self._messaging.core.queues.values() if self._queues.get(queue.name) is not queue]

    def expect(self, queue: Queue) -> None:
        """A client that this broker has not may create this temporary queue again: it gets it as it is."""
        self._expected[queue.name] = queue

    def expect_no_more(self, queue: Queue) -> None:
        """The queue ends."""
        if self._expected.get(queue.name) is queue:
            del self._expected[queue.name]

    def take_back(self, name: str) -> Queue | None:
        """The temporary queue that was expected to be created again; None where nothing was."""
        queue = self._expected.pop(name, None)
        if queue is not None:
            self.taken_back(queue)
        return queue

    def make_room(self, name: str) -> None:
        """Delete the old queue at once, before a queue of this name is created, for instance by a reconnected client."""
        queue = self._queues.pop(name, None)
        if queue is not None and not queue.deleted:
            self._messaging.administration.delete_queue(queue, remove_consumers=True)

    def _delete_some(self) -> None:
        until = self._clock.monotonic() + REQUESTS_SECONDS
        left = DELETED_TOGETHER
        try:
            while self._queues and left and self._clock.monotonic() <= until:
                left -= 1
                self.make_room(next(iter(self._queues)))
        finally:
            # A queue that cannot be deleted does not stop the others.
            if self._queues:
                self._clock.call_later(0, self._messaging.core.turn.run, self._delete_some)
