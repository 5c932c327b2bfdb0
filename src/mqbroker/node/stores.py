"""The store of a configuration, and the folders that it lies in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.messaging.ports import Store
from mqbroker.node.parts import Parts
from mqbroker.storage.disk.claim import OwnFolder, WithOwnFolder
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.files.filestore import FileStore
from mqbroker.storage.files.folders import make_folder
from mqbroker.storage.settings import StoreSettings

if TYPE_CHECKING:
    from mqbroker.server.observation.gauges import Gauges
    from mqbroker.storage.sql.connections import Outage
    from mqbroker.storage.sql.database import Database
    from mqbroker.storage.sql.sqlstore import SqlStore


def make_store(settings: BrokerSettings, parts: Parts, new_writer: Callable[[], DiskWriter], failed: Callable[[str], object]) -> Store:
    """See :class:`~mqbroker.node.parts.StoreFactory`."""
    configuration = settings.configuration
    if configuration.persistence_enabled and parts.database is not None:
        return _database_store(parts.database, settings, parts, new_writer, failed)
    if configuration.persistence_enabled:
        folders, writer = store_settings(settings), new_writer()
        file_system = parts.activation.files(parts.file_system, folders)
        claim = parts.activation.claim(parts.file_system, folders.node_directory, writer)
        return FileStore(folders, file_system, writer, parts.clock, parts.entropy, failed, claim)
    from mqbroker.storage.memorystore import MemoryStore

    bodies = None
    if not settings.large_bodies_in_memory:
        bodies = parts.file_system, str(settings.base / configuration.large_messages_directory), new_writer()
    return MemoryStore(parts.entropy, bodies, failed)


def _database_store(
    database: Database, settings: BrokerSettings, parts: Parts, new_writer: Callable[[], DiskWriter], failed: Callable[[str], object]
) -> Store:
    from mqbroker.storage.sql.sqlstore import SqlStore

    folders, writer = store_settings(settings), new_writer()
    make_folder(parts.file_system, folders.node_directory)
    shared = parts.activation.claim(parts.file_system, folders.node_directory, writer)
    own = OwnFolder(parts.file_system, folders.node_directory)
    claim = own if shared is None else WithOwnFolder(shared, own)
    bodies = folders.large_messages_directory
    home, broker_id = settings.configuration.home_cluster, settings.configuration.broker_of_store
    moving: tuple[str, ...] = ()
    if home is not None and home.enhanced is not None:
        from mqbroker.imq.definitions.temporary import KIND
        from mqbroker.node.enhanced import EnhancedActivation

        moving = (KIND,)
        assert isinstance(parts.activation, EnhancedActivation)
        failed = parts.activation.watch_store(lambda: store, claim, failed)
    store = SqlStore(
        database, parts.file_system, bodies, writer, new_writer(), parts.clock, parts.entropy, claim, failed, broker_id, moving
    )
    return store


def show_database(gauges: Gauges, store: Store) -> Outage:
    """Show the metrics of a store that is in a database.  Returns what knows whether that answers."""
    own: SqlStore = store  # type: ignore[assignment]
    outage = own.outage
    gauges.register_all(
        {},
        ("store.connected", "1 while the database of the messages answers, else 0", lambda: int(outage.seconds() is None)),
        ("store.away", "Seconds for which the database of the messages has not answered; 0 while it does", lambda: outage.seconds() or 0),
        ("store.backlog", "Batches of work that the database does not have yet", lambda: own.backlog),
        ("store.epoch", "How often the data of this broker have got an owner", lambda: own.session.epoch),
    )
    return outage


def store_settings(settings: BrokerSettings) -> StoreSettings:
    """The settings of the file store, with the folders of the configuration below the base of ``settings``."""
    configuration = settings.configuration

    def path(text: str) -> str:
        return str(settings.base / text)

    lock = configuration.node_manager_lock_directory
    return StoreSettings(
        journal_directory=path(configuration.journal_directory),
        bindings_directory=path(configuration.bindings_directory),
        large_messages_directory=path(configuration.large_messages_directory),
        paging_directory=path(configuration.paging_directory),
        purge_page_folders=configuration.purge_page_folders,
        compress_pages=configuration.compress_pages,
        lock_directory=None if lock is None else path(lock),
        create_journal_directory=configuration.create_journal_dir,
        create_bindings_directory=configuration.create_bindings_dir,
        journal_file_size=configuration.journal_file_size,
        journal_compact_min_files=configuration.journal_compact_min_files,
        journal_compact_percentage=configuration.journal_compact_percentage,
        journal_datasync=configuration.journal_datasync,
        large_message_sync=configuration.large_message_sync,
    )


def written_folders(settings: BrokerSettings) -> list[str]:
    """The folders that a broker with persistence writes to; that of the journal comes first.

    With a database that is only the one in which bodies of large messages come in.
    """
    configuration = settings.configuration
    if configuration.database_store is not None:
        return [str(settings.base / configuration.large_messages_directory)]
    names = (
        configuration.journal_directory,
        configuration.paging_directory,
        configuration.large_messages_directory,
        configuration.bindings_directory,
    )
    return [str(settings.base / name) for name in names]


def data_directory(settings: BrokerSettings) -> Path | None:
    """The folder of the journal; None without persistence."""
    return settings.base / settings.configuration.journal_directory if settings.configuration.persistence_enabled else None
