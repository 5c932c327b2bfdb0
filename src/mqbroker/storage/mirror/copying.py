"""A copy of all files in the stream of changes, while they change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.mirror.changes import Allocate, Begin, Change, Close, MakeDirectory, Open, Remove, Rename, Sync, SyncDirectory, Write
from mqbroker.storage.mirror.mirrored import MirroredFileSystem
from mqbroker.storage.mirror.outgoing import Outgoing
from mqbroker.storage.mirror.roots import LOST_AND_FOUND, check_path

PIECE = 256 * 1024
"""Bytes of files that are read in one step."""
FILE_COST = 16 * 1024
"""As how many bytes a file counts besides its content: a step has few files, too."""
FILES_PER_STEP = 500
"""Files whose sizes are asked for in one step."""
SYNC_BYTES = 16 * 1024 * 1024
"""Bytes of one file after which the replica syncs them, so that no sync at the end takes long."""


class Copy:
    """The sink of one replica.  Changes are told at once, and between them the files are copied, piece by piece.

    A file that the replica does not have yet is left out of what is told: it is copied later as it is by then.  As soon as the replica
    has a file of that name, also an empty one, everything about it is told; a piece that is copied after that has the same bytes.  So no
    removal waits for the copy, and nothing that was removed is copied.

    All of this runs under the lock of the file system, whose ``inner`` one is read.
    """

    def __init__(self, mirrored: MirroredFileSystem, outgoing: Outgoing) -> None:
        self.done = 0
        """Bytes copied."""
        self.all = 0
        """Bytes of all files, as far as they were looked at."""
        self.end = 0
        """The number of the change with which the copy is complete and durable; 0 before that."""
        self._mirrored = mirrored
        self._inner: FileSystem = mirrored.inner
        self._roots = mirrored.roots
        self._outgoing = outgoing
        self._handles: set[int] = set()
        """Files that the replica has open."""
        self._known: set[str] = set()
        """Files of which the replica has the name, as long as it does not have all."""
        self._whole: set[str] = set()
        """Open files of which the replica has everything."""
        self._left: dict[str, int] = {}
        """Files that are to be copied, with their sizes, 0 as long as that is not known."""
        self._current: str | None = None
        """The present name of the file that is being copied; None when it is gone."""
        self._steps = self._work()

    def step(self) -> None:
        """Go on with the copy, for a few milliseconds; a step of the disk writer."""
        next(self._steps, None)

    # The sink.

    def attached(self, open_files: Mapping[int, str | None]) -> None:
        put = self._outgoing.put
        put(Begin())
        for directory in self._directories():
            put(MakeDirectory(directory))
        for handle, path in open_files.items():
            if path is not None:
                self._open(handle, path)

    def tell(self, change: Change) -> int:
        if isinstance(change, Write | Sync | Allocate | Close) and change.handle not in self._handles:
            return self._outgoing.number
        if isinstance(change, Close):
            self._handles.remove(change.handle)
        return self._outgoing.put(change)

    def tell_before(self, write: Write) -> int:
        if write.handle not in self._handles:
            return self._outgoing.number
        return self._outgoing.put_all((write, Sync(write.handle)))

    def flush(self) -> None:
        self._outgoing.flush()

    def opened(self, handle: int, path: str, new: bool) -> None:
        self._open(handle, path)
        if new and not self.end:
            self._whole.add(path)

    def renamed(self, old: str, new: str) -> None:
        if self.end or old in self._known:
            self._outgoing.put(Rename(old, new))
        elif new in self._known:
            self._outgoing.put(Remove(new))
        if self.end:
            return
        self._forget(new)
        known, whole, current = old in self._known, old in self._whole, old == self._current
        size = self._left.get(old, 0)
        self._forget(old)
        if known:
            self._known.add(new)
        if whole:
            self._whole.add(new)
        elif current:
            self._current = new
        else:
            self._left[new] = size
            self.all += size

    def removed(self, path: str) -> None:
        if self.end or path in self._known:
            self._outgoing.put(Remove(path))
        self._forget(path)

    def synced(self, number: int) -> None:
        self._outgoing.sync_ended(number)

    # The copy.

    def _open(self, handle: int, path: str) -> None:
        self._outgoing.put(Open(handle, path))
        self._handles.add(handle)
        if not self.end:
            self._known.add(path)

    def _forget(self, path: str) -> None:
        """No file has this name any more."""
        self._known.discard(path)
        self._whole.discard(path)
        self.all -= self._left.pop(path, 0)
        if path == self._current:
            self._current = None

    def _directories(self) -> list[str]:
        directories = []
        for root in self._roots:
            directories.append(root)
            if self._roots.has_folders(root):
                directories += self._names(root)
        return directories

    def _names(self, directory: str) -> list[str]:
        """The mirrored paths of what is in a directory."""
        try:
            names = self._inner.list(self._roots.path(directory))
        except NotADirectoryError:  # a file of somebody else, where folders are expected
            return []
        return [path for path in (f"{directory}/{name}" for name in names if name != LOST_AND_FOUND) if _is_mirrored(path)]

    def _work(self) -> Iterator[None]:
        """Yields when others may use the disk."""
        lock = self._mirrored.lock_of_changes
        with lock:
            directories = self._directories()
        for directory in directories:
            if directory not in self._roots or not self._roots.has_folders(directory):
                with lock:
                    for path in self._names(directory):
                        if path not in self._whole:
                            self._left.setdefault(path, 0)
                yield
        yield from self._measure()
        spent = 0
        while self._left:
            for size in self._copy_first():
                self.done += size
                spent += size
                if spent >= PIECE:
                    spent = 0
                    yield
            spent += FILE_COST
        with lock:
            self._finish()

    def _measure(self) -> Iterator[None]:
        for number, path in enumerate(list(self._left)):
            if number % FILES_PER_STEP == FILES_PER_STEP - 1:
                yield
            with self._mirrored.lock_of_changes:
                if path in self._left:
                    try:
                        size = self._inner.size(self._roots.path(path))
                    except FileNotFoundError:
                        del self._left[path]
                        continue
                    self.all += size - self._left[path]
                    self._left[path] = size

    def _copy_first(self) -> Iterator[int]:
        """Copy one of the files that are left; yields the bytes of each piece."""
        put, lock = self._outgoing.put, self._mirrored.lock_of_changes
        with lock:
            path = next(iter(self._left))
            size = self._left.pop(path)
            try:
                piece = self._inner.read(self._roots.path(path), 0, PIECE)
            except (FileNotFoundError, IsADirectoryError):  # of somebody else: what is ours goes through this file system
                self.all -= size
                return
            self._current = path
            handle = self._mirrored.new_handle()
            self._open(handle, path)
            put(Write(handle, 0, piece))
        offset = len(piece)
        yield len(piece)
        while len(piece) == PIECE:
            with lock:
                if self._current is None:
                    break
                piece = self._inner.read(self._roots.path(self._current), offset, PIECE)
                put(Write(handle, offset, piece))
                offset += len(piece)
                if not offset % SYNC_BYTES:
                    put(Sync(handle))
            yield len(piece)
        with lock:
            if self._current is not None:
                put(Sync(handle))
                self._whole.add(self._current)
                self._current = None
            self._handles.remove(handle)
            put(Close(handle))

    def _finish(self) -> None:
        """Everything is there: from now on each change is told."""
        for directory in self._directories():
            self._outgoing.put(SyncDirectory(directory))
        self.end = self._outgoing.number
        self._known.clear()
        self._whole.clear()


def _is_mirrored(path: str) -> bool:
    try:
        check_path(path)
    except ValueError:
        return False
    return True
