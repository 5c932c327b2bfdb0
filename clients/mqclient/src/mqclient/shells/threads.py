"""Objects of the blocking shell that several threads use: consumers' buffers and the threads that run listeners.

Source: the Artemis manual, chapter "Using JMS" (one thread per session runs its listeners).
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol

from mqclient.core.consuming.buffers import PriorityBuffer
from mqclient.core.message import ClientMessage
from mqclient.core.runtime import Runtime

_log = logging.getLogger(__name__)


class ReactorThread(Protocol):
    """The reactor's thread, as consumers and producers in other threads see it."""

    reactor: Any
    """Twisted's."""

    @property
    def runtime(self) -> Runtime: ...

    @property
    def usable(self) -> bool:
        """Does the reactor run, in this process?"""

    def call(self, function: Callable[..., Any], *args: Any, timeout: int | None = None, **kwargs: Any) -> Any:
        """Run ``function`` in the reactor's thread and wait for its result."""

    def post(self, function: Callable[..., Any], *args: Any) -> None:
        """Run ``function`` in the reactor's thread, without waiting."""

    def check(self) -> None:
        """Raise why a call cannot wait here."""

    def check_process(self) -> None:
        """Raise why nothing can be done in this process."""


class SharedBuffer:
    """A consumer's buffer that the reactor's thread fills and application threads empty."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._buffer = PriorityBuffer()
        self._paused = False
        self.closed = False
        self.arrived: Callable[[], None] | None = None
        """Called for each message that comes in, and as often as there are messages when delivery resumes."""

    def __len__(self) -> int:
        return len(self._buffer)

    @property
    def paused(self) -> bool:
        return self._paused

    def put(self, message: ClientMessage) -> None:
        with self._condition:
            self._buffer.put(message)
            self._condition.notify()
        if self.arrived is not None:
            self.arrived()

    def pop(self) -> ClientMessage | None:
        with self._condition:
            return self._buffer.pop()

    def wait(self, timeout: float | None) -> ClientMessage | None:
        """The next message, waiting at most ``timeout`` seconds; None when the time is over or the consumer was closed."""
        with self._condition:
            self._condition.wait_for(lambda: self.closed or (len(self._buffer) and not self._paused), timeout)
            return self._buffer.pop()

    def clear(self) -> list[ClientMessage]:
        with self._condition:
            return self._buffer.clear()

    def close(self) -> None:
        with self._condition:
            self.closed = True
            self._buffer.clear()
            self._condition.notify_all()

    def pause(self) -> None:
        with self._condition:
            self._paused = True
            self._buffer.pause()

    def resume(self) -> None:
        with self._condition:
            self._paused = False
            self._buffer.resume()
            self._condition.notify_all()
            waiting = len(self._buffer)
        if self.arrived is not None:
            for _ in range(waiting):
                self.arrived()


class Dispatcher:
    """One thread that runs all listeners of a session, one message at a time."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, function: Callable[..., Any], *args: Any) -> None:
        """Run ``function(*args)`` in the dispatcher's thread, in order (completion listeners, exception listeners)."""
        with self._lock:
            if self._closed:
                return
            self._jobs.put((function, args))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mqclient-listeners", daemon=True)
                self._thread.start()

    def in_thread(self) -> bool:
        """Is the calling thread the dispatcher's?"""
        return self._thread is threading.current_thread()

    def wait_idle(self, timeout: int) -> bool:
        """Wait at most ``timeout`` ms until no listener runs; False when one still does.  In the dispatcher's own thread: True at once."""
        if self.in_thread():
            return True
        if not self._running.acquire(timeout=timeout / 1000):
            return False
        self._running.release()
        return True

    def close(self, timeout: int) -> bool:
        """Stop; waits at most ``timeout`` ms for a running listener.  False when it still runs."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self._jobs.put(None)
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout / 1000)
        return not thread.is_alive()

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None or self._closed:
                return
            function, args = job
            with self._running:
                try:
                    function(*args)
                except BaseException as error:  # also sys.exit(): this thread is the session's, and the next message needs it
                    _log.error("a listener failed", exc_info=error)
