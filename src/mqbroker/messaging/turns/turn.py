"""A turn of the event loop: the effects of many packets are carried out together, at its end.

Queues that got messages or ready consumers deliver once, and outputs (connections) write once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mqbroker.messaging.event import Event
from mqbroker.messaging.ports import Clock


class Deliverable(Protocol):
    """A queue with something to deliver.  ``marked`` is true while it waits for the end of the turn."""

    marked: bool

    def deliver(self) -> None: ...


class Output(Protocol):
    """A writer of gathered output.  ``flush_due`` is true while the output waits for the end of the turn."""

    flush_due: bool

    def flush(self) -> None: ...


SCANNED_MAX = 5_000
"""Messages that all filters of one turn are tried on, and that are found expired (``SCAN_SECONDS``, 10 ms, may end it sooner); the search
goes on in a turn of its own."""

SCAN_SECONDS = 0.01
"""The same in time, looked at every :data:`SCAN_STEP` messages: filters may be costly."""

SCAN_STEP = 16


class ScanBudget:
    """The number of messages that one turn may look at in vain: a filter over a million messages must not stop the loop.

    ``left`` is the number of messages; 0 = the search goes on in a later turn.
    """

    __slots__ = ("_check_at", "_clock", "_until", "left")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0
        self._check_at = SCANNED_MAX
        self.left = SCANNED_MAX

    def take(self) -> int:
        """How many messages may be looked at before the next call; the caller adds unused ones to ``left``."""
        if self.left <= self._check_at:
            now = self._clock.monotonic()
            if self._check_at == SCANNED_MAX:
                self._until = now + SCAN_SECONDS
            elif now >= self._until:
                self.left = 0
            self._check_at = self.left - SCAN_STEP
        granted = min(SCAN_STEP, self.left)
        self.left -= granted
        return granted

    def spend(self) -> None:
        """A message was found expired: that may have taken as long as looking at many."""
        granted = self.take()
        self.left += max(granted - 1, 0)

    def renew(self) -> None:
        """A new turn."""
        self.left = self._check_at = SCANNED_MAX


class Turn:
    """Gathers work until :meth:`end`.

    Entry points of the broker (bytes received, a timer, a written batch) call :meth:`run`; a mark outside of a run gets an end of its own
    right after.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: list[Deliverable] = []
        self._outputs: list[Output] = []
        self._unfinished: list[Deliverable] = []
        self._starved: list[Deliverable] = []
        self.active = False
        """Is there a turn now, and so an end of it to come?"""
        self._scheduled = False
        self.now_ms = clock.wall_ms()
        """When the turn began, by the wall clock: near enough for "last delivered at" and the like."""
        self._continued = False
        self.scan = ScanBudget(clock)
        self.ended: Event[()] = Event()
        """All queues and outputs have been served: the store may write the work of the turn."""
        self.failed: Event[Exception] = Event()
        """The first failure of a turn, told when all others have been served; raised if there is no listener."""

    def run(self, function: Callable[..., object], *args: Any) -> None:
        """Call ``function`` and end the turn, also when it raises."""
        if self.active:
            function(*args)
            return
        self.active = True
        self.now_ms = self._clock.wall_ms()
        try:
            function(*args)
        finally:
            self.end()

    def mark_queue(self, queue: Deliverable) -> None:
        if not queue.marked:
            queue.marked = True
            self._queues.append(queue)
            if not self.active:
                self._schedule()

    def go_on_later(self, queue: Deliverable, *, begun: bool) -> None:
        """The budget is spent: ``queue`` delivers again in a later turn.

        Queues that got nothing of the budget (not ``begun``) come first there, so that none starves.
        """
        (self._unfinished if begun else self._starved).append(queue)
        if not self._continued:
            self._continued = True
            self._clock.call_later(0, self._continue)

    def _continue(self) -> None:
        self._continued = False
        queues, self._unfinished, self._starved = [*self._starved, *self._unfinished], [], []
        self.scan.renew()
        self.run(self._mark_all, queues)

    def _mark_all(self, queues: list[Deliverable]) -> None:
        for queue in queues:
            self.mark_queue(queue)

    def mark_output(self, output: Output) -> None:
        if not output.flush_due:
            output.flush_due = True
            self._outputs.append(output)
            if not self.active:
                self._schedule()

    def end(self) -> None:
        """Deliver and write.  Deliveries may mark further queues, which are served too."""
        self.active = True
        failure: Exception | None = None
        try:
            while self._queues or self._outputs:
                queues, self._queues = self._queues, []
                for queue in queues:
                    queue.marked = False
                    try:
                        queue.deliver()
                    except Exception as error:
                        failure = failure or error
                if self._queues:
                    continue
                outputs, self._outputs = self._outputs, []
                for output in outputs:
                    output.flush_due = False
                    try:
                        output.flush()
                    except Exception as error:
                        failure = failure or error
            for listener in self.ended.listeners:
                listener()
        finally:
            self.active = False
            if self.scan.left < SCANNED_MAX:
                self.scan.renew()
        if failure is not None:
            if not self.failed.listeners:
                raise failure
            self.failed(failure)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_later(0, self._scheduled_end)

    def _scheduled_end(self) -> None:
        self._scheduled = False
        self.now_ms = self._clock.wall_ms()
        self.end()
