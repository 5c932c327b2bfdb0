"""A loop on ``selectors`` that runs only while a caller turns it: without threads, signal handlers, or other changes to the process."""

from __future__ import annotations

import heapq
import itertools
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from mqclient.shells.sockets_tasks import Future, Task

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE
READ_BUFFER = 256 * 1024
"""Bytes that one call takes from a socket at most."""
_CANCELLED_MAX = 100
"""Cancelled timers that may be kept, when they are more than the others: each call to a broker sets one of half a minute."""


class Timer:
    """Implements :class:`mqclient.core.runtime.Timer`."""

    __slots__ = ("_loop", "args", "function")

    def __init__(self, loop: Loop, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._loop = loop
        self.function: Callable[..., object] | None = function
        self.args = args

    def cancel(self) -> None:
        if self.function is not None:
            self.function = None
            self.args = ()
            self._loop.timer_cancelled()


class Loop:
    """``failed`` gets exceptions that no caller can get, with a text that says where."""

    def __init__(self, failed: Callable[[str, BaseException], None]) -> None:
        self.failed = failed
        self.tasks: set[Task[Any]] = set()
        self.closed = False
        self.buffer = memoryview(bytearray(READ_BUFFER))
        """Memory that sockets are read into; belongs to the link that reads just now."""
        self._selector = selectors.DefaultSelector()
        self._ready: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._last: list[Callable[[], object]] = []
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._cancelled = 0
        self._timers_from = 0.0
        self._wake: tuple[socket.socket, socket.socket] | None = None

    # --- work for later

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Call in the next turn."""
        self._ready.append((function, args))

    def call_last(self, function: Callable[[], object]) -> None:
        """Call at the end of this turn, or of the next when none is under way."""
        self._last.append(function)

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(self, function, args)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), timer))
        return timer

    def hold_timers(self, seconds: float) -> None:
        """Call no timer for ``seconds``: data that came while the loop stood still is read before a timeout can fire."""
        self._timers_from = time.monotonic() + seconds

    def timer_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > _CANCELLED_MAX and self._cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2].function is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def call_from_thread(self, function: Callable[..., object], *args: Any) -> None:
        """As :meth:`call_soon`, from any thread; dropped when the loop is closed.  :meth:`accept_threads` must have been called."""
        if not self.closed and self._wake is not None:
            self._ready.append((function, args))
            try:
                self._wake[1].send(b"\0")
            except OSError:
                pass  # it is full, and so the loop wakes up; or just being closed

    def accept_threads(self) -> None:
        """From now on :meth:`call_from_thread` works."""
        if self._wake is None:
            self._wake = socket.socketpair()
            for end in self._wake:
                end.setblocking(False)
            self.watch(self._wake[0], READ, self._woken)

    def _woken(self, events: int) -> None:
        assert self._wake is not None
        try:
            while len(self._wake[0].recv(4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    # --- sockets

    def watch(self, watched: socket.socket, events: int, told: Callable[[int], object]) -> None:
        """Call ``told`` with the events that a socket is ready for, in every such turn; replaces an earlier watch of that socket."""
        try:
            self._selector.modify(watched, events, told)
        except KeyError:
            self._selector.register(watched, events, told)

    def forget(self, watched: socket.socket) -> None:
        """Watch it no more; nothing happens when it was not."""
        try:
            self._selector.unregister(watched)
        except (KeyError, ValueError):
            pass

    def ready(self, watched: socket.socket, events: int) -> Future[None]:
        """A future that is done when the socket is ready.  The caller always has to call `forget` afterwards."""
        future = Future[None](self)
        self.watch(watched, events, lambda _: future.set_result(None))
        return future

    # --- turning

    @property
    def idle(self) -> bool:
        """Can nothing happen any more by itself?"""
        return not (self._ready or self._last or self._timers or self._selector.get_map())

    @property
    def busy(self) -> bool:
        """Is there something to do without waiting?"""
        return bool(self._ready or self._last)

    def turn(self, wait: float | None) -> None:
        """Wait at most ``wait`` seconds (None: as long as it takes) for something to do, and do it: sockets, then timers, then the rest."""
        if self._last:
            self.finish_turn()
        if self._ready:
            wait = 0.0
        elif self._timers:
            left = max(max(self._timers[0][0], self._timers_from) - time.monotonic(), 0.0)
            wait = left if wait is None else min(wait, left)
        for key, events in self._selector.select(wait):
            self._call(key.data, (events,))
        if self._timers:
            self._call_timers()
        ready = self._ready
        for _ in range(len(ready)):
            self._call(*ready.popleft())
        if self._last:
            self.finish_turn()

    def finish_turn(self) -> None:
        """Run the calls put off to the end of the turn."""
        last, self._last = self._last, []
        for function in last:
            self._call(function, ())

    def _call_timers(self) -> None:
        now = time.monotonic()
        if now < self._timers_from:
            return
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            function, args = timer.function, timer.args
            if function is None:
                self._cancelled -= 1
            else:
                timer.function, timer.args = None, ()
                self._call(function, args)

    def _call(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            function(*args)
        except Exception as error:  # one defect must not stop other work
            self.failed("a call in the loop of plain sockets failed", error)

    def close(self) -> None:
        self.closed = True
        self._ready.clear()
        self._last.clear()
        self._timers.clear()
        self._selector.close()
        if self._wake is not None:
            for end in self._wake:
                end.close()
