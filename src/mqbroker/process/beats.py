"""Threads that do one thing again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from twisted.logger import Logger

log = Logger(namespace="mqbroker")


class BeatThread:
    """See :class:`mqbroker.ha.shared_store.lease.Beat`.  The threads are daemons: a process ends without them."""

    def __init__(self) -> None:
        self._stopped: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def start(self, seconds: float, step: Callable[[], object], end: Callable[[], object]) -> None:
        self.stop()
        self._stopped = stopped = threading.Event()
        # The last step of a former thread may still be under way.
        arguments = self._thread, stopped, seconds, step, end
        self._thread = threading.Thread(target=self._run, args=arguments, name="mqbroker-beat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._stopped is not None:
            self._stopped.set()
            self._stopped = None

    @staticmethod
    def _run(
        former: threading.Thread | None,
        stopped: threading.Event,
        seconds: float,
        step: Callable[[], object],
        end: Callable[[], object],
    ) -> None:
        if former is not None:
            former.join()
        try:
            due = time.monotonic() + seconds
            while not stopped.wait(max(0.0, due - time.monotonic())):
                due = max(due, time.monotonic()) + seconds
                step()
        except Exception:
            log.failure("a thread that repeats one thing has ended")
        finally:
            end()
