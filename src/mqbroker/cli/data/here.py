"""A store that one command works on, with its clock and its disk writer."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.status import CommandError
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.disk.diskwriter import Done, Step, run_steps
from mqbroker.storage.files.filestore import FileStore


class Here:
    """A disk writer and a clock for one command: nothing runs beside it, so that :meth:`run` does all that is due, in order."""

    def __init__(self) -> None:
        self._due: deque[Callable[[], object]] = deque()

    def run(self) -> None:
        while self._due:
            self._due.popleft()()

    @property
    def idle(self) -> bool:
        return False

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        self._due.append(lambda: done(run_steps(steps)))

    def monotonic(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 0

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> _Call:
        call = _Call(partial(function, *args))
        self._due.append(call.run)
        return call


class _Call:
    def __init__(self, function: Callable[[], object]) -> None:
        self._function: Callable[[], object] | None = function

    def cancel(self) -> None:
        self._function = None

    def run(self) -> None:
        if self._function is not None:
            self._function()


@contextmanager
def written_store(folders: DataFolders) -> Iterator[tuple[FileStore, Here]]:
    """A store, which is not open yet; what was changed is on the disk at the end.  Raises CommandError where it cannot be written."""
    here = Here()
    failures: list[str] = []
    store = FileStore(folders.settings(), LocalFileSystem(), here, here, os.urandom, failures.append)
    yield store, here
    store.stop(lambda: None)
    here.run()
    if failures:
        raise CommandError(f"{folders.journal}: {failures[0]}")
