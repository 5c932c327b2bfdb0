"""Salvage of a damaged journal into a new one (``mqbroker data recover``).

Every frame whose checksum holds is taken, in order, whatever stands between.  What an unreadable frame said is lost: messages in it, and
acknowledgements in it, so that messages which were consumed may come again.
"""

from __future__ import annotations

import os
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.status import CommandError
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.disk.diskwriter import Done, Step, run_steps
from mqbroker.storage.errors import StorageError
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.files.recover import recovered_of, refill, salvage_state
from mqclient.storageformat.replay import State

WRITE_SIZE: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Loss:
    """A place that could not be read: bytes ``start`` to ``end`` of ``file``, and the message ids that can be made out in it."""

    file: str
    start: int
    end: int
    message_ids: tuple[int, ...]

    def __str__(self) -> str:
        ids = ", ".join(map(str, self.message_ids)) or "none could be identified"
        return f"{self.file}: bytes {self.start} to {self.end} cannot be read; message ids: {ids}"


@dataclass(slots=True)
class Salvage:
    """What could be read."""

    state: State = field(default_factory=State)
    losses: list[Loss] = field(default_factory=list)
    node_id: bytes = bytes(16)
    missing_bodies: list[int] = field(default_factory=list)
    """Ids of large messages whose body is lost, and which are left out therefore."""
    without_queue: list[int] = field(default_factory=list)
    """Ids of messages of which a queue is not known any more, and which are left out there therefore."""
    without_branch: list[int] = field(default_factory=list)
    """Ids of messages that were sent in a prepared XA branch which is not known any more, and which are left out therefore."""
    without_page: list[int] = field(default_factory=list)
    """Ids of messages in pages that nothing which can be read of the journal counts, and which are left out therefore."""


def salvage(folders: DataFolders) -> Salvage:
    """Read what can be read of both journals.  Changes nothing."""
    saved = salvage_state(LocalFileSystem(), folders.settings())
    return Salvage(
        saved.state,
        [Loss(loss.file, loss.offset, loss.offset + loss.size, loss.message_ids) for loss in saved.losses],
        saved.node_id or bytes(16),
        list(saved.missing_bodies),
        saved.without_queue,
        saved.without_branch,
        saved.without_page,
    )


def write_journal(found: Salvage, source: DataFolders, target: DataFolders, unwritten_max: int = WRITE_SIZE) -> None:
    """Write what was read into a new store in empty folders, with copies of the large bodies; it is on the disk when this returns.

    ``unwritten_max`` is how many bytes gather before they are written and synced.
    Empties ``found.state``.  Raises :class:`CommandError` when the store cannot be made or written.
    """
    file_system = LocalFileSystem()
    here = _Here()
    failures: list[str] = []
    store = FileStore(target.settings(), file_system, here, here, os.urandom, failures.append)
    try:
        store.open(str(uuid.UUID(bytes=found.node_id)) if any(found.node_id) else None)
        store.load(max(found.state.id_limit, 1))
    except (StorageError, OSError) as error:
        raise CommandError(f"{target.journal}: {error}") from error
    recovered = recovered_of(file_system, source.settings(), found.state)
    refill(recovered, store, lambda: here.run() if store.backlog > unwritten_max else None)
    store.stop(lambda: None)
    here.run()
    if failures:
        raise CommandError(f"{target.journal}: {failures[0]}")


class _Here:
    """A disk writer and a clock for one command: nothing runs beside it, so that :meth:`run` does all that is due, in order."""

    def __init__(self) -> None:
        self._due: deque[Callable[[], object]] = deque()

    def run(self) -> None:
        while self._due:
            self._due.popleft()()

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
