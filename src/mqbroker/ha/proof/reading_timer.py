"""A limit of time for an answer, as a process counts it that may stand still."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqbroker.messaging.ports import Cancellable, Clock

READ_SECONDS = 0.1
"""So long, at the end of the time, a process has to run without standing still: then it has read the answers that had come before."""


class ReadingTimer:
    """Calls ``ended`` after ``seconds``, and not before this process has read what came meanwhile.

    A process that was stopped finds its timers due before it reads from its connections, where the answer may wait.
    """

    def __init__(self, clock: Clock, seconds: float, ended: Callable[[], object]) -> None:
        self._clock = clock
        self._ended = ended
        self._timer: Cancellable = clock.call_later(max(0.0, seconds - READ_SECONDS), self._read)

    def cancel(self) -> None:
        self._timer.cancel()

    def _read(self) -> None:
        self._timer = self._clock.call_later(READ_SECONDS, self._end, self._clock.monotonic() + READ_SECONDS)

    def _end(self, due: float) -> None:
        if self._clock.monotonic() > due + READ_SECONDS:
            self._read()
        else:
            self._ended()
