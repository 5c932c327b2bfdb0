"""The right of a copy to its folder, whose node id comes with the first copy from an active broker."""

from __future__ import annotations

from collections.abc import Callable

from mqbroker.storage.disk.claim import OwnFolder
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.disk.nodelock import NodeLock


class CopyFolder(OwnFolder):
    """The folder of one copy.  ``node_id`` is empty as long as a backup has copied nobody."""

    def __init__(self, file_system: FileSystem, directory: str, backup: bool) -> None:
        super().__init__(file_system, directory)
        self._backup = backup

    def find_node_id(self, lock: NodeLock, missing: Callable[[], str]) -> str:
        return lock.node_id() or "" if self._backup else lock.make_node_id(missing)
