"""Clock and disk writer of a store that one command works on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mqbroker.storage.disk.diskwriter import Done, Step, run_steps


class Here:
    """A disk writer and a clock for one command: nothing runs beside it, so that :meth:`run` does all that is due, in order."""

    def __init__(self) -> None:
        self._due: deque[Callable[[], object]] = deque()

    def run(self) -> None:
        while self._due:
            self._due.popleft()()

    @property
    def idle(self) -> bool:
        return False

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        self._due.append(lambda: done(run_steps(steps)))

    def monotonic(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 0

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> _Call:
        call = _Call(partial(function, *args))
        self._due.append(call.run)
        return call


class _Call:
    def __init__(self, function: Callable[[], object]) -> None:
        self._function: Callable[[], object] | None = function

    def cancel(self) -> None:
        self._function = None

    def run(self) -> None:
        if self._function is not None:
            self._function()
