"""A disk in memory that forgets what was not synced.

The model is the weakest that a POSIX file system allows.  Of the writes since the last sync of a file any subset is on the disk after a
crash, each whole, cut short, or with some of its sectors missing; of the names created, renamed or removed since the last sync of their
directory any subset.  A rename is atomic.  All chance comes from the ``random.Random`` that is passed in.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from dataclasses import dataclass, field

SECTOR = 512

_Write = tuple[int, bytes, str]
"""Offset, data, and the machine whose cache it is in."""

DISK_FAILS = "input/output error"
"""What a disk says that a test makes fail."""


class SimulatedCrash(BaseException):
    """The machine stopped in the middle of a file operation.  Not an Exception: production code must not catch it."""


@dataclass(eq=False)
class Inode:
    content: bytearray = field(default_factory=bytearray)
    """What the process reads."""
    durable: bytearray = field(default_factory=bytearray)
    pending: list[_Write] = field(default_factory=list)
    """Writes since the last sync."""
    forgotten: list[_Write] = field(default_factory=list)
    """Writes before a failed sync: they may be on the disk, and no later sync brings them there unless they are written again."""
    maker: int = 0
    """For a test that looks at who has made a file."""

    def copy(self) -> Inode:
        return Inode(self.content[:], self.durable[:], self.pending[:], self.forgotten[:])


@dataclass
class _Change:
    """A change of a directory since it was synced: ``new`` names the file now, ``old`` does not any more."""

    old: str | None
    new: str | None
    inode: Inode | None


@dataclass
class _Fault:
    operation: str
    error: OSError
    after: int


class SimulatedFile:
    """See :class:`mqbroker.storage.disk.filesystem.File`."""

    def __init__(self, disk: SimulatedDisk, inode: Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._path = path
        self._life = disk.life
        self.closed = False

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        self._check()
        self._disk.write(self._inode, self._path, offset, bytes(data))

    def write_soon(self, offset: int, data: bytes | bytearray | memoryview) -> Callable[[], object]:
        content = bytes(data)

        def write_and_sync() -> None:
            self.write(offset, content)
            self.sync()

        return write_and_sync

    def allocate(self, size: int) -> None:
        self._check()
        missing = size - len(self._inode.content)
        if missing > 0:
            self._disk.write(self._inode, self._path, len(self._inode.content), bytes(missing))

    def sync(self) -> None:
        self._check()
        self._disk.sync(self._inode, self._path)

    def close(self) -> None:
        self._check()
        self.closed = True
        self._disk.open_files -= 1

    def _check(self) -> None:
        if self.closed:
            raise ValueError(f"{self._path} was closed")
        if self._life != self._disk.life:
            raise AssertionError(f"{self._path} was opened before the crash")


class SimulatedLock:
    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._life = disk.life

    def release(self) -> None:
        if self._life == self._disk.life:
            self._disk.unlock(self._path)


class SimulatedDisk:
    """See :class:`mqbroker.storage.disk.filesystem.FileSystem`.

    ``crash_after`` operations that change something the next one is done by half, and :class:`SimulatedCrash` is raised; None = never.
    With ``crash_in`` only operations of that kind count ("write", "sync", "rename", …).  ``on_crash`` is told just before, so that nothing
    that the dying process still does is taken for real.  ``capacity`` is the room in
    bytes; None = enough.

    With ``shared`` this is the same disk as a process of another ``machine`` sees it, as on NFS: everybody reads at once what anybody has
    written, a machine syncs and loses its own writes only, and names are kept by the disk.
    """

    def __init__(
        self, rng: random.Random, capacity: int | None = None, shared: SimulatedDisk | None = None, machine: str = "machine"
    ) -> None:
        self._rng = rng
        self.machine = machine
        self._names: dict[str, Inode] = {} if shared is None else shared._names
        self._durable_names: dict[str, Inode] = {} if shared is None else shared._durable_names
        self._changes: dict[str, list[_Change]] = {} if shared is None else shared._changes
        self._directories: set[str] = set() if shared is None else shared._directories
        self._new_directories: set[str] = set() if shared is None else shared._new_directories
        """Those whose names were not synced."""
        self._locks: dict[str, SimulatedDisk] = {} if shared is None else shared._locks
        """Who holds each lock."""
        self._faults: list[_Fault] = []
        self.capacity = capacity
        self.was_limited = capacity is not None
        self.crash_after: int | None = None
        self.crash_in = ""
        self.on_crash: Callable[[], object] = _nothing
        self.not_removed: set[str] = set() if shared is None else shared.not_removed
        """Files that the next start has to remove: that has failed, or the broker that works with the folder does not know of them."""
        self.life = 0
        self.open_files = 0
        self.operations = 0
        self.failures = 0
        """Operations that failed because a test wanted it, or for want of room."""

    # What storage sees.

    def open(self, path: str) -> SimulatedFile:
        self._may_fail("open")
        inode = self._names.get(path)
        if inode is None:
            inode = Inode()
            self._operation("open")
            self._link(path, inode)
        self.open_files += 1
        return SimulatedFile(self, inode, path)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        self._may_fail("read")
        content = self._inode(path).content
        return bytes(content[offset:] if size < 0 else content[offset : offset + size])

    def size(self, path: str) -> int:
        return len(self._inode(path).content)

    def list(self, directory: str) -> list[str]:
        if directory.rstrip("/") in self._names:
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", directory)
        prefix = directory.rstrip("/") + "/"
        inside = (path.removeprefix(prefix) for path in (*self._names, *self._directories) if path.startswith(prefix))
        return sorted({name for name in inside if "/" not in name})

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._directories or path in ("/", "/data")

    def make_directory(self, path: str) -> None:
        if path not in self._directories:
            self._operation("make_directory")
            self._directories.add(path)
            self._new_directories.add(path)

    def remove_directory(self, path: str) -> None:
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, "directory not empty", path)
        self._directories.discard(path)
        self._new_directories.discard(path)

    def rename(self, old: str, new: str) -> None:
        self._rename(old, new)

    def rename_new(self, old: str, new: str) -> None:
        if new in self._names:
            raise FileExistsError(errno.EEXIST, "file exists", new)
        self._rename(old, new)

    def _rename(self, old: str, new: str) -> None:
        self._may_fail("rename")
        self._operation("rename")
        inode = self._names.pop(old, None)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        self._names[new] = inode
        self._changes.setdefault(_directory(new), []).append(_Change(old, new, inode))

    def remove(self, path: str) -> None:
        try:
            self._may_fail("remove")
        except OSError:
            self.not_removed.add(path)
            raise
        self._operation("remove")
        self._inode(path)
        del self._names[path]
        self._changes.setdefault(_directory(path), []).append(_Change(path, None, None))

    def sync_directory(self, path: str) -> None:
        self._may_fail("sync_directory")
        self._operation("sync_directory")
        path = path.rstrip("/")
        for change in self._changes.pop(path, []):
            self._apply(change)
        self._new_directories -= {each for each in self._new_directories if _directory(each) == path}

    def lock(self, path: str, patience: float = 0.0) -> SimulatedLock | None:
        if path in self._locks:
            return None
        if path not in self._names:
            self._link(path, Inode())
        self._locks[path] = self
        return SimulatedLock(self, path)

    def free_space(self, path: str) -> int:
        return (1 << 40) if self.capacity is None else max(self.capacity - self.used, 0)

    def unlock(self, path: str) -> None:
        """Does nothing when the lock was lost, even if another one has it by now."""
        if self._locks.get(path) is self:
            del self._locks[path]

    # What a test does to it.

    @property
    def locks(self) -> set[str]:
        """The files that anybody has locked."""
        return set(self._locks)

    def lose_locks(self) -> None:
        """Others may have the locks of this process, which is not told."""
        for path in [path for path, holder in self._locks.items() if holder is self]:
            del self._locks[path]

    def fail(self, operation: str, error: OSError, after: int = 0) -> None:
        """Let ``operation`` (write, sync, open, read, rename, remove, sync_directory) fail once, after so many that succeed.

        It stays so until that happens, whichever process it hits, or :meth:`forget_failures`.
        """
        self._faults.append(_Fault(operation, error, after))

    @property
    def used(self) -> int:
        """Bytes of all files."""
        return sum(len(inode.content) for inode in self._names.values())

    def forget_failures(self) -> None:
        """Failures and crashes that were asked for and have not come yet do not come."""
        self._faults.clear()
        self.crash_after = None

    def drop_caches(self) -> None:
        """The system lets go pages whose writing failed: from now on they read as what the disk has."""
        for inode in self._names.values():
            if inode.forgotten:
                self._settle(inode, self.machine)

    def copy(self, rng: random.Random) -> SimulatedDisk:
        """Another disk on which the same was written and synced, that never fails and has its chance from ``rng``."""
        disk = SimulatedDisk(rng)
        inodes: dict[int, Inode] = {}

        def same(inode: Inode) -> Inode:
            if id(inode) not in inodes:
                inodes[id(inode)] = inode.copy()
            return inodes[id(inode)]

        disk._names = {path: same(inode) for path, inode in self._names.items()}
        disk._durable_names = {path: same(inode) for path, inode in self._durable_names.items()}
        for directory, changes in self._changes.items():
            disk._changes[directory] = [_Change(each.old, each.new, None if each.inode is None else same(each.inode)) for each in changes]
        disk._directories = set(self._directories)
        disk._new_directories = set(self._new_directories)
        return disk

    def files(self) -> dict[str, bytes]:
        """The content of every file by its path."""
        return {path: bytes(inode.content) for path, inode in self._names.items()}

    def replace(self, files: dict[str, bytes]) -> None:
        """These files and no others are on the disk."""
        self._changes.clear()
        self._name_all({path: Inode(bytearray(content), bytearray(content)) for path, content in files.items()})

    def flip_bit(self, path: str, offset: int, bit: int = 0) -> None:
        """Damage what is stored."""
        inode = self._inode(path)
        inode.content[offset] ^= 1 << bit
        if offset < len(inode.durable):
            inode.durable[offset] ^= 1 << bit

    def end_process(self) -> None:
        """The process is gone, the machine is not: nothing is lost, nothing becomes durable, locks are free."""
        self.life += 1
        self.lose_locks()
        self.open_files = 0

    def lose_machine(self) -> None:
        """This machine is gone, others that share the disk are not: of what it had not synced some subset is lost or torn."""
        self.end_process()
        for inode in {id(inode): inode for inode in (*self._names.values(), *self._durable_names.values())}.values():
            self._settle(inode, self.machine)

    def crash(self) -> None:
        """The machine is gone, and so are all that share the disk: of what was not synced some subset is lost or torn."""
        self.end_process()
        self._locks.clear()
        rng = self._rng
        for changes in self._changes.values():
            kept = _subset(changes, rng)
            for change in kept:
                self._apply(change)
        self._changes.clear()
        for inode in {id(inode): inode for inode in (*self._names.values(), *self._durable_names.values())}.values():
            self._settle(inode)
        for directory in sorted(self._new_directories):
            if rng.random() < 0.5:
                inside = f"{directory}/"
                self._directories.difference_update([each for each in self._directories if each == directory or each.startswith(inside)])
                for path in [path for path in self._durable_names if path.startswith(inside)]:
                    del self._durable_names[path]
        self._new_directories.clear()
        self._name_all(dict(self._durable_names))
        # One that was removed is back with a file of which the disk does not know that it was removed before.
        self._directories.update(map(_directory, self._names))

    # The disk itself.

    def write(self, inode: Inode, path: str, offset: int, data: bytes) -> None:
        try:
            self._may_fail("write")
        except OSError:
            # A short write, as a failing disk leaves it.
            self._put(inode, offset, data[: self._rng.randrange(len(data) + 1)])
            raise
        if self._operation("write", raises=False):
            data = data[: self._rng.randrange(len(data) + 1)]
            self._put(inode, offset, data)
            raise SimulatedCrash
        room = self.free_space(path) + max(0, min(len(inode.content) - offset, len(data)))
        self._put(inode, offset, data[:room])
        if room < len(data):
            self.failures += 1
            raise OSError(errno.ENOSPC, "no space left on device", path)

    def sync(self, inode: Inode, path: str) -> None:
        try:
            self._may_fail("sync")
        except OSError:
            own, inode.pending = _of(inode.pending, self.machine)
            inode.forgotten += own
            raise
        self._operation("sync")
        own, inode.pending = _of(inode.pending, self.machine)
        for offset, data, _ in own:
            _put(inode.durable, offset, data)
            if inode.forgotten:
                inode.forgotten = [piece for old in inode.forgotten for piece in _outside(old, offset, offset + len(data))]

    def _put(self, inode: Inode, offset: int, data: bytes) -> None:
        if data:
            _put(inode.content, offset, data)
            inode.pending.append((offset, data, self.machine))

    def _settle(self, inode: Inode, machine: str | None = None) -> None:
        """Nothing is cached any more, by this machine or (None) by anybody."""
        forgotten, inode.forgotten = _of(inode.forgotten, machine)
        pending, inode.pending = _of(inode.pending, machine)
        for offset, data, _ in forgotten + pending:
            for start, piece in _torn(data, self._rng):
                _put(inode.durable, offset + start, piece)
        inode.content = bytearray(inode.durable)
        for offset, data, _ in inode.forgotten + inode.pending:
            _put(inode.content, offset, data)

    def _link(self, path: str, inode: Inode) -> None:
        self._names[path] = inode
        self._changes.setdefault(_directory(path), []).append(_Change(None, path, inode))

    def _name_all(self, names: dict[str, Inode]) -> None:
        """These names are on the disk, all of them durable."""
        for known in (self._names, self._durable_names):
            known.clear()
            known.update(names)

    def _apply(self, change: _Change) -> None:
        if change.old is not None:
            self._durable_names.pop(change.old, None)
        if change.new is not None:
            assert change.inode is not None
            self._durable_names[change.new] = change.inode

    def _operation(self, kind: str, raises: bool = True) -> bool:
        """Count an operation; true, or a crash, when it is the one at which the machine stops."""
        self.operations += 1
        if self.crash_after is None or self.crash_in not in ("", kind):
            return False
        if self.crash_after > 0:
            self.crash_after -= 1
            return False
        self.crash_after = None
        self.on_crash()
        if raises:
            raise SimulatedCrash
        return True

    def _may_fail(self, operation: str) -> None:
        for fault in self._faults:
            if fault.operation == operation:
                if fault.after:
                    fault.after -= 1
                else:
                    self._faults.remove(fault)
                    self.failures += 1
                    raise fault.error

    def _inode(self, path: str) -> Inode:
        inode = self._names.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return inode


def _nothing() -> None:
    pass


def _directory(path: str) -> str:
    return path.rpartition("/")[0]


def _put(target: bytearray, offset: int, data: bytes) -> None:
    if len(target) < offset:
        target.extend(bytes(offset - len(target)))
    target[offset : offset + len(data)] = data


def _of(writes: list[_Write], machine: str | None) -> tuple[list[_Write], list[_Write]]:
    """The writes of a machine (None = of all), and the others."""
    if machine is None:
        return writes, []
    return [each for each in writes if each[2] == machine], [each for each in writes if each[2] != machine]


def _outside(piece: _Write, low: int, high: int) -> list[_Write]:
    """The parts of a write that lie before ``low`` and from ``high`` on."""
    offset, data, machine = piece
    parts = [(offset, data[: max(low - offset, 0)], machine), (max(high, offset), data[max(high - offset, 0) :], machine)]
    return [part for part in parts if part[1]]


def _subset(changes: list[_Change], rng: random.Random) -> list[_Change]:
    """Some of the changes, in their order; often all, or only the first ones."""
    match rng.randrange(4):
        case 0:
            return changes
        case 1:
            return changes[: rng.randrange(len(changes) + 1)]
        case _:
            return [change for change in changes if rng.random() < 0.5]


def _torn(data: bytes, rng: random.Random) -> list[tuple[int, bytes]]:
    """What of one write is on the disk: pieces with their offsets in it."""
    match rng.randrange(4):
        case 0:
            return [(0, data)]
        case 1:
            return []
        case 2:
            return [(0, data[: rng.randrange(len(data) + 1)])]
        case _:
            return [(start, data[start : start + SECTOR]) for start in range(0, len(data), SECTOR) if rng.random() < 0.5]
