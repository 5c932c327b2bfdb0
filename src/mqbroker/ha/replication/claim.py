"""The right of a copy to its folder, whose node id comes with the first copy from an active broker."""

from __future__ import annotations

from collections.abc import Callable

from mqbroker.storage.disk.claim import OwnFolder
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.disk.nodelock import NodeLock


class CopyFolder(OwnFolder):
    """The folder of one copy.  ``node_id`` is empty as long as a backup has copied nobody.

    ``coordinated`` is the node id of competing primaries, None for any other broker.  The folder takes it over whatever it had before, with
    its data.
    """

    def __init__(self, file_system: FileSystem, directory: str, backup: bool, coordinated: str | None = None) -> None:
        super().__init__(file_system, directory)
        self._backup = backup
        self._coordinated = coordinated

    def owns(self, node_id: str) -> bool:
        return self._coordinated is not None or super().owns(node_id)

    def find_node_id(self, lock: NodeLock, missing: Callable[[], str]) -> str:
        if self._coordinated is not None:
            if lock.node_id() != self._coordinated:
                lock.write_node_id(self._coordinated)
            return self._coordinated
        return lock.node_id() or "" if self._backup else lock.make_node_id(missing)
