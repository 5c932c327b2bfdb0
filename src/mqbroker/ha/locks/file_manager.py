"""The lock manager on one shared disk: for tests, and where all brokers reach one folder whose locks exclude.

The lock is a lock on the file with its name, and the number is in ``ML:`` and the name, as a big-endian long, as in Artemis.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from mqbroker.ha.locks.contract import UnavailableError
from mqbroker.storage.disk.filesystem import FileLock, FileSystem, join

FOLDER = "locks-folder"
"""The one property; the folder must exist."""

_NUMBER = struct.Struct(">q")


class FileLockManager:
    """See :class:`mqbroker.ha.locks.contract.LockManager`.  Raises ValueError for properties that are not its own.

    Its locks are never lost: a process that stands still keeps them, and one that has ended writes nothing.
    """

    def __init__(self, properties: Mapping[str, str], file_system: FileSystem) -> None:
        unknown = [name for name in properties if name != FOLDER]
        if unknown:
            raise ValueError(f"the property {unknown[0]} is unknown: expected {FOLDER}")
        if not properties.get(FOLDER):
            raise ValueError(f"the property {FOLDER} is missing: expected a folder that all brokers of the node reach")
        self._folder = properties[FOLDER]
        self._file_system = file_system
        self._held: dict[str, FileLock] = {}

    def start(self, lost: Callable[[str], object]) -> Sequence[str]:
        if not self._file_system.exists(self._folder):
            raise UnavailableError(f"the folder {self._folder} of the lock manager does not exist")
        return ()

    def stop(self) -> None:
        for name in list(self._held):
            self.unlock(name)

    def try_lock(self, name: str) -> bool:
        if name in self._held:
            return True
        try:
            lock = self._file_system.lock(join(self._folder, name))
        except OSError as error:
            raise UnavailableError(str(error)) from error
        if lock is not None:
            self._held[name] = lock
        return lock is not None

    def has_lock(self, name: str) -> bool:
        return name in self._held

    def unlock(self, name: str) -> None:
        lock = self._held.pop(name, None)
        if lock is not None:
            lock.release()

    def number(self, name: str) -> int:
        path = self._path(name)
        try:
            data = self._file_system.read(path) if self._file_system.exists(path) else b""
        except OSError as error:
            raise UnavailableError(str(error)) from error
        if not data:
            return 0
        if len(data) != _NUMBER.size:
            raise UnavailableError(f"{path} is damaged: it has {len(data)} bytes, expected {_NUMBER.size}")
        return int(_NUMBER.unpack(data)[0])

    def change_number(self, name: str, old: int, new: int) -> bool:
        if name not in self._held or self.number(name) != old:
            return False
        try:
            self._write(self._path(name), _NUMBER.pack(new))
        except OSError as error:
            raise UnavailableError(str(error)) from error
        return True

    def _write(self, path: str, data: bytes) -> None:
        """After a crash there is the old number or the new one."""
        file_system, temporary = self._file_system, f"{path}.new"
        file = file_system.open(temporary)
        try:
            file.write(0, data)
            file.sync()
        finally:
            file.close()
        file_system.rename(temporary, path)
        file_system.sync_directory(self._folder)

    def _path(self, name: str) -> str:
        return join(self._folder, f"ML:{name}")
