"""The core client for programs with threads: calls that wait.

The reactor runs in a thread of its own, or is the process's reactor if that runs already.  Messages that have arrived wait in a buffer that
application threads read directly; their acknowledgements and credits are posted to the reactor in batches.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from inspect import isawaitable
from typing import Any, BinaryIO, TypeVar

from twisted.internet.defer import Deferred
from twisted.python import threadable
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from mqclient.core.api import ClientSession, LocatorSettings
from mqclient.core.factories.locator import Locator
from mqclient.core.message import ClientMessage
from mqclient.errors import IllegalStateError, MQError, NotConnectedError, OperationTimeoutError
from mqclient.protocol.discovery import DiscoveryGroupConfiguration
from mqclient.shells.blocking_consumers import Consumer
from mqclient.shells.blocking_sends import Sender
from mqclient.shells.host import HostRuntime, make_locator
from mqclient.shells.threads import Dispatcher, SharedBuffer
from mqclient.twisted import TwistedRuntime
from mqclient.wire.primitives import TransportConfiguration

T = TypeVar("T")
_START_TIMEOUT_SECONDS = 10.0
_GRACE_SECONDS = 1.0
_GRACE_TURN_SECONDS = 0.05
"""Time that running calls may go on when the reactor stops, and the interval of looking whether they have ended."""
_FLUSH_SECONDS = 2.0
"""Time that a program which ends waits for its last posted messages to be written."""


class _Process:
    """The one thing that belongs to the process and not to a connection: which reactor runs in it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.runner: Runner | None = None
        self.lost_reactor: Any = None
        # A lock that another thread holds at the moment of a fork would be held for ever in the child.
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self._end)

    def _forked(self) -> None:
        self.lock = threading.Lock()
        # The reactor's flag says that it runs, but its thread does not exist in the child.
        self.lost_reactor = _running_reactor()

    def reactor(self) -> Any:
        """The process's reactor if it runs, else None."""
        reactor = _running_reactor()
        return None if reactor is self.lost_reactor else reactor

    def _end(self) -> None:
        runner = self.runner
        if runner is not None and runner.usable:
            runner.flush(_FLUSH_SECONDS)


_process = _Process()
_STOPPED = "the reactor of this process has stopped"


def get_runner() -> Runner:
    """The process's runner: on the process's reactor while that runs, else on a reactor of its own in a daemon thread.

    After a fork a new one is made.
    """
    with _process.lock:
        runner = _process.runner
        if runner is None or not runner.usable:
            runner = _process.runner = Runner(_process.reactor())
        return runner


def _running_reactor() -> Any:
    # Not imported: importing it would choose one.
    reactor = sys.modules.get("twisted.internet.reactor")
    return reactor if getattr(reactor, "running", False) else None


class _LoggingRuntime(TwistedRuntime):
    """Logs where programs without Twisted look: with ``logging``."""

    log_failure = HostRuntime.log_failure
    log_warning = HostRuntime.log_warning


