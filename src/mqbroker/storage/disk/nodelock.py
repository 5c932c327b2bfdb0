"""``server.lock``: who uses this folder, and the node id (Artemis manual, chapter on high availability, shared store).

Layout: byte 0 the state, bytes 1 and 2 ``'0'``, bytes 3 to 18 the node id.  Each read and write of the state holds a lock on
that file for a moment; the broker that is active holds the one on ``serverlock.1`` as long as it lives, and where brokers share the folder
the backup that is next holds the one on ``serverlock.2``.  A state of ``L`` without a holder says that the active broker died.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar

from mqbroker.storage.disk.filesystem import FileLock, FileSystem, join
from mqbroker.storage.errors import StoreLockedError

_T = TypeVar("_T")

LOCK_FILE = "server.lock"
PRIMARY_LOCK_FILE = "serverlock.1"
BACKUP_LOCK_FILE = "serverlock.2"

STATE_ACTIVE = b"L"
STATE_FAILING_BACK = b"F"
STATE_PAUSED = b"P"
STATE_NOT_STARTED = b"N"
STATE_FIRST_TIME = b"0"

STATE_LOCK_SECONDS = 2.0
"""How long to wait for brokers that read or write the state at this moment."""

_NODE_ID_OFFSET = 3
_NODE_ID_SIZE = 16


def new_node_id(entropy: Callable[[int], bytes]) -> str:
    """A random UUID in its text form.

    It says that it is of version 1: Artemis reads each id in ``server.lock`` as one of those, and its command line would name another node.
    """
    return str(uuid.UUID(bytes=entropy(16), version=1))


class NodeLock:
    """The lock files of one folder."""

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        self._file_system = file_system
        self._directory = directory
        self._path = join(directory, LOCK_FILE)
        self._primary: FileLock | None = None

    def acquire(self) -> None:
        """Become the active broker of this folder; raises :class:`StoreLockedError` when there is one."""
        self._primary = self._file_system.lock(join(self._directory, PRIMARY_LOCK_FILE))
        if self._primary is None:
            raise StoreLockedError(
                f"{self._directory}: another broker uses this folder (it holds {PRIMARY_LOCK_FILE}); stop that one first"
            )

    def release(self) -> None:
        if self._primary is not None:
            primary, self._primary = self._primary, None
            primary.release()

    def state(self) -> bytes:
        """The state byte; ``STATE_FIRST_TIME`` when there is no file yet."""
        return self._locked(lambda data: data[:1] or STATE_FIRST_TIME)

    def write_state(self, state: bytes) -> None:
        self._locked(lambda data: self._write(state + b"00" if len(data) < _NODE_ID_OFFSET else state + data[1:]))

    def node_id(self) -> str | None:
        """The node id as text, None when none was written yet."""
        raw = self._locked(lambda data: data[_NODE_ID_OFFSET : _NODE_ID_OFFSET + _NODE_ID_SIZE])
        return str(uuid.UUID(bytes=raw)) if len(raw) == _NODE_ID_SIZE else None

    def write_node_id(self, node_id: str) -> None:
        raw = uuid.UUID(node_id).bytes
        self._locked(lambda data: self._write((data[:_NODE_ID_OFFSET] if len(data) >= _NODE_ID_OFFSET else b"000") + raw))

    def make_node_id(self, missing: Callable[[], str]) -> str:
        """The node id; a folder without any gets that of ``missing``."""
        found = self.node_id()
        if found is None:
            found = missing()
            self.write_node_id(found)
        return found

    def _locked(self, function: Callable[[bytes], _T]) -> _T:
        """``function`` of the file's content, under the lock of the state."""
        lock = self._file_system.lock(self._path, STATE_LOCK_SECONDS)
        if lock is None:
            raise StoreLockedError(f"{self._path}: another process holds this file; try again")
        try:
            return function(self._file_system.read(self._path))
        finally:
            lock.release()

    def _write(self, content: bytes) -> None:
        file = self._file_system.open(self._path)
        try:
            file.write(0, content)
            file.sync()
        finally:
            file.close()
        self._file_system.sync_directory(self._directory)
