"""The passive side: changes of another broker's files, repeated in the own folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mqbroker.storage.disk.diskwriter import DiskWriter, Step
from mqbroker.storage.disk.filesystem import File, FileSystem
from mqbroker.storage.mirror.changes import (
    Allocate,
    Begin,
    BrokenStreamError,
    Buffer,
    Change,
    ChangeDecoder,
    Close,
    MakeDirectory,
    Open,
    Remove,
    RemoveDirectory,
    Rename,
    Sync,
    SyncDirectory,
    Write,
)
from mqbroker.storage.mirror.roots import Roots

WAITING_MAX = 768 * 1024 * 1024
"""Bytes of changes that may wait for the disk of a replica; an active broker gives a replica up before it is so far behind."""


class ReplicaFolder:
    """Repeats one stream of changes below ``roots``; the next stream needs a new one.

    ``begin`` is what the disk writer does first, when a copy begins: after it the folders are there, and empty (see
    :func:`mqbroker.storage.mirror.former.empty_folders`).  ``answer(number)``: the changes up to this one are done, and as durable as they
    were synced.  ``failed(reason)`` is called once; nothing is done or answered any more then.
    """

    def __init__(
        self,
        file_system: FileSystem,
        roots: Roots,
        writer: DiskWriter,
        begin: Step,
        answer: Callable[[int], object],
        failed: Callable[[str], object],
    ) -> None:
        self._file_system = file_system
        self._roots = roots
        self._writer = writer
        self._begin = begin
        self._answer = answer
        self._failed = failed
        self._decoder = ChangeDecoder()
        self._taken = 0
        self._done = 0
        """Bytes of the stream, up to the end of a change."""
        self._closed = False
        self._files: dict[int, File] = {}
        """Belongs to the disk writer, as does the following one."""
        self._broken = False
        """A change could not be made: those that follow are not."""
        self._makers: dict[type[Any], Callable[[Any], object]] = {
            Begin: lambda change: self._begin(),
            MakeDirectory: lambda change: self._file_system.make_directory(self._roots.path(change.path)),
            RemoveDirectory: lambda change: self._file_system.remove_directory(self._roots.path(change.path)),
            SyncDirectory: lambda change: self._file_system.sync_directory(self._roots.path(change.path)),
            Rename: lambda change: self._file_system.rename(self._roots.path(change.old), self._roots.path(change.new)),
            Remove: lambda change: self._file_system.remove(self._roots.path(change.path)),
            Open: self._open,
            Allocate: lambda change: self._files[change.handle].allocate(change.size),
            Write: lambda change: self._files[change.handle].write(change.offset, change.data),
            Sync: lambda change: self._files[change.handle].sync(),
            Close: lambda change: self._files.pop(change.handle).close(),
        }

    @property
    def waiting(self) -> int:
        """Bytes that were taken and are not done yet.  A caller that takes them from a network may stop reading while they are many."""
        return self._taken - self._done

    def take(self, data: Buffer) -> None:
        """The next bytes of the stream, which do not change afterwards."""
        if self._closed:
            return
        self._taken += len(data)
        if self.waiting > WAITING_MAX:
            self._give_up(f"{self.waiting} bytes of changes wait for the disk, and {WAITING_MAX} are allowed")
            return
        changes: list[Change] = []
        try:
            for change in self._decoder.feed(data):
                changes.append(change)
                if isinstance(change, Sync | SyncDirectory):
                    # Each sync is answered for itself.
                    self._submit(changes)
                    changes = []
        except BrokenStreamError as error:
            self._give_up(str(error))
        if changes:
            self._submit(changes)

    def close(self, done: Callable[[], object]) -> None:
        """Nothing is taken or answered any more.  ``done`` is called when all that was taken is done, and the files are closed."""
        self._closed = True
        self._writer.submit([self._close_files], lambda error: done())

    def _submit(self, changes: Sequence[Change]) -> None:
        decoder = self._decoder
        self._writer.submit([partial(self._make, changes)], partial(self._made, decoder.number, decoder.consumed))

    def _make(self, changes: Sequence[Change]) -> None:
        """Make these changes in their order; a step of the disk writer."""
        if self._broken:
            return
        self._broken = True
        for change in changes:
            self._makers[type(change)](change)
        self._broken = False

    def _open(self, change: Open) -> None:
        self._files[change.handle] = self._file_system.open(self._roots.path(change.path))

    def _made(self, number: int, consumed: int, error: Exception | None) -> None:
        if self._closed:
            return
        if error is not None:
            self._give_up(f"the changes of the active broker cannot be repeated here: {error}")
            return
        self._done = consumed
        self._answer(number)

    def _close_files(self) -> None:
        while self._files:
            self._files.popitem()[1].close()

    def _give_up(self, reason: str) -> None:
        self._closed = True
        self._failed(reason)
