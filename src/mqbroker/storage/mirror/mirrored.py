"""A file system that tells of its changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol

from mqbroker.storage.disk.filesystem import File, FileLock, FileSystem
from mqbroker.storage.mirror.changes import (
    Allocate,
    Change,
    Close,
    MakeDirectory,
    RemoveDirectory,
    Sync,
    SyncDirectory,
    Write,
)
from mqbroker.storage.mirror.roots import Roots


class Sink(Protocol):
    """Whom a :class:`MirroredFileSystem` tells.

    It is told under the lock of the file system, by the thread that makes the change, and neither blocks nor raises.  Paths are mirrored
    ones.
    """

    def attached(self, open_files: Mapping[int, str | None]) -> None:
        """The following changes are told.  These handles are open, each with its path, None when nothing has that file's name any more."""

    def tell(self, change: Change) -> int:
        """A change of a file or directory, but none of those below.  Returns its number."""

    def tell_before(self, write: Write) -> int:
        """The loop has this write and its sync made next.  Returns the number of the sync; :meth:`flush` follows."""

    def flush(self) -> None:
        """For the loop, without the lock: what was told may go on its way now."""

    def opened(self, handle: int, path: str, new: bool) -> None:
        """A file was opened, ``new`` if it was created by that."""

    def renamed(self, old: str, new: str) -> None: ...

    def removed(self, path: str) -> None: ...

    def synced(self, number: int) -> None:
        """The sync with this number has ended here."""


class MirroredFile:
    """See :class:`mqbroker.storage.disk.filesystem.File`."""

    __slots__ = ("_handle", "_inner", "_owner")

    def __init__(self, owner: MirroredFileSystem, inner: File, handle: int) -> None:
        self._owner = owner
        self._inner = inner
        self._handle = handle

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        with self._owner.lock_of_changes:
            sink = self._owner.sink
            if sink is not None:
                sink.tell(Write(self._handle, offset, data))
            self._inner.write(offset, data)

    def write_soon(self, offset: int, data: bytes | bytearray | memoryview) -> Callable[[], object]:
        step = self._inner.write_soon(offset, data)
        with self._owner.lock_of_changes:
            sink = self._owner.sink
            if sink is None:
                return step
            number = sink.tell_before(Write(self._handle, offset, data))
        sink.flush()
        return partial(_run_and_tell, step, sink, number)

    def allocate(self, size: int) -> None:
        with self._owner.lock_of_changes:
            sink = self._owner.sink
            if sink is not None:
                sink.tell(Allocate(self._handle, size))
            self._inner.allocate(size)

    def sync(self) -> None:
        self._owner.sync(Sync(self._handle), self._inner)

    def close(self) -> None:
        self._inner.close()
        self._owner.closed(self._handle)


def _run_and_tell(step: Callable[[], object], sink: Sink, number: int) -> None:
    step()
    sink.synced(number)


class _Directory:
    """A directory, as something to sync."""

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self._file_system = file_system
        self._path = path

    def sync(self) -> None:
        self._file_system.sync_directory(self._path)


class _Syncable(Protocol):
    def sync(self) -> None: ...


