"""Locks and state of a shared store in its folder, and the epoch that fences former holders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mqbroker.ha.shared_store.place import HeldUpError
from mqbroker.storage.disk.epoch import Epoch
from mqbroker.storage.disk.filesystem import FileLock, FileSystem, join
from mqbroker.storage.disk.nodelock import BACKUP_LOCK_FILE, LOCK_FILE, PRIMARY_LOCK_FILE, NodeLock
from mqbroker.storage.errors import FencedError, StorageError, StoreLockedError


class FolderLocks:
    """Implements :class:`mqbroker.ha.shared_store.place.Locks`."""

    def __init__(self, file_system: FileSystem, directory: str, entropy: Callable[[int], bytes]) -> None:
        self.name = join(directory, LOCK_FILE)
        self._file_system = file_system
        self._directory = directory
        self._lock = NodeLock(file_system, directory)
        self._epoch = Epoch(file_system, directory, entropy)
        self._held: dict[str, FileLock] = {}
        """By their names."""

    @property
    def token(self) -> str:
        return self._epoch.token

    @property
    def epoch(self) -> int:
        return self._epoch.number

    def open(self) -> None:
        """Refuse a file system whose locks do not exclude anybody."""
        path = join(self._directory, "server.lock.test")
        first = self._file_system.lock(path)
        if first is None:
            return  # somebody is here for the same reason
        try:
            second = self._file_system.lock(path)
            if second is not None:
                second.release()
                raise StorageError(f"{self._directory}: locks do not exclude others on this file system, so that brokers cannot share it")
        finally:
            first.release()

    # --- the state

    def node_id(self) -> str:
        with _held_up():
            return self._lock.node_id() or ""

    def make_node_id(self, missing: Callable[[], str]) -> str:
        with _held_up():
            return self._lock.make_node_id(missing)

    def state(self) -> bytes:
        with _held_up():
            return self._lock.state()

    def write_state(self, state: bytes) -> None:
        with _held_up():
            self._lock.write_state(state)

    # --- the locks

    def lock(self) -> bool:
        return self._try(PRIMARY_LOCK_FILE)

    def unlock(self) -> None:
        self._release(PRIMARY_LOCK_FILE)

    def queue(self) -> bool:
        return BACKUP_LOCK_FILE in self._held or self._try(BACKUP_LOCK_FILE)

    def leave_queue(self) -> None:
        self._release(BACKUP_LOCK_FILE)

    def close(self) -> None:
        """Nothing stays open but locks."""

    def _try(self, name: str) -> bool:
        """As Artemis does it, who cannot ask for a lock asks again later."""
        try:
            lock = self._file_system.lock(join(self._directory, name))
        except OSError as error:
            raise HeldUpError(str(error)) from error
        if lock is not None:
            self._held[name] = lock
        return lock is not None

    def _release(self, name: str) -> None:
        lock = self._held.pop(name, None)
        if lock is not None:
            lock.release()

    # --- of the holder

    def begin(self) -> None:
        self._epoch.begin()

    def check(self) -> None:
        self._epoch.check()

    def check_lock(self) -> None:
        again = self._file_system.lock(join(self._directory, PRIMARY_LOCK_FILE))
        if again is not None:
            again.release()
            raise FencedError(f"{self._directory}: the lock of {PRIMARY_LOCK_FILE} is lost")
        if not self._file_system.exists(self.name):
            raise FencedError(f"{self.name} is gone")


@contextmanager
def _held_up() -> Iterator[None]:
    try:
        yield
    except StoreLockedError as error:
        raise HeldUpError(str(error)) from error
