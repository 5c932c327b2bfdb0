"""A turn of the event loop: what many packets cause is done once, at its end.

Queues that got messages or ready consumers deliver once, and outputs (connections) write once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mqbroker.messaging.ports import Clock


class Deliverable(Protocol):
    """A queue with something to deliver.  ``marked`` is true while it waits for the end of the turn."""

    marked: bool

    def deliver(self) -> None: ...


class Output(Protocol):
    """Something that writes what it has gathered.  ``flush_due`` is true while it waits for the end of the turn."""

    flush_due: bool

    def flush(self) -> None: ...


class Turn:
    """Gathers work until :meth:`end`.

    Entry points of the broker (bytes received, a timer, a written batch) call :meth:`run`; whoever marks something outside of one gets
    an end of its own right after.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: list[Deliverable] = []
        self._outputs: list[Output] = []
        self._active = False
        self._scheduled = False
        self.now_ms = clock.wall_ms()
        """When the turn began, by the wall clock: near enough for "last delivered at" and the like."""
        self.at_end: Callable[[], object] = _nothing
        """Called when everybody has been served: the store may write what the turn has caused."""
        self.on_failure: Callable[[Exception], object] = _raise
        """Told of the first failure of a turn, when everybody else has been served."""

    def run(self, function: Callable[..., object], *args: Any) -> None:
        """Call ``function`` and end the turn, also when it raises."""
        if self._active:
            function(*args)
            return
        self._active = True
        self.now_ms = self._clock.wall_ms()
        try:
            function(*args)
        finally:
            self.end()

    def mark_queue(self, queue: Deliverable) -> None:
        if not queue.marked:
            queue.marked = True
            self._queues.append(queue)
            if not self._active:
                self._schedule()

    def mark_output(self, output: Output) -> None:
        if not output.flush_due:
            output.flush_due = True
            self._outputs.append(output)
            if not self._active:
                self._schedule()

    def end(self) -> None:
        """Deliver and write.  Deliveries may mark further queues; those are served too."""
        self._active = True
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
            self.at_end()
        finally:
            self._active = False
        if failure is not None:
            self.on_failure(failure)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_later(0, self._scheduled_end)

    def _scheduled_end(self) -> None:
        self._scheduled = False
        self.now_ms = self._clock.wall_ms()
        self.end()


def _nothing() -> None: ...


def _raise(error: Exception) -> None:
    raise error
