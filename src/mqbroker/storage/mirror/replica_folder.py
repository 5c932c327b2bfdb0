"""The passive side: changes of another broker's files, repeated in the own folders."""

from __future__ import annotations

from collections.abc import Callable

from mqbroker.storage.disk.diskwriter import DiskWriter, Step
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.mirror.roots import Roots


class ReplicaFolder:
    """Repeats one stream of changes below ``roots``; a new stream needs a new one.

    ``begin`` is what the disk writer does first, when a copy begins: it leaves the folders there, and empty (see ``former``).
    ``answer(number)``: the changes up to this one are done, and durable as far as they were synced.  ``failed(reason)`` is called once;
    nothing is done or answered any more then.
    """

    def __init__(
        self,
        file_system: FileSystem,
        roots: Roots,
        writer: DiskWriter,
        begin: Step,
        answer: Callable[[int], object],
        failed: Callable[[str], object],
    ) -> None:
        self.waiting = 0
        """Bytes that were taken and are not done yet."""

    def take(self, data: bytes) -> None:
        """The next bytes of the stream."""
        raise NotImplementedError

    def close(self, done: Callable[[], object]) -> None:
        """Nothing is taken or answered any more.  ``done`` is called when all that was taken is done, and the files are closed."""
        raise NotImplementedError