class MirroredFileSystem:
    """A file system over ``inner`` whose changes below ``roots`` a sink hears of, in the order in which they happen.

    Writes and syncs are told before they are done, so that a network runs beside the disk; what concerns names is told after that, if it
    succeeded.  ``lock`` keeps each change together with what is told of it: nearly all are made by the disk writer's thread, and some
    chunks of large messages by the loop.  Only a write of :meth:`MirroredFile.write_soon` is told by the loop and made by the thread,
    which has nothing else to do before it.  Files of the broker itself (``server.lock`` and what else tells who is active) are not told of.
    """

    def __init__(self, inner: FileSystem, roots: Roots, lock: AbstractContextManager[object]) -> None:
        self.inner = inner
        self.roots = roots
        self.lock_of_changes = lock
        self.sink: Sink | None = None
        self._paths: dict[int, str | None] = {}
        """The mirrored path of each open file by its handle; None when it was removed or replaced."""
        self._handle = 0

    # For whoever listens.

    def attach(self, sink: Sink) -> None:
        """Tell ``sink`` from now on; ended by :meth:`detach`.  Raises ValueError when somebody else is told."""
        with self.lock_of_changes:
            if self.sink is not None:
                raise ValueError("the changes of this file system are told to another one")
            self.sink = sink
            sink.attached(self._paths)

    def detach(self, sink: Sink) -> None:
        with self.lock_of_changes:
            if self.sink is sink:
                self.sink = None

    def new_handle(self) -> int:
        """A handle that no file has had; the lock of changes is held."""
        self._handle += 1
        return self._handle

    # The file system.

    def open(self, path: str) -> File:
        mirrored = self.roots.mirrored(path)
        if mirrored is None:
            return self.inner.open(path)
        with self.lock_of_changes:
            sink = self.sink
            new = sink is not None and not self.inner.exists(path)
            file = self.inner.open(path)
            handle = self.new_handle()
            self._paths[handle] = mirrored
            if sink is not None:
                sink.opened(handle, mirrored, new)
        return MirroredFile(self, file, handle)

    def make_directory(self, path: str) -> None:
        mirrored = self.roots.mirrored(path)
        with self.lock_of_changes:
            self.inner.make_directory(path)
            if mirrored is not None and self.sink is not None:
                self.sink.tell(MakeDirectory(mirrored))

    def remove_directory(self, path: str) -> None:
        mirrored = self.roots.mirrored(path)
        with self.lock_of_changes:
            self.inner.remove_directory(path)
            if mirrored is not None and self.sink is not None:
                self.sink.tell(RemoveDirectory(mirrored))

    def rename(self, old: str, new: str) -> None:
        with self.lock_of_changes:
            names = self._both(old, new)
            self.inner.rename(old, new)
            self._renamed(names)

    def rename_new(self, old: str, new: str) -> None:
        with self.lock_of_changes:
            names = self._both(old, new)
            self.inner.rename_new(old, new)
            self._renamed(names)

    def remove(self, path: str) -> None:
        mirrored = self.roots.mirrored(path)
        with self.lock_of_changes:
            self.inner.remove(path)
            if mirrored is not None:
                self._move_handles(mirrored, None)
                if self.sink is not None:
                    self.sink.removed(mirrored)

    def sync_directory(self, path: str) -> None:
        mirrored = self.roots.mirrored(path)
        directory = _Directory(self.inner, path)
        if mirrored is None:
            directory.sync()
        else:
            self.sync(SyncDirectory(mirrored), directory)

    def lock(self, path: str, patience: float = 0.0) -> FileLock | None:
        return self.inner.lock(path, patience)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        return self.inner.read(path, offset, size)

    def size(self, path: str) -> int:
        return self.inner.size(path)

    def list(self, directory: str) -> list[str]:
        return self.inner.list(directory)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    # For its files.

    def sync(self, change: Sync | SyncDirectory, what: _Syncable) -> None:
        """The lock is free while ``what`` is synced, which takes long and changes nothing."""
        with self.lock_of_changes:
            sink = self.sink
            number = 0 if sink is None else sink.tell(change)
        what.sync()
        if sink is not None:
            sink.synced(number)

    def closed(self, handle: int) -> None:
        with self.lock_of_changes:
            del self._paths[handle]
            if self.sink is not None:
                self.sink.tell(Close(handle))

    def _both(self, old: str, new: str) -> tuple[str, str] | None:
        names = self.roots.mirrored(old), self.roots.mirrored(new)
        if names[0] is not None and names[1] is not None:
            return names[0], names[1]
        if names[0] is names[1]:
            return None
        raise ValueError(f"{old} cannot become {new}: one of them is mirrored, the other one is not")

    def _renamed(self, names: tuple[str, str] | None) -> None:
        if names is None or names[0] == names[1]:
            return
        old, new = names
        self._move_handles(new, None)
        self._move_handles(old, new)
        if self.sink is not None:
            self.sink.renamed(old, new)

    def _move_handles(self, old: str, new: str | None) -> None:
        for handle, path in self._paths.items():
            if path == old:
                self._paths[handle] = new
