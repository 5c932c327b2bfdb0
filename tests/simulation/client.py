"""The production client on the simulated clock and network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from mqclient.core.runtime import LinkHandler
from mqclient.wire.primitives import TransportConfiguration
from tests.simulation.network import Future, Network
from tests.simulation.world import Event, Process

T = TypeVar("T")

CONNECTOR = TransportConfiguration("broker", "netty", (("host", "broker"), ("port", "61616")))


class SimulatedRuntime:
    """Implements :class:`mqclient.core.runtime.Runtime`; its futures are Deferreds.

    Those of a process that has ended stay as they are: what waited for them is taken apart, in any order, and goes on nowhere.
    """

    warnings = 0
    """How often the client has warned."""

    def __init__(self, process: Process, network: Network) -> None:
        self.process = process
        self._network = network

    def now(self) -> float:
        return self.process.monotonic()

    def wall_clock_ms(self) -> int:
        return self.process.wall_ms()

    def call_later(self, seconds: float, function: Callable[..., Any], *args: Any) -> Timer:
        return Timer(self.process.call_later(seconds, function, *args))

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        self.process.call_later(0.0, function, *args)

    def create_future(self) -> Any:
        return Future(self.process)

    def resolve(self, future: Any, value: Any) -> None:
        if not future.called and self.process.alive:
            future.callback(value)

    def reject(self, future: Any, error: BaseException) -> None:
        if not future.called and self.process.alive:
            future.errback(error)

    def is_done(self, future: Any) -> bool:
        return bool(future.called)

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Deferred[T]:
        return Deferred.fromCoroutine(coroutine)

    def connect(self, connector: TransportConfiguration, handler: LinkHandler, timeout: float) -> Awaitable[Any]:
        return self._network.connect(self.process, handler, timeout)

    def random_bytes(self, size: int) -> bytes:
        return self.process.rng.randbytes(size)

    def random_below(self, limit: int) -> int:
        return self.process.rng.randrange(limit)

    def log_failure(self, text: str, error: BaseException) -> None:
        if isinstance(error, GeneratorExit) and not self.process.alive:
            return  # what waited in a process that has died is taken apart
        self.process.world.violation(f"{self.process.name} reports a failure that no caller gets: {text}: {error!r}")

    def log_warning(self, text: str) -> None:
        self.warnings += 1
        self.process.world.note(f"{self.process.name} warns: {text}")


class Timer:
    """A delayed call; the core promises not to cancel it when it is over, and is held to it."""

    def __init__(self, event: Event) -> None:
        self._event = event

    def cancel(self) -> None:
        if self._event.fired or self._event.cancelled:
            raise AssertionError("a timer is cancelled that has fired or was cancelled before")
        self._event.cancel()
