"""The part of the client that varies from shell to shell: clocks, futures, the network, entropy.

The core is written with ``async def``; it awaits futures that the runtime makes with the framework's own kind (Deferred or
:class:`asyncio.Future`), so one code base serves both, and several may live in one process.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable

from mqclient.protocol.discovery import Endpoint
from mqclient.wire.primitives import TransportConfiguration

T = TypeVar("T")
P = ParamSpec("P")


class Timer(Protocol):
    """A delayed call."""

    def cancel(self) -> None:
        """Must not be called when the call has been made or cancelled already."""


class Link(Protocol):
    """The sending half of a byte stream to a broker."""

    @property
    def peer(self) -> str:
        """The other end, for messages: host and port."""

    def write(self, data: bytes) -> None:
        """Hand bytes over; never blocks.  Ignored once the link is closed."""

    def close(self) -> None:
        """Send all written data, then close."""

    def abort(self) -> None:
        """Close at once."""


@runtime_checkable
class DirectLink(Protocol):
    """An optional method of a :class:`Link`."""

    def write_at_once(self, data: bytes) -> None:
        """As :meth:`Link.write`, for a few bytes that the peer waits for: they do not wait for the end of the loop's turn."""


class LinkHandler(Protocol):
    """The receiving half; told in the thread of the reactor or loop, after ``connect`` has completed or just before."""

    def data_received(self, data: bytes) -> None: ...

    def link_lost(self, reason: str) -> None:
        """The link is gone; called once, also after ``close``."""

    def link_paused(self) -> None:
        """The peer does not read: written data only gathers in memory."""

    def link_resumed(self) -> None: ...


@runtime_checkable
class LargeFrames(Protocol):
    """Optional methods of a :class:`LinkHandler`: large frames are read straight into their final memory.  A shell need not use them."""

    def room(self) -> memoryview | None:
        """Memory for the next bytes that come, as many as fit; None: they go to ``data_received``."""

    def room_filled(self, size: int) -> None:
        """So many bytes were put into the room that was asked for last."""


class BroadcastLink(Protocol):
    """A group endpoint: every listener gets every datagram; datagrams may get lost."""

    def send(self, data: bytes) -> None:
        """Send to all others; never blocks, raises nothing.  A series of failures is logged once."""

    def close(self) -> None:
        """Send and receive nothing more; safe to call twice."""


class Runtime(Protocol):
    """Passed to :class:`mqclient.core.factories.locator.ServerLocator` by a shell or a test."""

    def now(self) -> float:
        """Seconds of a monotonic clock."""

    def wall_clock_ms(self) -> int:
        """ms since the epoch."""

    def call_later(self, seconds: float, function: Callable[..., Any], *args: Any) -> Timer: ...

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Call in the next turn of the loop."""

    def create_future(self) -> Any:
        """A pending future that can be awaited once; cancelling it is allowed."""

    def resolve(self, future: Any, value: Any) -> None:
        """Give the future its result; nothing happens when it has one or was cancelled."""

    def reject(self, future: Any, error: BaseException) -> None:
        """As :meth:`resolve`, with an exception."""

    def is_done(self, future: Any) -> bool:
        """Has the future a result, or was it cancelled?"""

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Start a coroutine; returns the framework's awaitable.  The framework reports a failure that is never looked at."""

    def connect(self, connector: TransportConfiguration, handler: LinkHandler, timeout: float) -> Awaitable[Link]:
        """Open a link within ``timeout`` seconds.  Raises ``NotConnectedError`` with the reason; ``ValueError`` for bad parameters."""

    def open_broadcast(self, endpoint: Endpoint, received: Callable[[bytes, str], None] | None) -> BroadcastLink:
        """Send to and listen on ``endpoint``; ``received`` gets the bytes of each datagram, and the address of its sender for messages.

        ``received`` None: only send.  A sender may receive its own datagrams.  Raises ``NotConnectedError`` when the system refuses,
        ``ValueError`` for an endpoint or a stack file that cannot be used; both say why.
        """

    def random_bytes(self, size: int) -> bytes: ...

    def random_below(self, limit: int) -> int:
        """A random integer from 0 to ``limit`` - 1."""

    def log_failure(self, text: str, error: BaseException) -> None:
        """An exception that no caller can get: of a listener, of a background task."""

    def log_warning(self, text: str) -> None: ...


