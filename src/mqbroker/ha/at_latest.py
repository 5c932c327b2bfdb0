"""A call that comes at the latest after a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqbroker.messaging.ports import Clock


class AtLatest:
    """Calls ``done`` once: when it is called itself, and after ``seconds`` at the latest."""

    def __init__(self, clock: Clock, seconds: float, done: Callable[[], object]) -> None:
        self.over = False
        """Has ``done`` been called?"""
        self._done = done
        self._limit = clock.call_later(seconds, self)

    def __call__(self) -> None:
        if not self.over:
            self.over = True
            self._limit.cancel()
            self._done()
