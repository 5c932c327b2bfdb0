"""A clock that a test moves by hand."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

START_MS = 1_700_000_000_000


class _Call:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """Time stands still until :meth:`advance`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._calls: list[tuple[float, int, _Call, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0

    def monotonic(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return START_MS + round(self.seconds * 1000)

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> _Call:
        call = _Call()
        self._number += 1
        heapq.heappush(self._calls, (self.seconds + seconds, self._number, call, function, args))
        return call

    def advance(self, seconds: float) -> None:
        """Let time pass; calls happen at their own time, in order."""
        end = self.seconds + seconds
        while self._calls and self._calls[0][0] <= end:
            due, _, call, function, args = heapq.heappop(self._calls)
            self.seconds = max(self.seconds, due)
            if not call.cancelled:
                function(*args)
        self.seconds = end

    @property
    def pending(self) -> int:
        """How many calls are to come."""
        return sum(not entry[2].cancelled for entry in self._calls)

    @property
    def due(self) -> bool:
        """Would a call happen if no time passed?"""
        return any(not entry[2].cancelled and entry[0] <= self.seconds for entry in self._calls)

    def run_due(self) -> bool:
        """Make the calls that are due, and those that they cause for now; false when there were none."""
        due = self.due
        self.advance(0)
        return due


class ClientClock(FakeClock):
    """As much of a client's runtime as needs no network."""

    def now(self) -> float:
        return self.monotonic()

    def wall_clock_ms(self) -> int:
        return self.wall_ms()

    def random_bytes(self, size: int) -> bytes:
        return bytes(size)
