"""The threads of the broker process, and how they wake each other.

Both directions wake by a descriptor (an eventfd, elsewhere a pipe).  The disk thread sleeps in a read: with the lock of a queue it goes
to sleep a second time, until the loop lets go of the interpreter, which costs about 50 µs for each batch.  The loop finds the other one
among its sockets, and so does what follows from a write right there, not after the reactor's own waker and its timers.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.interfaces import IReactorFDSet, IReadDescriptor
from twisted.logger import Logger
from zope.interface import implementer

from mqbroker.storage.disk.diskwriter import Done, Step, run_steps

log = Logger(namespace="mqbroker")

_ONE = (1).to_bytes(8, sys.byteorder)
"""The bytes that add one to an eventfd; a pipe takes any bytes."""

CLOSE_SECONDS = 10.0
"""How long the end of a thread waits for what was submitted: a disk or a server that has gone may hold it up for ever."""


class _Signal:
    """Wakes a thread or a loop that waits for :meth:`fileno` to be readable."""

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self._read_end = self._write_end = os.eventfd(0, os.EFD_CLOEXEC)
        else:
            self._read_end, self._write_end = os.pipe()
            os.set_blocking(self._write_end, False)

    def fileno(self) -> int:
        return self._read_end

    def send(self) -> None:
        try:
            os.write(self._write_end, _ONE)
        except BlockingIOError:
            pass  # a full pipe wakes as well

    def wait(self) -> None:
        """Wait for a :meth:`send` since the last return.  Several calls of it may end one wait, or several."""
        os.read(self._read_end, len(_ONE))

    def close(self) -> None:
        os.close(self._read_end)
        if self._write_end != self._read_end:
            os.close(self._write_end)


@implementer(IReadDescriptor)
class _Handback:
    """Runs calls of another thread on the loop, in order."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._signal = _Signal()
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._closed = False
        reactor.addReader(self)

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Call ``function`` on the loop; for another thread."""
        self._calls.append((function, args))
        self._signal.send()

    def fileno(self) -> int:
        return -1 if self._closed else self._signal.fileno()

    def logPrefix(self) -> str:
        return "disk"

    def doRead(self) -> None:
        self._signal.wait()
        calls = self._calls
        while calls:
            function, args = calls.popleft()
            try:
                function(*args)
            except Exception:
                log.failure("a call that the disk thread handed to the loop raised")

    def connectionLost(self, reason: object) -> None:
        """Required by the reactor."""

    def close(self) -> None:
        """Close, after the last :meth:`call`; the reactor makes the calls that are left."""
        if not self._closed:
            self._reactor.removeReader(self)
            self._closed = True
            self._signal.close()
            while self._calls:
                function, args = self._calls.popleft()
                self._reactor.callFromThread(function, *args)


class ThreadedDiskWriter:
    """One daemon thread that runs file operations; see :class:`mqbroker.storage.disk.diskwriter.DiskWriter`.

    ``call_from_thread(function, *args)`` calls on the event loop; it is used once per batch.
    """

    def __init__(self, call_from_thread: Callable[..., object], name: str = "mqbroker-disk") -> None:
        self._call_from_thread = call_from_thread
        self._batches: deque[tuple[Sequence[Step], Done] | None] = deque()
        self._name = name
        self._thread: threading.Thread | None = None
        self._signal: _Signal | None = None
        self._handback: _Handback | None = None
        self._hangs = False
        self._submitted = 0
        self._run_through = 0
        """Batches whose steps have run; counted by the thread."""

    @classmethod
    def of_reactor(cls, reactor: Any, run: Callable[..., object]) -> ThreadedDiskWriter:
        """A writer that calls ``run(done, error)`` on the loop of ``reactor``."""
        if not IReactorFDSet.providedBy(reactor) or sys.platform == "win32":
            return cls(lambda function, *args: reactor.callFromThread(run, function, *args))
        handback = _Handback(reactor)
        writer = cls(lambda function, *args: handback.call(run, function, *args))
        writer._handback = handback
        return writer

    @property
    def idle(self) -> bool:
        return self._run_through == self._submitted

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        signal = self._signal
        if signal is None:
            signal = self._signal = _Signal()
            self._thread = threading.Thread(target=self._run, args=(signal, self._batches), name=self._name, daemon=True)
            self._thread.start()
        self._submitted += 1
        self._batches.append((steps, done))
        signal.send()

    def stop(self) -> None:
        """Wait until every submitted batch has run, and end the thread; a later :meth:`submit` starts another thread.

        A thread that has not done so after CLOSE_SECONDS is left to itself.
        """
        if self._thread is not None and self._signal is not None:
            self._batches.append(None)
            self._signal.send()
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                self._hangs, self._batches = True, deque()
                log.error("the thread {name} does not end: its work hangs for {seconds:g} s", name=self._name, seconds=CLOSE_SECONDS)
            else:
                self._signal.close()
            self._thread = self._signal = None

    def close(self) -> bool:
        """:meth:`stop`, for good.  Returns whether everything has run."""
        self.stop()
        if self._handback is not None and not self._hangs:  # a thread that hangs may still use it
            self._handback.close()
            self._handback = None
        return not self._hangs

    def _run(self, signal: _Signal, batches: deque[tuple[Sequence[Step], Done] | None]) -> None:
        while True:
            signal.wait()
            while batches:
                batch = batches.popleft()
                if batch is None:
                    return
                steps, done = batch
                error = run_steps(steps)
                self._run_through += 1
                self._call_from_thread(done, error)
