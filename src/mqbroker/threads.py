"""The threads of the broker process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

from mqbroker.storage.diskwriter import Done, Step, run_steps


class ThreadedDiskWriter:
    """One daemon thread that runs file operations; see :class:`mqbroker.storage.diskwriter.DiskWriter`.

    ``call_from_thread(function, *args)`` calls on the event loop; it is used once per batch.
    """

    def __init__(self, call_from_thread: Callable[..., object], name: str = "mqbroker-disk") -> None:
        self._call_from_thread = call_from_thread
        self._batches: queue.SimpleQueue[tuple[Sequence[Step], Done] | None] = queue.SimpleQueue()
        self._name = name
        self._thread: threading.Thread | None = None

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._batches.put((steps, done))

    def stop(self) -> None:
        """Wait until everything submitted has run, and end the thread; a later :meth:`submit` starts a new one."""
        if self._thread is not None:
            self._batches.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            steps, done = batch
            self._call_from_thread(done, run_steps(steps))
