"""The databases that a configuration may name (:mod:`mqbroker.storage.sql.database`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mqbroker.process.mounts import file_system_kind

if TYPE_CHECKING:
    from mqbroker.config.model.database import DatabaseStoreConfiguration
    from mqbroker.storage.sql.database import Database

_NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.glusterfs", "glusterfs", "ceph", "lustre")


def make_database(configuration: DatabaseStoreConfiguration, base: Path, mounts: str, patient: bool = True) -> Database:
    """The database of a configuration without problems.

    ``base`` is the folder that the file of SQLite is relative to, ``mounts`` what the system tells of its file systems.
    ``patient``: a statement that PostgreSQL has cut off may take longer when it is tried again.  Raises ValueError for a file on a network
    file system, and without the driver.
    """
    if configuration.vendor == "sqlite":
        return _sqlite(base / configuration.place.partition("?")[0], mounts, configuration.network_timeout)
    return _postgresql(configuration, patient)


def _sqlite(path: Path, mounts: str, timeout: int) -> Database:
    from mqbroker.process.sqlite import BUSY_SECONDS, SqliteDatabase

    kind = file_system_kind(str(path.resolve().parent), mounts)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise ValueError(f"jdbc-connection-url: {path} lies on {kind}: the locks of SQLite do not hold there; use PostgreSQL")
    path.parent.mkdir(parents=True, exist_ok=True)
    return SqliteDatabase(str(path), min(BUSY_SECONDS, timeout / 1000))


def _postgresql(configuration: DatabaseStoreConfiguration, patient: bool) -> Database:
    try:
        from mqbroker.process.postgresql import PATIENCE, PostgresqlDatabase
    except ImportError as error:
        raise ValueError(f"PostgreSQL needs its driver: pip install mqbroker[postgresql] ({error})") from error
    place = configuration.libpq
    user, password = place.pop("user", None), place.pop("password", None)
    timeout, patience = configuration.network_timeout, PATIENCE if patient else 1
    return PostgresqlDatabase(place, user, password, timeout, configuration.idle_timeout, patience)
