"""A watch over the event loop: its lag, and its stack when it stalls (``critical-analyzer`` in broker.xml).

A thread posts a question to the loop every :data:`PERIOD_SECONDS` and looks at how long the answer takes.  One that is not answered within
:data:`STALL_SECONDS` (or the timeout of the critical analyzer, if that is less) gets a line with the stack of the loop, once per stall.
One that is not answered within the timeout is what the policy of the critical analyzer is for.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

PERIOD_SECONDS = 0.5
"""The time between two questions to the loop, unless ``critical-analyzer-check-period`` is shorter."""

STALL_SECONDS = 5.0
"""The time without an answer after which the stack of the loop is logged, unless the timeout of the critical analyzer is shorter."""

LAG_WINDOW_SECONDS = 60.0
"""The lag in the metrics is the greatest within this time, or within up to twice as long."""

log = Logger(namespace="mqbroker")


class LoopWatch:
    """The measurement, without threads and clocks.

    ``ask`` posts a function to the loop, which calls it when its turn comes; ``stack`` gives the present stack of the loop as a text.
    ``stall_seconds`` is when a stack is logged.  After ``timeout_seconds`` without an answer ``on_timeout`` is called with a sentence.
    ``monotonic`` is the clock, in seconds.  :meth:`tick` runs in the watching thread, the answer on the loop.
    """

    def __init__(
        self,
        ask: Callable[[Callable[[], object]], object],
        stack: Callable[[], str],
        monotonic: Callable[[], float],
        *,
        period_seconds: float,
        stall_seconds: float,
        timeout_seconds: float,
        on_timeout: Callable[[str], object],
    ) -> None:
        self._ask = ask
        self._stack = stack
        self._monotonic = monotonic
        self._late_seconds = 2 * period_seconds + 0.5
        self._stall_seconds = stall_seconds
        self._timeout_seconds = timeout_seconds
        self._on_timeout = on_timeout
        self._asked: float | None = None
        self._last_tick = monotonic()
        self._logged = False
        self._timed_out = False
        self._greatest = 0.0
        self._greatest_before = 0.0
        self._window_began = self._last_tick

    def lag_ms(self) -> float:
        """The longest time that the loop let a question wait lately, in ms; a question that is not answered yet counts."""
        asked = self._asked
        now = self._monotonic()
        waiting = 0.0 if asked is None else now - asked
        return round(1000 * max(self._greatest, self._greatest_before, waiting), 1)

    def tick(self) -> None:
        """Ask, or look how long the last question has been waiting."""
        now = self._monotonic()
        if now - self._last_tick > self._late_seconds and self._asked is not None:
            # This thread has not run either: the machine or the process was suspended, and the loop is not to blame.
            self._asked = now
        self._last_tick = now
        if now - self._window_began >= LAG_WINDOW_SECONDS:
            self._greatest_before, self._greatest = self._greatest, 0.0
            self._window_began = now
        asked = self._asked
        if asked is None:
            self._asked = now
            self._ask(self._answer)
            return
        waiting = now - asked
        if waiting >= self._stall_seconds and not self._logged:
            self._logged = True
            log.error(
                "AMQ224107: the event loop has not run for {seconds:.1f} seconds; it is stuck here:\n{stack}",
                seconds=waiting,
                stack=self._stack(),
            )
        if waiting >= self._timeout_seconds and not self._timed_out:
            self._timed_out = True
            self._on_timeout(f"the event loop has not run for {waiting:.1f} seconds")

    def _answer(self) -> None:
        asked, self._asked = self._asked, None
        if asked is None:
            return
        lag = self._monotonic() - asked
        self._greatest = max(self._greatest, lag)
        if self._logged:
            self._logged = self._timed_out = False
            log.warn("the event loop is running again, after {seconds:.1f} seconds", seconds=lag)


class WatchThread:
    """A thread that watches the loop of the thread that makes it.

    ``call_from_thread`` posts to the loop.  ``timeout_seconds`` and ``check_seconds`` are those of the critical analyzer.
    """

    def __init__(
        self,
        call_from_thread: Callable[..., object],
        timeout_seconds: float,
        check_seconds: float,
        on_timeout: Callable[[str], object],
    ) -> None:
        loop_thread = threading.get_ident()
        period = min(PERIOD_SECONDS, check_seconds)
        self._period = period
        self._stopped = threading.Event()
        self.watch = LoopWatch(
            call_from_thread,
            lambda: stack_of(loop_thread),
            time.monotonic,
            period_seconds=period,
            stall_seconds=min(STALL_SECONDS, timeout_seconds),
            timeout_seconds=timeout_seconds,
            on_timeout=on_timeout,
        )
        threading.Thread(target=self._run, name="mqbroker-watch", daemon=True).start()

    def stop(self) -> None:
        """Watch no longer."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._period):
            self.watch.tick()


def stack_of(thread: int) -> str:
    """The present stack of a thread, innermost call last."""
    frames: dict[int, Any] = sys._current_frames()
    frame = frames.get(thread)
    return "(the thread is gone)" if frame is None else "".join(traceback.format_stack(frame)).rstrip()
