"""The core client on plain sockets: without threads and reactor, and running only inside calls (decision 13).

For programs that read or write in their own loop, such as the workers of Spark::

    with SocketRuntime() as runtime:
        locator = server_locator("tcp://localhost:61616", runtime=runtime)
        factory = runtime.run(locator.create_session_factory(), timeout=10)
        session = runtime.run(factory.create_session("user", "password"), timeout=10)
        ...
        runtime.run(locator.close(), timeout=10)

Awaitables are tasks of this runtime.  Tasks and connections go on only inside :meth:`SocketRuntime.run` and :meth:`SocketRuntime.pump`: a
program that computes for long in between calls ``pump(0)`` now and then.  A broker that gets no packet for the connection TTL (60 s unless
set) ends the connection; the next call finds that out, and the core connects again by its settings.  Data that arrived during such a pause
is read before timeouts count.  Only looking up host names blocks.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakSet

from mqclient.core.connection.configuration import IN_VM_CONNECTOR
from mqclient.core.discovery.broadcasting import Broadcasts
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import Link, LinkHandler
from mqclient.core.settings import LocatorSettings
from mqclient.errors import IllegalStateError, NotConnectedError, OperationTimeoutError
from mqclient.invm import SERVERS, server_number
from mqclient.protocol.discovery import DiscoveryGroupConfiguration
from mqclient.shells.host import HostRuntime, make_locator
from mqclient.shells.sockets_links import SocketLink, open_link
from mqclient.shells.sockets_loop import Loop, Timer
from mqclient.shells.sockets_network import SocketNetwork
from mqclient.shells.sockets_tasks import Future, Task
from mqclient.wire.primitives import TransportConfiguration

T = TypeVar("T")
_AWAY_SECONDS = 1.0
"""After a longer absence of the caller the bytes that have arrived are read first, before the peer counts as late."""
_CATCH_UP_SECONDS_MAX = 5.0
"""Limit on the time of this reading."""
_TURNS_MAX = 100
"""Turns that work which never waits may take beyond the time it was given."""
CLOSE_SECONDS = 5.0
"""Time that closing waits for peers to take the bytes that were written to them."""


def server_locator(
    brokers: str | Sequence[TransportConfiguration] | DiscoveryGroupConfiguration,
    settings: LocatorSettings | None = None,
    *,
    runtime: SocketRuntime,
) -> Locator:
    """A locator for a connection URL, or for connectors or a discovery group and settings.

    Raises ``ValueError`` for a URL or a setting that cannot be used; a URL together with settings is refused.
    """
    return make_locator(runtime, brokers, settings)


class SocketRuntime(HostRuntime):
    """Implements :class:`mqclient.core.runtime.Runtime`.  Belongs to one thread at a time, and to the process that made it."""

    def __init__(self) -> None:
        self.loop = Loop(self.log_failure)
        self._process = os.getpid()
        self._running = False
        self._left = time.monotonic()
        self._links: WeakSet[SocketLink] = WeakSet()
        self._broadcasts = Broadcasts(self, SocketNetwork(self))

    # --- for applications

    def run(self, awaitable: Awaitable[T], timeout: float | None = None) -> T:
        """Turn the loop until ``awaitable`` is done, and return its result or raise its exception.

        ``timeout`` in seconds (None: no limit): when it is over, the call is cancelled and ``OperationTimeoutError`` raised.  Raises
        ``IllegalStateError`` inside another ``run`` or ``pump``, in another process than the one that made the runtime, when the
        runtime is closed, and when nothing can happen any more that would end the wait.
        """
        with self._turning():
            task: Future[T] = awaitable if isinstance(awaitable, Future) else self.spawn(_coroutine(awaitable))
            deadline = None if timeout is None else time.monotonic() + timeout
            try:
                while not task.done():
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        self._cancel(task, OperationTimeoutError(f"the call was not finished within {timeout:g} s"))
                    elif left is None and self.loop.idle:
                        self._cancel(task, IllegalStateError("the call can never end: it waits for no connection and no timer"))
                    else:
                        self.loop.turn(left)
            except BaseException:
                task.cancel()
                raise
            return task.result()

    def pump(self, seconds: float) -> None:
        """Turn the loop for ``seconds``: read answers, send pings, restore connections.  0: do the work that needs no waiting.

        Raises ``IllegalStateError`` as :meth:`run`.
        """
        with self._turning():
            deadline = time.monotonic() + seconds
            beyond = 0
            while beyond < _TURNS_MAX:
                left = deadline - time.monotonic()
                self.loop.turn(max(left, 0.0))
                if left <= 0:
                    beyond += 1
                    if not self.loop.busy:
                        break

    def close(self) -> None:
        """End every connection and call that is left; safe to call twice.  Written data is still sent, within :data:`CLOSE_SECONDS`.

        Close the locators first: only they say goodbye to their brokers.
        """
        if self.loop.closed:
            return
        if os.getpid() == self._process:
            with self._turning():
                deadline = time.monotonic() + CLOSE_SECONDS
                self.loop.turn(0.0)
                while any(link.lingering for link in self._links) and time.monotonic() < deadline:
                    self.loop.turn(deadline - time.monotonic())
                for link in list(self._links):
                    link.abort()
                self._drain()
                for task in list(self.loop.tasks):
                    task.cancel()
                self._drain()
        self.loop.close()

    def __enter__(self) -> SocketRuntime:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    # --- for the core

    def now(self) -> float:
        return time.monotonic()

    def call_later(self, seconds: float, function: Callable[..., Any], *args: Any) -> Timer:
        return self.loop.call_later(seconds, function, *args)

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        self.loop.call_soon(function, *args)

    def create_future(self) -> Any:
        return Future[Any](self.loop)

    def resolve(self, future: Any, value: Any) -> None:
        future.set_result(value)

    def reject(self, future: Any, error: BaseException) -> None:
        future.set_error(error)

    def is_done(self, future: Any) -> bool:
        return bool(future.done())

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Task[T]:
        if self.loop.closed:
            coroutine.close()
            raise NotConnectedError("the runtime of this connection is closed")
        return Task(self.loop, coroutine)

    def connect(self, connector: TransportConfiguration, handler: LinkHandler, timeout: float) -> Awaitable[Link]:
        return self.spawn(self._connect(connector, handler, timeout))

    def add_link(self, link: SocketLink) -> SocketLink:
        """A connection that :meth:`close` shall end."""
        self._links.add(link)
        return link

    # --- inside

    async def _connect(self, connector: TransportConfiguration, handler: LinkHandler, timeout: float) -> Link:
        if connector.factory_class_name == IN_VM_CONNECTOR:
            self.loop.accept_threads()
            return SERVERS.connect(server_number(connector.parameters), self.loop.call_from_thread, handler)
        return self.add_link(await open_link(self, connector, handler, timeout))

    @contextmanager
    def _turning(self) -> Iterator[None]:
        if self.loop.closed:
            raise IllegalStateError("the runtime is closed")
        if os.getpid() != self._process:
            raise IllegalStateError("the runtime was created by another process; after a fork, create a new one")
        if self._running:
            raise IllegalStateError("the runtime is running already: call run and pump in one thread; inside it, await")
        self._running = True
        away = time.monotonic() - self._left
        if away > _AWAY_SECONDS:
            self.loop.hold_timers(min(away, _CATCH_UP_SECONDS_MAX))
        try:
            yield
        finally:
            self.loop.finish_turn()
            self._running = False
            self._left = time.monotonic()

    def _cancel(self, task: Future[Any], error: Exception) -> None:
        """End a call from outside; raises ``error`` unless the call ends otherwise at the last moment."""
        task.cancel()
        self._drain(task)
        if not task.done() or task.failed:
            raise error

    def _drain(self, until: Future[Any] | None = None) -> None:
        for _ in range(_TURNS_MAX):
            if not self.loop.busy or (until is not None and until.done()):
                return
            self.loop.turn(0.0)


def _coroutine(awaitable: Awaitable[T]) -> Coroutine[Any, Any, T]:
    if inspect.iscoroutine(awaitable):
        return awaitable

    async def wait() -> T:
        return await awaitable

    return wait()
