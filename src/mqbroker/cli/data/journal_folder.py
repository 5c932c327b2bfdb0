"""The journal of a stopped broker, for the ``data`` commands: its folders, its lock, and its contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqbroker.cli.status import BadUsage, CommandError
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.disk.nodelock import NodeLock
from mqbroker.storage.errors import StorageError
from mqbroker.storage.files.folders import check_folders
from mqbroker.storage.files.recover import read_state
from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.replay import State

if TYPE_CHECKING:
    from mqbroker.config.model.configuration import Configuration


@dataclass(slots=True)
class DataFolders:
    """The folders of a store; ``paging`` is beside the journal unless it is given, ``lock`` is the journal's."""

    journal: Path
    bindings: Path
    large_messages: Path
    paging: Path | None = None
    lock: Path | None = None

    def settings(self) -> StoreSettings:
        """The folders as the settings of a store."""
        lock = None if self.lock is None else str(self.lock)
        return StoreSettings(str(self.journal), str(self.bindings), str(self.large_messages), str(self._pages), lock_directory=lock)

    @property
    def node_directory(self) -> str:
        """The folder of the locks, and of the record of a replicated copy."""
        return self.settings().node_directory

    def below(self, name: str) -> DataFolders:
        """The sub-folder ``name`` of each of the four, which has its own locks."""
        return DataFolders(self.journal / name, self.bindings / name, self.large_messages / name, self._pages / name)

    @property
    def _pages(self) -> Path:
        return self.paging or self.journal.parent / "paging"

    def large_body(self, body_id: int) -> Path:
        return self.large_messages / f"{body_id}.msg"


def chosen_instance(options: Mapping[str, Any]) -> Path | None:
    """The instance folder of ``--instance``, or of CONFIGURATION, which comes first.  Raises :class:`BadUsage` where it is none."""
    from mqbroker.cli.start.lifecycle import instance_folder

    if options["configuration"] is not None:
        return instance_folder(options["configuration"], None)
    instance: Path | None = options["instance"]
    return instance


def find_folders(
    instance: Path | None,
    broker: Path | None,
    data: Path | None,
    journal: Path | None,
    bindings: Path | None,
    large_messages: Path | None,
    paging: Path | None = None,
) -> DataFolders:
    """The folders of the options; folders without an option are those of broker.xml.  Raises :class:`BadUsage`.

    The folder of the locks belongs to the journal that broker.xml names; another journal has its own locks.
    """
    if data is not None:
        found = DataFolders(data / "journal", data / "bindings", data / "large-messages")
    elif journal is not None and bindings is not None:
        found = DataFolders(journal, bindings, journal.parent / "large-messages")
    else:
        if broker is None and instance is None:
            raise BadUsage("which data? Give --instance DIR, --data DIR, or --journal, --bindings and --large-messages")
        found = _folders_of(broker, instance)
    if journal is not None:
        found.journal, found.lock = journal, None
    found.bindings = bindings or found.bindings
    found.large_messages = large_messages or found.large_messages
    found.paging = paging or found.paging
    for name, folder in (("journal", found.journal), ("bindings", found.bindings)):
        if not folder.is_dir():
            raise BadUsage(f"there is no folder {folder} for the {name}")
    return found


def read_configuration(file: Path | None, instance: Path | None) -> Configuration:
    """The broker.xml ``file``, or that of the instance with its properties, with whole paths of folders.  Raises CommandError."""
    import os

    from mqbroker.config.imq.files import PROPERTIES_FILE
    from mqbroker.config.instance.instance import read_instance, resolve_paths
    from mqbroker.config.parse import ConfigurationError, load_configuration

    def read(path: str) -> bytes:
        return Path(path).read_bytes()

    if instance is not None:
        instance = instance.absolute()
    try:
        if file is None and instance is not None and (instance / PROPERTIES_FILE).exists():
            from mqbroker.settings import settings_from_instance

            configuration = settings_from_instance(instance, (), os.environ).configuration
        elif file is None:
            configuration = read_instance(str(instance), read, os.environ).load(read).configuration
        else:
            configuration = load_configuration(str(file), read, os.environ).configuration
            resolve_paths(configuration, str(instance or Path().absolute()), str(file.parent.absolute()), read)
    except (ConfigurationError, OSError) as error:
        raise CommandError(str(error)) from error
    return configuration


def _folders_of(file: Path | None, instance: Path | None) -> DataFolders:
    configuration = read_configuration(file, instance)
    if configuration.database_store is not None:
        raise BadUsage("this broker keeps its messages in a database; this command reads files")
    lock = configuration.node_manager_lock_directory
    return DataFolders(
        Path(configuration.journal_directory),
        Path(configuration.bindings_directory),
        Path(configuration.large_messages_directory),
        Path(configuration.paging_directory),
        None if lock is None else Path(lock),
    )


@contextmanager
def exclusive(folders: DataFolders, ignore_lock: bool) -> Iterator[None]:
    """Hold the lock of the store meanwhile, unless ``ignore_lock``.  Errors of the store become :class:`CommandError`."""
    file_system = LocalFileSystem()
    try:
        check_folders(file_system, folders.settings())
        if ignore_lock:
            yield
            return
        lock = NodeLock(file_system, folders.node_directory)
        lock.acquire()
        try:
            yield
        finally:
            lock.release()
    except (StorageError, OSError) as error:
        raise CommandError(str(error)) from error


def load_state(folders: DataFolders) -> State:
    """The contents of the journals and the pages.  Raises ``JournalDamagedError``."""
    return read_state(LocalFileSystem(), folders.settings())
