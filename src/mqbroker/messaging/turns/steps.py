"""Work on many messages, in steps: other work does not wait until a queue with a million messages is looked through or emptied."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from mqbroker.messaging.turns.turn import SCAN_SECONDS, SCANNED_MAX

if TYPE_CHECKING:
    from mqbroker.messaging.message.not_yet import NotYet
    from mqbroker.messaging.ports import Clock
    from mqbroker.messaging.turns.turn import Turn

T = TypeVar("T")

Steps = Generator[int, None, T]
"""Work that may be interrupted at each yield, which gives the number of messages looked at since the last one.  The return value is the
result."""


def run_to_end(steps: Steps[T]) -> T:
    """Do the whole work now, for callers that cannot wait."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result


class StepwiseWork:
    """Runs work in steps: a number of messages or a time in one turn, then all other work comes first.

    Pieces of work run one after the other, as they may be about the same messages.
    """

    def __init__(self, turn: Turn, clock: Clock) -> None:
        self._turn = turn
        self._clock = clock
        self._busy = False
        self._pending: NotYet | None = None
        self._waiting: deque[tuple[Steps[Any], Callable[[Any, Exception | None], object]]] = deque()

    def start(self, steps: Steps[Any], done: Callable[[Any, Exception | None], object]) -> None:
        """Begin at once, unless other work is under way.

        ``done`` is called with the result or the exception, perhaps before this method returns.
        """
        self._waiting.append((steps, done))
        if len(self._waiting) == 1:
            self._step()

    def wait_for(self, pending: NotYet) -> None:
        """Let the running work go on, after its next yield, only when ``pending`` is there.  Outside of stepwise work raises
        ``pending``."""
        if not self._busy:
            raise pending
        self._pending = pending

    def _step(self) -> None:
        self._pending = None
        steps, done = self._waiting[0]
        result: Any = None
        failure: Exception | None = None
        try:
            self._advance(steps)
        except StopIteration as stop:
            result = stop.value
        except Exception as error:
            failure = error
        else:
            if self._pending is None:
                self._later()
            else:
                self._pending.when_there(partial(self._turn.run, self._step))
            return
        self._waiting.popleft()
        if self._waiting:
            self._later()
        done(result, failure)

    def _later(self) -> None:
        self._clock.call_later(0, self._turn.run, self._step)

    def _advance(self, steps: Steps[Any]) -> None:
        """Do one piece of the work.  Raises StopIteration when all of it is done."""
        clock = self._clock
        until = clock.monotonic() + SCAN_SECONDS
        left = SCANNED_MAX
        self._busy = True
        try:
            while left > 0 and self._pending is None and clock.monotonic() <= until:
                left -= next(steps)
        finally:
            self._busy = False
