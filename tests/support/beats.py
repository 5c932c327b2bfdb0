"""Things that are done again and again, without a thread."""

from __future__ import annotations

from collections.abc import Callable

from mqbroker.messaging.ports import Cancellable, Clock


class ClockBeat:
    """See :class:`mqbroker.ha.shared_store.lease.Beat`: by a clock, each step in no time.  ``frozen``: nothing happens."""

    def __init__(self, clock: Clock) -> None:
        self.frozen = False
        self._clock = clock
        self._call: Cancellable | None = None
        self._seconds = 0.0
        self._step: Callable[[], object]
        self._end: Callable[[], object]

    @property
    def running(self) -> bool:
        return self._call is not None

    def start(self, seconds: float, step: Callable[[], object], end: Callable[[], object]) -> None:
        self.stop()
        self._seconds, self._step, self._end = seconds, step, end
        self._call = self._clock.call_later(seconds, self._beat)

    def stop(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None
            self._end()

    def _beat(self) -> None:
        self._call = self._clock.call_later(self._seconds, self._beat)
        if not self.frozen:
            self._step()
