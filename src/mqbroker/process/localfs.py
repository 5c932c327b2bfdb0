"""The file system of this machine.  With :mod:`mqbroker.process.threads` the only place where storage meets the operating system."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mqbroker.process.disk_errors import located

_FLOCK = struct.Struct("hhqqi4x")
"""``struct flock``: type, whence, start, length, pid."""

_LOCK_PAUSE_SECONDS = 0.005
"""Between two attempts to lock a file that others hold for a moment only."""


def _opened(path: str) -> int:
    """The descriptor of a file, which is made where there is none."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise located(error, path) from error


class LocalFile:
    """See :class:`mqbroker.storage.disk.filesystem.File`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = _opened(path)

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        try:
            written = os.pwrite(self._descriptor, data, offset)
            while written < len(data):
                more = os.pwrite(self._descriptor, memoryview(data)[written:], offset + written)
                if not more:
                    raise OSError(errno.EIO, "nothing was written")
                written += more
        except OSError as error:
            raise located(error, self._path, len(data)) from error

    def write_soon(self, offset: int, data: bytes | bytearray | memoryview) -> Callable[[], object]:
        return partial(self._write_and_sync, offset, data)

    def _write_and_sync(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        self.write(offset, data)
        self.sync()

    def allocate(self, size: int) -> None:
        try:
            os.posix_fallocate(self._descriptor, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise located(error, self._path, size) from error

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise located(error, self._path) from error

    def close(self) -> None:
        os.close(self._descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file as a whole: a crash, also of the machine, leaves the old or the new one.  Mode and owner stay; a link stays a link.

    A file that is not there yet can be read by its owner only.
    """
    target = path.resolve()
    temporary = target.with_name(target.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        if target.exists():
            old = target.stat()
            with contextlib.suppress(PermissionError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    temporary.replace(target)
    LocalFileSystem().sync_directory(str(target.parent))


def _locked(descriptor: int) -> bool:
    """Lock the whole file, unless somebody holds it.  After an error the file is closed."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        os.close(descriptor)
        raise
    return True


class LocalLock:
    """An open-file-description lock.

    Unlike a POSIX lock it also holds against others in this process, and survives that another descriptor of the file is closed.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


class LocalFileSystem:
    """See :class:`mqbroker.storage.disk.filesystem.FileSystem`."""

    def open(self, path: str) -> LocalFile:
        return LocalFile(path)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        if size < 0:
            with open(path, "rb") as file:
                file.seek(offset)
                return file.read()
        # A chunk of a large message: without the objects of Python's own files.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(descriptor, size, offset)
            while len(data) < size and (more := os.pread(descriptor, size - len(data), offset + len(data))):
                data += more
            return data
        finally:
            os.close(descriptor)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def make_directory(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise located(error, os.fsdecode(error.filename or path)) from error

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def rename_new(self, old: str, new: str) -> None:
        os.link(old, new)
        os.unlink(old)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str, patience: float = 0.0) -> LocalLock | None:
        descriptor = _opened(path)
        end = time.monotonic() + patience
        while not _locked(descriptor):
            if time.monotonic() >= end:
                os.close(descriptor)
                return None
            time.sleep(_LOCK_PAUSE_SECONDS)
        return LocalLock(descriptor)
