"""Disk writers without a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from mqbroker.messaging.ports import Clock
from mqbroker.storage.disk.diskwriter import Done, Step, run_steps


class SimulatedDiskWriter:
    """See :class:`mqbroker.storage.disk.diskwriter.DiskWriter`.

    With a clock each step takes ``delay()`` seconds, and so does the report; without one a test calls :meth:`run`.
    """

    def __init__(self, clock: Clock | None = None, delay: Callable[[], float] = lambda: 0.0) -> None:
        self._clock = clock
        self._delay = delay
        self._batches: deque[tuple[Sequence[Step], Done]] = deque()
        self._running = False
        self._closed = False
        self._step = 0
        """How many steps of the oldest batch have run."""
        self._works = False
        """Does a step run?"""

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def idle(self) -> bool:
        return not any(steps for steps, _ in self._batches)

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        self._batches.append((steps, done))
        if self._clock is not None and not self._running:
            self._running = True
            self._clock.call_later(self._delay(), self._next)

    def close(self) -> bool:
        """What was submitted is done at once, and nobody hears of it."""
        self._closed = True
        while self._batches:
            steps, _ = self._batches.popleft()
            run_steps(steps[self._step :])
            self._step = 0
        return True

    def run_beside(self) -> None:
        """Do what was submitted now, while the loop is in the middle of something, as a thread may; the loop hears of it later.

        Without effect while a step runs: there is one thread.
        """
        if not self._works:
            begun = self._step
            self._step = 0
            for number, (steps, done) in enumerate(self._batches):
                run_steps(steps[0 if number else begun :])
                self._batches[number] = ((), done)

    @property
    def waiting(self) -> int:
        """Batches that have not run."""
        return len(self._batches)

    def run_one(self) -> bool:
        """Run the oldest batch; false when there was none."""
        if not self._batches:
            return False
        steps, done = self._batches.popleft()
        done(run_steps(steps))
        return True

    def run(self) -> None:
        """Run what was submitted, and what that causes."""
        while self.run_one():
            pass

    def _next(self) -> None:
        if self._closed:
            return
        steps, done = self._batches[0]
        self._works = True
        error = run_steps(steps[self._step : self._step + 1])
        self._works = False
        self._step += 1
        assert self._clock is not None
        if error is None and self._step < len(steps):
            self._clock.call_later(self._delay(), self._next)
        else:
            self._clock.call_later(self._delay(), self._report, done, error)

    def _report(self, done: Done, error: Exception | None) -> None:
        """The loop hears of a batch later than the disk was done with it."""
        if self._closed:
            return
        self._batches.popleft()
        self._step = 0
        done(error)
        self._running = bool(self._batches)
        if self._running and self._clock is not None:
            self._clock.call_later(self._delay(), self._next)


class WriterInTurns(SimulatedDiskWriter):
    """Reports within a turn of the broker, as the thread of a real writer does."""

    def __init__(self, in_turn: Callable[..., object], clock: Clock | None = None, delay: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__(clock, delay)
        self._in_turn = in_turn

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        super().submit(steps, lambda error: self._in_turn(done, error))
