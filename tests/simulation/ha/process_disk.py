"""A disk as one life of one process sees it: the process may stand still, or end, before each operation."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.disk import Inode, SimulatedCrash, SimulatedDisk, SimulatedFile, SimulatedLock


class ProcessDisk(SimulatedDisk):
    """``meets`` is called before each operation, with its name and a path.

    What a subclass does in an operation comes after that if it is named behind this class among the bases.
    """

    meets: Callable[[str, str], object]
    gone = False
    """The process has ended: what is left of it does nothing any more."""

    def open(self, path: str) -> SimulatedFile:
        self._meet("open", path)
        return super().open(path)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        self._meet("read", path)
        return super().read(path, offset, size)

    def rename(self, old: str, new: str) -> None:
        self._meet("rename", new)
        super().rename(old, new)

    def rename_new(self, old: str, new: str) -> None:
        self._meet("rename", new)
        super().rename_new(old, new)

    def remove(self, path: str) -> None:
        self._meet("remove", path)
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self._meet("sync_directory", path)
        super().sync_directory(path)

    def make_directory(self, path: str) -> None:
        self._meet("make_directory", path)
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._meet("remove_directory", path)
        super().remove_directory(path)

    def lock(self, path: str, patience: float = 0.0) -> SimulatedLock | None:
        self._meet("lock", path)
        return super().lock(path)

    def write(self, inode: Inode, path: str, offset: int, data: bytes) -> None:
        self._meet("write", path)
        super().write(inode, path, offset, data)

    def sync(self, inode: Inode, path: str) -> None:
        self._meet("sync", path)
        super().sync(inode, path)

    def end_process(self) -> None:
        self.gone = True
        super().end_process()

    def _meet(self, operation: str, path: str) -> None:
        if not self.gone:
            self.meets(operation, path)
        if self.gone:
            raise SimulatedCrash
