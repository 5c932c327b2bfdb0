"""The right of a broker to a folder, as its store sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from mqbroker.storage.disk.diskwriter import Step
from mqbroker.storage.disk.epoch import EPOCH_FILE
from mqbroker.storage.disk.filesystem import FileSystem, join
from mqbroker.storage.disk.nodelock import STATE_ACTIVE, STATE_FAILING_BACK, STATE_FIRST_TIME, STATE_PAUSED, NodeLock


class Claim(Protocol):
    """The right to one folder.  All methods block; those after ``open`` are called where the store is loaded, or by the disk writer."""

    node_id: str
    """Known when the store is loaded, at the latest."""

    @property
    def token(self) -> str:
        """A text that no former holder has, for the names of files; empty where no former holder can still be there."""

    @property
    def epoch(self) -> int:
        """Grows with every holder, and tells this one from later ones; 0 where no former holder can still be there."""

    def owns(self, node_id: str) -> bool:
        """May files of this node be in the folder?"""

    def open(self, missing: Callable[[], str]) -> None:
        """The folder is there; ``missing`` gives the node id of one that has none.  Raises StorageError, OSError."""

    def check(self) -> None:
        """Raises FencedError when the folder is another broker's."""

    def activated(self) -> None:
        """The store is loaded."""

    def withdraw(self) -> None:
        """The start is taken back."""

    def leave(self) -> None:
        """All work is written, in order."""

    def release(self) -> None:
        """Others may have the folder."""


def run_and_release(claim: Claim, steps: Sequence[Step]) -> None:
    """Run the last steps of the disk writer; others may have the folder afterwards, whatever fails."""
    try:
        for step in steps:
            step()
    finally:
        claim.release()


class WithOwnFolder:
    """The right to data that are elsewhere, with the local folder of a broker, which it shares with nobody.

    The node id of the local folder is for data that have none.
    """

    def __init__(self, shared: Claim, own: Claim) -> None:
        self._shared = shared
        self._own = own

    @property
    def node_id(self) -> str:
        return self._shared.node_id

    @node_id.setter
    def node_id(self, node_id: str) -> None:
        self._shared.node_id = node_id

    @property
    def token(self) -> str:
        return self._shared.token

    @property
    def epoch(self) -> int:
        return self._shared.epoch

    def owns(self, node_id: str) -> bool:
        return self._shared.owns(node_id)

    def open(self, missing: Callable[[], str]) -> None:
        self._own.open(missing)
        try:
            self._shared.open(lambda: self._own.node_id)
        except BaseException:
            self._own.withdraw()
            self._own.release()
            raise

    def check(self) -> None:
        self._shared.check()

    def activated(self) -> None:
        self._shared.activated()
        self._own.activated()

    def withdraw(self) -> None:
        self._own.withdraw()
        self._shared.withdraw()

    def leave(self) -> None:
        self._own.leave()
        self._shared.leave()

    def release(self) -> None:
        try:
            self._shared.release()
        finally:
            self._own.release()


class OwnFolder:
    """The folder of a broker that shares it with nobody.  A broker that shared it before finds its epoch gone."""

    token = ""
    epoch = 0

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        self.node_id = ""
        self._file_system = file_system
        self._epoch = join(directory, EPOCH_FILE)
        self._lock = NodeLock(file_system, directory)
        self._found = STATE_FIRST_TIME

    def open(self, missing: Callable[[], str]) -> None:
        lock = self._lock
        lock.acquire()
        try:
            if self._file_system.exists(self._epoch):
                self._file_system.remove(self._epoch)
            self.node_id = self.find_node_id(lock, missing)
            self._found = lock.state()
            lock.write_state(STATE_FAILING_BACK)
        except BaseException:
            lock.release()
            raise

    def owns(self, node_id: str) -> bool:
        return node_id == self.node_id

    def find_node_id(self, lock: NodeLock, missing: Callable[[], str]) -> str:
        """The node id of the folder that was locked."""
        return lock.make_node_id(missing)

    def rename(self, node_id: str) -> None:
        """The folder is another node's from now on."""
        if node_id != self.node_id:
            self._lock.write_node_id(node_id)
            self.node_id = node_id

    def check(self) -> None:
        """The lock is enough."""

    def activated(self) -> None:
        self._lock.write_state(STATE_ACTIVE)

    def withdraw(self) -> None:
        self._lock.write_state(self._found)

    def leave(self) -> None:
        self._lock.write_state(STATE_PAUSED)

    def release(self) -> None:
        self._lock.release()
