"""The real clocks.  Assembly only: everything else is given a clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.logger import Logger

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime

    from mqbroker.messaging.ports import Cancellable

log = Logger(namespace="mqbroker")


class _Call:
    """A delayed call; cancelling it when it is over does nothing."""

    __slots__ = ("_call",)

    def __init__(self, call: Any) -> None:
        self._call = call

    def cancel(self) -> None:
        if self._call.active():
            self._call.cancel()


class ReactorClock:
    """Delays by the reactor, intervals by the monotonic clock, times of day by the wall clock.

    The reactor's own delays run on the wall clock: a step of it makes a timer late or early once, and whoever measures an interval looks at
    :meth:`monotonic` when its timer fires.
    """

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> Cancellable:
        return _Call(self._reactor.callLater(max(seconds, 0.0), function, *args))
