"""What a broker has on the disk: its store, the disks below it, and the files that its configuration names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mqbroker.clocks import ReactorClock
from mqbroker.localfs import LocalFileSystem, replace_file
from mqbroker.messaging.disk_guard import DiskSpace
from mqbroker.messaging.ports import Recovered
from mqbroker.settings import BrokerSettings
from mqbroker.storage.filestore import FileStore
from mqbroker.storage.memorystore import MemoryStore
from mqbroker.storage.settings import StoreSettings
from mqbroker.threads import ThreadedDiskWriter


class Persistence:
    """Opens the store, and knows where everything is.

    ``in_turn`` calls a function in a turn of the loop; ``failed`` is told why the disk can no longer be written.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        reactor: Any,
        clock: ReactorClock,
        in_turn: Callable[..., object],
        failed: Callable[[str], object],
    ) -> None:
        self._settings = settings
        self._configuration = settings.configuration
        self._reactor = reactor
        self._clock = clock
        self._in_turn = in_turn
        self._failed = failed
        self._writer: ThreadedDiskWriter | None = None

    # --- the store

    def make_store(self) -> FileStore | MemoryStore:
        """The store of the configuration, not opened yet."""
        if not self._configuration.persistence_enabled:
            return MemoryStore(os.urandom, self._large_body_files(), self._failed)
        return FileStore(self._store_settings(), LocalFileSystem(), self._new_writer(), self._clock, os.urandom, self._failed)

    def open(self, store: FileStore | MemoryStore) -> Recovered:
        """Open it and read what it has kept.  Raises StorageError and OSError."""
        if isinstance(store, MemoryStore):
            return Recovered()
        store.open()
        return store.load()

    def stop_writer(self) -> None:
        """End the thread that writes; what was given to it is written first."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _new_writer(self) -> ThreadedDiskWriter:
        self._writer = ThreadedDiskWriter.of_reactor(self._reactor, self._in_turn)
        return self._writer

    def _large_body_files(self) -> tuple[LocalFileSystem, str, ThreadedDiskWriter] | None:
        """Where large bodies go when nothing else is kept; None keeps them in memory."""
        if self._settings.large_bodies_in_memory:
            return None
        return LocalFileSystem(), str(self.path(self._configuration.large_messages_directory)), self._new_writer()

    def _store_settings(self) -> StoreSettings:
        configuration = self._configuration
        lock = configuration.node_manager_lock_directory
        return StoreSettings(
            journal_directory=str(self.path(configuration.journal_directory)),
            bindings_directory=str(self.path(configuration.bindings_directory)),
            large_messages_directory=str(self.path(configuration.large_messages_directory)),
            paging_directory=str(self.path(configuration.paging_directory)),
            purge_page_folders=configuration.purge_page_folders,
            compress_pages=configuration.compress_pages,
            lock_directory=None if lock is None else str(self.path(lock)),
            create_journal_directory=configuration.create_journal_dir,
            create_bindings_directory=configuration.create_bindings_dir,
            journal_file_size=configuration.journal_file_size,
            journal_compact_min_files=configuration.journal_compact_min_files,
            journal_compact_percentage=configuration.journal_compact_percentage,
            journal_datasync=configuration.journal_datasync,
            large_message_sync=configuration.large_message_sync,
        )

    # --- the disks

    @property
    def directory(self) -> Path | None:
        """Where the journal is; None without persistence."""
        return self.path(self._configuration.journal_directory) if self._configuration.persistence_enabled else None

    def spaces(self) -> list[DiskSpace]:
        """The disks below the folders that the broker writes to."""
        configuration = self._configuration
        folders = (
            configuration.journal_directory,
            configuration.paging_directory,
            configuration.large_messages_directory,
            configuration.bindings_directory,
        )
        usages = [(str(self.path(folder)), shutil.disk_usage(self.path(folder))) for folder in folders]
        return [DiskSpace(path, usage.free, usage.total) for path, usage in usages]

    def usage(self) -> float:
        """How full the disk of the journal is, 0 to 1."""
        usage = shutil.disk_usage(self.directory or self._settings.base)
        return usage.used / usage.total if usage.total else 0.0

    # --- files of the configuration

    def path(self, text: str) -> Path:
        return self._settings.base / text

    def read_bytes(self, path: str) -> bytes:
        return self.path(path).read_bytes()

    def write_bytes(self, path: str, data: bytes) -> None:
        """Replace a file: afterwards it has the old content or the new one, whatever happens."""
        replace_file(self.path(path), data)