class Runner:
    """Runs core calls in the thread of a reactor and waits for them; made by :func:`get_runner`.

    Every method raises ``IllegalStateError`` in the reactor's own thread (it would wait for itself) and in a process forked since.
    """

    def __init__(self, reactor: Any) -> None:
        """``reactor``: a running reactor; None starts one in a daemon thread, without signal handlers."""
        self._pid = os.getpid()
        self._ended = False
        self._own = reactor is None
        self._lock = threading.Lock()
        self._jobs: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._scheduled = False
        self._outcomes: set[_Outcome] = set()
        self._buffers: weakref.WeakSet[SharedBuffer] = weakref.WeakSet()
        self._thread_id: int | None = None
        self.reactor: Any = _start_reactor() if reactor is None else reactor
        self.reactor.callFromThread(self._watch_shutdown)
        self.runtime = _LoggingRuntime(self.reactor)

    @property
    def usable(self) -> bool:
        return not self._ended and self._pid == os.getpid()

    def locator(
        self, connectors: Sequence[TransportConfiguration] | DiscoveryGroupConfiguration, settings: LocatorSettings | None = None
    ) -> Locator:
        """A locator whose awaitables belong to this runner: use them only through :meth:`call` and :meth:`post`."""
        return make_locator(self.runtime, connectors, settings)

    def call(self, function: Callable[..., Any], *args: Any, timeout: int | None = None, **kwargs: Any) -> Any:
        """Run ``function(*args, **kwargs)`` in the reactor's thread, wait, and return its result or raise its exception.

        ``timeout`` in ms, None: no limit beyond the core's own; when it is over the call is cancelled and ``OperationTimeoutError`` is
        raised.  KeyboardInterrupt in the waiting thread cancels the call.
        """
        self.check()
        outcome = _Outcome()
        self._submit(self._run, (outcome, function, args, kwargs))
        try:
            finished = outcome.done.wait(None if timeout is None else timeout / 1000)
        except BaseException:
            self._submit(outcome.cancel, ())
            raise
        if not finished:
            self._submit(outcome.cancel, ())
            raise OperationTimeoutError(f"the call was not finished within {timeout} ms")
        if outcome.error is not None:
            raise outcome.error
        return outcome.result

    def post(self, function: Callable[..., Any], *args: Any) -> None:
        """Run ``function(*args)`` in the reactor's thread soon, in the order of posts and calls; exceptions are logged."""
        self.check_process()
        self._submit(self._run_posted, (function, args))

    def create_consumer(
        self,
        session: ClientSession,
        queue_name: str,
        filter_string: str | None = None,
        *,
        priority: int = 0,
        browse_only: bool = False,
        window_size: int | None = None,
        max_rate: int | None = None,
    ) -> Consumer:
        settings = session.factory.settings
        rate = settings.consumer_max_rate if max_rate is None else max_rate
        buffer = SharedBuffer()
        self._buffers.add(buffer)
        consumer = self.call(
            session.create_consumer,
            queue_name,
            filter_string,
            priority=priority,
            browse_only=browse_only,
            window_size=window_size,
            max_rate=-1,
            buffer=buffer,
        )
        return Consumer(self, consumer, buffer, rate, settings.block_on_acknowledge)

    def dispatcher(self, session: ClientSession) -> Dispatcher:
        """A dispatcher for the listeners of ``session``; its thread starts with the first one.

        The caller keeps one per session, and closes it.
        """
        return Dispatcher()

    def sender(self, session: ClientSession) -> Sender:
        """The sending side of ``session``; the caller keeps one per session."""
        return Sender(self, session)

    def read_body(self, message: ClientMessage, timeout: int | None = None) -> bytes:
        """The whole plain body of a received message, large or not; ``timeout`` as in :meth:`call`."""
        if message.large is None:
            return message.plain_body()
        body: bytes = self.call(message.large.read, timeout=timeout)
        return body

    def save_body(self, message: ClientMessage, file: BinaryIO, timeout: int | None = None) -> None:
        """Write the plain body of a received message to ``file``; ``timeout`` as in :meth:`call`, for each piece."""
        large = message.large
        if large is None:
            file.write(message.plain_body())
            return
        # The file is written in this thread: a slow disk must not hold up the reactor.
        chunks = large.__aiter__()
        try:
            while (chunk := self.call(_next_chunk, chunks, timeout=timeout)) is not None:
                file.write(chunk)
        except BaseException:
            if self.usable:
                self.post(large.discard)
            raise

    def flush(self, seconds: float) -> None:
        """Wait until all posted work is done and written, at most ``seconds``."""
        if self.in_reactor_thread():
            return
        written = threading.Event()
        # Sockets are written in the turn after the one in which the data was handed over.
        self._submit(self.reactor.callLater, (0, self.reactor.callLater, 0, written.set))
        written.wait(seconds)

    def in_reactor_thread(self) -> bool:
        """Is the calling thread the reactor's?"""
        if self._thread_id is not None:
            return threading.get_ident() == self._thread_id
        return not self._own and bool(threadable.isInIOThread())  # type: ignore[no-untyped-call]

    # --- inside ---

    def check(self) -> None:
        """Raise why a call cannot wait here."""
        self.check_process()
        if self.in_reactor_thread():
            raise IllegalStateError(
                "a blocking call in the reactor's thread would wait for itself; use mqclient.twisted there, or deferToThread"
            )

    def check_process(self) -> None:
        """Raise why nothing can be done in this process."""
        if self._pid != os.getpid():
            raise IllegalStateError("the connection was opened before the process forked; open a new one in the child process")
        if self._ended:
            raise NotConnectedError(_STOPPED)

    def _submit(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        with self._lock:
            if self._ended:
                raise NotConnectedError(_STOPPED)
            self._jobs.append((function, args))
            if self._scheduled:
                return
            self._scheduled = True
        self.reactor.callFromThread(self._drain)

    def _drain(self) -> None:
        with self._lock:
            jobs, self._jobs = self._jobs, deque()
            self._scheduled = False
        for function, args in jobs:
            function(*args)

    def _run(self, outcome: _Outcome, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if outcome.cancelled:
            return
        self._outcomes.add(outcome)
        try:
            result = function(*args, **kwargs)
        except Exception as error:  # every error belongs to the caller
            self._finish(outcome, None, error)
            return
        if isawaitable(result) and not isinstance(result, Deferred):
            result = Deferred.fromCoroutine(_awaited(result))
        if not isinstance(result, Deferred):
            self._finish(outcome, result, None)
            return
        outcome.deferred = result
        result.addCallbacks(
            lambda value: self._finish(outcome, value, None),
            lambda failure: self._finish(outcome, None, failure.value),
        )

    def _finish(self, outcome: _Outcome, result: Any, error: BaseException | None) -> None:
        self._outcomes.discard(outcome)
        outcome.finish(result, error)

    def _run_posted(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            result = function(*args)
        except Exception as error:  # no caller waits for this call
            self.runtime.log_failure("a posted call failed", error)
        else:
            if isinstance(result, Deferred):
                result.addErrback(self._posted_failed)

    def _posted_failed(self, failure: Failure) -> None:
        assert failure.value is not None
        self.runtime.log_failure("a posted call failed", failure.value)

    def _watch_shutdown(self) -> None:
        self._thread_id = threading.get_ident()
        # Before the reactor's own threads are joined, since they may be waiting here.
        self.reactor.addSystemEventTrigger("before", "shutdown", self._shut_down)

    def _shut_down(self) -> Deferred[None]:
        """End all waits for messages, give calls a moment to end, then fail the rest."""
        for buffer in list(self._buffers):
            buffer.close()
        ended: Deferred[None] = Deferred()
        # A thread that has just been let go may have something to finish.
        self.reactor.callLater(_GRACE_TURN_SECONDS, self._end_when_idle, self.runtime.now() + _GRACE_SECONDS, ended)
        return ended

    def _end_when_idle(self, deadline: float, ended: Deferred[None]) -> None:
        idle = not (self._outcomes or self._jobs)
        if not idle and self.runtime.now() < deadline:
            self.reactor.callLater(_GRACE_TURN_SECONDS, self._end_when_idle, deadline, ended)
            return
        self._end()
        ended.callback(None)

    def _end(self) -> None:
        with self._lock:
            self._ended = True
            jobs, self._jobs = self._jobs, deque()
        # These jobs will not run any more: fail those that a thread waits for.
        for _, args in jobs:
            if args and isinstance(args[0], _Outcome):
                self._outcomes.add(args[0])
        for outcome in list(self._outcomes):
            self._finish(outcome, None, NotConnectedError(_STOPPED))
        for buffer in list(self._buffers):
            buffer.close()


class _Outcome:
    """The result of a call, between the threads."""

    __slots__ = ("cancelled", "deferred", "done", "error", "result")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self.deferred: Deferred[Any] | None = None
        self.cancelled = False

    def finish(self, result: Any, error: BaseException | None) -> None:
        self.result = result
        self.error = error
        self.done.set()

    def cancel(self) -> None:
        """In the reactor's thread: the caller no longer waits."""
        self.cancelled = True
        if self.deferred is not None and not self.done.is_set():
            self.deferred.cancel()


class _DaemonPool(ThreadPool):
    """Threads (for name look-ups) that do not keep the process from ending."""

    threadFactory = functools.partial(threading.Thread, daemon=True)  # type: ignore[assignment]


def _start_reactor() -> Any:
    reactor = _new_reactor()
    # Connections must not drop when the wall clock is set.
    reactor.seconds = time.monotonic
    pool = _DaemonPool(0, 4, "mqclient-names")
    reactor.threadpool = pool
    pool.start()
    started = threading.Event()
    reactor.callWhenRunning(started.set)
    threading.Thread(target=lambda: reactor.run(installSignalHandlers=False), name="mqclient-reactor", daemon=True).start()
    if not started.wait(_START_TIMEOUT_SECONDS):
        raise MQError(f"the reactor's thread did not start within {_START_TIMEOUT_SECONDS:g} s")
    return reactor


def _new_reactor() -> Any:
    # An object of its own, not the process's: it is not installed, and a forked child can make another.
    try:
        from twisted.internet.epollreactor import EPollReactor

        return EPollReactor()  # type: ignore[no-untyped-call]
    except ImportError:
        from twisted.internet.selectreactor import SelectReactor

        return SelectReactor()


async def _next_chunk(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


async def _awaited(awaitable: Any) -> Any:
    return await awaitable
