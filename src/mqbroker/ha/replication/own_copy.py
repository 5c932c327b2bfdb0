"""The copy of a node that one broker of a pair has: its files, its record, and its search for the proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.ha.locks.coordination import coordinated_node_id
from mqbroker.ha.proof.copy_keeper import CopyKeeper
from mqbroker.ha.proof.copy_record import CopyRecord, read_record
from mqbroker.ha.replication.claim import CopyFolder
from mqbroker.ha.replication.connectors import connector_of
from mqbroker.storage.disk.diskwriter import Done, Step, run_steps
from mqbroker.storage.mirror.mirrored import MirroredFileSystem
from mqbroker.storage.mirror.roots import Roots

if TYPE_CHECKING:
    from mqbroker.config.model.cluster import ReplicationConfiguration
    from mqbroker.ha.proof.seeking import Seeker
    from mqbroker.ha.replication.backup import ClusterSide
    from mqbroker.messaging.ports import Clock
    from mqbroker.storage.disk.diskwriter import DiskWriter
    from mqbroker.storage.disk.filesystem import FileSystem
    from mqbroker.storage.settings import StoreSettings
    from mqclient.wire.primitives import TransportConfiguration

log = Logger(namespace="mqbroker.ha")


class OwnCopy:
    """The copy and the ways to others; what is None is there from the first search for the activation until nothing is sought any more."""

    def __init__(self, clock: Clock) -> None:
        self.inner: FileSystem
        """Changes of files through this one are not replicated."""
        self.mirrored: MirroredFileSystem
        self.settings: StoreSettings
        self.roots: Roots
        self.folder: CopyFolder
        self.writer: DiskWriter | None = None
        """None while the store is closed."""
        self.keeper: CopyKeeper | None = None
        self.seeker: Seeker | None = None
        self.side: ClusterSide | None = None
        self._clock = clock

    def files(self, file_system: FileSystem, settings: StoreSettings, lock: AbstractContextManager[object]) -> FileSystem:
        """The file system of the next start's store.  Raises StorageError for folders that lie in each other."""
        self.inner, self.settings = file_system, settings
        self.roots = Roots.of(settings)
        self.mirrored = MirroredFileSystem(file_system, self.roots, lock)
        return self.mirrored

    def claim(self, directory: str, writer: DiskWriter, policy: ReplicationConfiguration) -> CopyFolder:
        self.writer = writer
        coordinated = None if policy.coordination_id is None else coordinated_node_id(policy.coordination_id)
        self.folder = CopyFolder(self.inner, directory, policy.backup, coordinated)
        return self.folder

    def open_record(self, entropy: Callable[[int], bytes], backup: bool, failed: Callable[[str], object]) -> None:
        """Raises StorageError or OSError."""
        directory = self.settings.node_directory
        if self.keeper is None:
            record = read_record(self.inner, directory) or CopyRecord.first(entropy, not backup)
            self.keeper = CopyKeeper(self.inner, directory, record, self.submit, failed)

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        """Changes of the record and of the folder, one after the other."""
        if self.writer is not None:
            self.writer.submit(steps, done)
        else:
            self._clock.call_later(0, done, run_steps(steps))

    def known_places(self) -> list[TransportConfiguration]:
        """The place of the other copy, if one is noted."""
        other = None if self.keeper is None else self.keeper.record.other
        try:
            return [] if other is None else [connector_of(other.connector)]
        except ValueError as error:
            log.warn("the place of the other copy cannot be read: {error}", error=error)
            return []