class HasRuntime(Protocol):
    @property
    def runtime(self) -> Runtime: ...


H = TypeVar("H", bound=HasRuntime)


def starts(function: Callable[Concatenate[H, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[H, P], Awaitable[T]]:
    """Make a coroutine method start when it is called and return the framework's awaitable."""

    def start(self: H, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self.runtime.spawn(function(self, *args, **kwargs))

    functools.update_wrapper(start, function)
    return start


async def wait_at_most(runtime: Runtime, future: Any, seconds: float | None, error: BaseException) -> Any:
    """The result of ``future``; after ``seconds`` (None: no limit) it is rejected with ``error``."""
    if seconds is None:
        return await future
    fired = False

    def expire() -> None:
        nonlocal fired
        fired = True
        runtime.reject(future, error)

    timer = runtime.call_later(seconds, expire)
    try:
        return await future
    finally:
        if not fired:
            timer.cancel()


class Waiters:
    """Callers that wait until something may have changed; each looks for itself when it goes on."""

    __slots__ = ("_runtime", "waiting")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.waiting: dict[Any, None] = {}
        """The futures of these callers, in the order in which they came."""

    def add(self) -> Any:
        """The future of one more, for :meth:`wake`."""
        future = self._runtime.create_future()
        self.waiting[future] = None
        return future

    async def wait(self, seconds: float | None = None, late: BaseException | None = None) -> Any:
        """Wait for :meth:`wake`, and give its value.  After ``seconds`` (None: no limit) raises ``late``, else ``TimeoutError``."""
        future = self.add()
        try:
            return await wait_at_most(self._runtime, future, seconds, late or TimeoutError())
        finally:
            self.waiting.pop(future, None)

    def wake(self, value: Any = None) -> None:
        """Let all go on that wait now."""
        waiting, self.waiting = self.waiting, {}
        for future in waiting:
            self._runtime.resolve(future, value)


async def sleep(runtime: Runtime, seconds: float) -> None:
    """Wait; cancelling the awaiting call ends the wait."""
    future = runtime.create_future()
    timer = runtime.call_later(seconds, runtime.resolve, future, None)
    finished = False
    try:
        await future
        finished = True
    finally:
        if not finished:
            timer.cancel()


async def next_turn(runtime: Runtime) -> None:
    """Let other work have its turn of the loop."""
    turn = runtime.create_future()
    runtime.call_soon(runtime.resolve, turn, None)
    await turn


class Mutex:
    """Lets one caller at a time in, in the order of arrival."""

    __slots__ = ("_free", "_handing_on", "_runtime", "_waiters", "held")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.held = False
        """Would the next caller have to wait?"""
        self._free = False
        self._handing_on = False
        self._waiters: deque[Any] = deque()

    async def __aenter__(self) -> None:
        if not self.held:
            self.held = True
            return
        future = self._runtime.create_future()
        self._waiters.append(future)
        entered = False
        try:
            await future
            entered = True
        finally:
            if not entered:
                # Cancelled: the turn may have been handed over just before.
                try:
                    self._waiters.remove(future)
                except ValueError:
                    self._release()

    async def __aexit__(self, *exc_info: object) -> None:
        self._release()

    def _release(self) -> None:
        # A waiter may be done with its turn before resolve() returns.  A loop, since a thousand waiters would be too deep a recursion.
        self._free = True
        if self._handing_on:
            return
        self._handing_on = True
        try:
            while self._free and self._waiters:
                self._free = False
                self._runtime.resolve(self._waiters.popleft(), None)
        finally:
            self._handing_on = False
        if self._free:
            self.held = self._free = False


def new_uuid(runtime: Runtime) -> str:
    """A random UUID text in the form of version 1, as the broker's Java code expects ids."""
    return format_uuid(new_user_id(runtime))


def new_user_id(runtime: Runtime) -> bytes:
    """16 random bytes with the version bits that Java readers force on them."""
    raw = bytearray(runtime.random_bytes(16))
    raw[6] = raw[6] & 0x0F | 0x10
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


def format_uuid(raw: bytes) -> str:
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
