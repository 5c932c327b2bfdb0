"""The file system as storage needs it, and nothing more.

Paths are strings.  Every method raises OSError when it fails.  Nothing written is durable before ``File.sync``; no name that was created,
renamed or removed is durable before ``sync_directory`` of its directory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mqclient.storageformat.files import Files
from mqclient.storageformat.files import join as join


class File(Protocol):
    """An open file, for the disk writer's thread and the loop alike."""

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """All of ``data`` at ``offset``; beyond the end the file grows."""

    def write_soon(self, offset: int, data: bytes | bytearray | memoryview) -> Callable[[], object]:
        """A step that writes all of ``data`` at ``offset`` and syncs: nothing else is changed before it runs.

        Asked by the loop.  A mirror, which repeats the changes of this file system elsewhere, hears of this one at once.
        """

    def allocate(self, size: int) -> None:
        """Reserve room up to ``size`` bytes, which read as zeros until they are written."""

    def sync(self) -> None:
        """Bytes written before, and the size, are on the disk when this returns.  After a failure nothing about the file is known."""

    def close(self) -> None: ...


class FileLock(Protocol):
    """A lock that is held until it is released or the process ends."""

    def release(self) -> None: ...


class FileSystem(Files, Protocol):
    def open(self, path: str) -> File:
        """Open for writing; the file is created when it does not exist."""

    def make_directory(self, path: str) -> None:
        """Create it, and those above it, unless it exists."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty one."""

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces ``new``."""

    def rename_new(self, old: str, new: str) -> None:
        """As :meth:`rename`, but raises FileExistsError when there is ``new``.  A crash may leave the file with both names."""

    def remove(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def lock(self, path: str, patience: float = 0.0) -> FileLock | None:
        """An exclusive lock on the whole file, which is created when it does not exist; None when somebody holds it ``patience`` seconds
        from now.

        It excludes other processes and other holders in this one, and whoever locks byte ranges as Java's ``FileLock`` does.
        """
