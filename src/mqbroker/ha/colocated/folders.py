"""The folders that a hosted backup would use, looked at before it is started."""

from __future__ import annotations

from mqbroker.ha.proof.copy_record import read_record
from mqbroker.storage.disk.filesystem import FileSystem, join
from mqbroker.storage.disk.nodelock import LOCK_FILE, NodeLock


def node_in(file_system: FileSystem, directory: str) -> str | None:
    """The node whose journal the folder ``directory`` has; None when there is none.  Raises StorageError and OSError."""
    if not file_system.exists(join(directory, LOCK_FILE)):
        return None
    return NodeLock(file_system, directory).node_id()


def kept_node(file_system: FileSystem, directory: str) -> str | None:
    """The node whose copy in ``directory`` may be the newest one; None when there is nothing to keep.  Raises StorageError and OSError."""
    record = read_record(file_system, directory)
    if record is None or not (record.usable or record.diverged):
        return None
    return node_in(file_system, directory)
