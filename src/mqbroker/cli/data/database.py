"""The database of a broker, for the ``data`` commands: which one it is, its lock, and its contents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqbroker.cli.data.journal_folder import chosen_instance, read_configuration
from mqbroker.cli.status import BadUsage, CommandError
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from mqbroker.storage.sql.contents import Contents, FoundSession
    from mqbroker.storage.sql.database import Database

_FOLDERS = ("data", "journal", "bindings", "large_messages", "paging")


@dataclass(frozen=True, slots=True)
class DataBase:
    """A database, and the folder of the locks of the instance that it belongs to; None where only the database was named.

    ``broker_id`` is what its sessions have as their broker, '' where it has no id.
    """

    database: Database
    lock_directory: Path | None
    broker_id: str = ""


def chosen_database(options: dict[str, Any]) -> DataBase | None:
    """The database that the options name, or the ``broker.xml`` that they name; None where the data are files.  Raises BadUsage."""
    url, folders = options["jdbc_connection_url"], [name for name in _FOLDERS if options[name] is not None]
    if url is not None:
        if folders:
            raise BadUsage(f"--jdbc-connection-url and --{folders[0].replace('_', '-')} name different data")
        return DataBase(_make(DatabaseStoreConfiguration(url), Path().absolute()), None)
    instance, broker = chosen_instance(options), options["broker"]
    if not folders and (instance is not None or broker is not None):
        configuration = read_configuration(broker, instance)
        if configuration.database_store is not None:
            lock = configuration.node_manager_lock_directory or configuration.journal_directory
            database = _make(configuration.database_store, (instance or Path()).absolute())
            return DataBase(database, Path(lock), configuration.broker_of_store)
    if options["jdbc"]:
        raise BadUsage("--jdbc needs --jdbc-connection-url, or a broker.xml with a database-store")
    return None


def _make(configuration: DatabaseStoreConfiguration, base: Path) -> Database:
    from mqbroker.process.databases import make_database
    from mqbroker.process.mounts import read_mounts

    problem = configuration.problem()
    if problem is not None:
        raise BadUsage(f"--jdbc-connection-url: {problem}")
    if configuration.vendor == "sqlite":
        file = base / configuration.place.partition("?")[0]
        if not file.is_file():
            raise BadUsage(f"there is no database {file}")
    try:
        return make_database(configuration, base, read_mounts())
    except ValueError as error:
        raise BadUsage(str(error)) from error


@contextmanager
def contents_of(chosen: DataBase, ignore_lock: bool) -> Iterator[Contents]:
    """One state of the data, of a broker that does not run on this instance, unless ``ignore_lock``.

    Errors of the database become :class:`CommandError`.
    """
    from mqbroker.storage.sql.contents import Contents, snapshot

    try:
        with _locked(chosen, ignore_lock) as own_node, snapshot(chosen.database) as (connection, sessions):
            yield Contents(chosen.database, connection, _of_broker(chosen, sessions, own_node))
    except (StorageError, OSError) as error:
        raise CommandError(str(error)) from error


def _of_broker(chosen: DataBase, sessions: Sequence[FoundSession], own_node: str | None) -> Sequence[FoundSession]:
    """The sessions of the instance's broker, or of the only one that there is."""
    name, broker = chosen.database.name, chosen.broker_id
    if not broker:
        found = [each for each in sessions if each.current]
        own = next((each for each in found if each.node_id == own_node), found[0] if len(found) == 1 else None)
        if own is None:
            nodes = ", ".join(each.node_id for each in found) or "none"
            raise CommandError(f"{name} has the data of these nodes: {nodes}; give the --instance of one of them")
        broker = own.broker
    mine = [each for each in sessions if each.broker == broker]
    if not mine:
        raise CommandError(f"{name} has no data of the broker {broker}")
    return mine


@contextmanager
def _locked(chosen: DataBase, ignore_lock: bool) -> Iterator[str | None]:
    """Hold the lock of the instance; gives the node id that it has."""
    from mqbroker.process.localfs import LocalFileSystem
    from mqbroker.storage.disk.nodelock import NodeLock

    if chosen.lock_directory is None or not chosen.lock_directory.is_dir():
        yield None
        return
    lock = NodeLock(LocalFileSystem(), str(chosen.lock_directory))
    if ignore_lock:
        yield lock.node_id()
        return
    lock.acquire()
    try:
        yield lock.node_id()
    finally:
        lock.release()
