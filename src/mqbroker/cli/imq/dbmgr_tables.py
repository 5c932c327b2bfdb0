"""``mqbroker imq dbmgr … tbl``, ``query``, ``backup -dir``, ``restore -dir`` and ``remove bkr``: the tables of brokers [B10.9]."""

from __future__ import annotations

import base64
import errno
import json
import math
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mqbroker.cli.imq.dbmgr import DatabaseTarget, database_options
from mqbroker.cli.imq.instances import stopped
from mqbroker.cli.imq.tables import properties, table
from mqbroker.cli.options import PATH
from mqbroker.cli.status import CommandError
from mqbroker.process.localfs import LocalFileSystem

if TYPE_CHECKING:
    from mqbroker.config.imq.databases import Databases
    from mqbroker.storage.sql.database import Connection, Database, Row

_DIRECTORY = click.option("-dir", "directory", required=True, type=PATH, help="The folder of the backup.")
_FORCE = click.option("-f", "force", is_flag=True, help="Also where the database has data of other brokers or clusters.")
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Store:
    """The database of the messages of an instance, as its properties or its broker.xml name it."""

    target: DatabaseTarget
    databases: Databases
    database: Database
    connection: Connection

    @property
    def broker(self) -> str:
        """The id of the instance, '' without one."""
        return self.databases.broker

    def unused(self, action: str) -> AbstractContextManager[object]:
        """The broker of the instance does not run meanwhile.  Raises CommandError where it does."""
        return stopped(self.target.folder, self.target.defined, action)

    def check_stopped(self) -> None:
        """Raises CommandError for a database that brokers of enhanced clusters use now: their stamps go on."""
        from mqbroker.storage.shared.tables import running

        before, limit = running(self.connection), self.databases.silence
        if not before:
            return
        click.echo(f"Waiting {limit:g} s for a sign of life of {', '.join(before)}", err=True)
        for _ in range(math.ceil(limit / _LOOK_SECONDS)):
            time.sleep(_LOOK_SECONDS)
            names = [name for name, stamp in running(self.connection).items() if before.get(name) != stamp]
            if names:
                raise CommandError(f"Brokers run on this database: {', '.join(names)}. Expected that all are shut down")

    def check_alone(self, force: bool) -> None:
        """Raises CommandError for a database with data of others, unless ``force``."""
        from mqbroker.storage.shared.tables import others

        record = self.databases.record
        cluster = record.cluster if record is not None and self.databases.enhanced else None
        found = [] if force else others(self.database, self.connection, self.broker, cluster)
        if found:
            raise CommandError(f"{self.database.name} also has {', '.join(found)}; with -f all tables go, with everything in them.")

    def clear(self, force: bool) -> bool:
        """Remove all tables, or what the instance has in tables that it may share; true where all are gone.

        Raises CommandError for data that others have or use, unless ``force``, and while a member of an enhanced cluster runs.
        """
        from mqbroker.storage.shared import tables
        from mqbroker.storage.sql.session import drop

        if not tables.exist(self.connection):
            return True
        if self.broker and not self.databases.enhanced and not force:
            drop(self.connection, self.broker)
            return False
        self.check_alone(force)
        self.check_stopped()
        tables.delete(self.connection)
        return True


@contextmanager
def _store(target: DatabaseTarget) -> Iterator[_Store]:
    databases = target.databases()
    if databases.store is None:
        text = "the properties name no database of messages: expected imq.persist.store=jdbc, or a database-store in the broker.xml"
        raise CommandError(text)
    with target.connected(databases.store) as (database, connection):
        yield _Store(target, databases, database, connection)


def _only_own(store: _Store) -> str:
    return f"Successfully deleted the data of the broker {store.broker} in {store.database.name}; the tables, and what others have, stay."


@click.command(epilog="Example: mqbroker imq dbmgr create tbl -varhome /var/imq -name b1")
@database_options
def create_tables(target: DatabaseTarget) -> None:
    """Make the tables of brokers, empty; the first broker that starts makes them, too."""
    from mqbroker.storage.shared import tables
    from mqbroker.storage.sql import schema

    with _store(target) as store:
        database, connection = store.database, store.connection
        if tables.exist(connection):
            raise CommandError(f"The tables in {database.name} exist already; recreate makes them anew.")
        schema.prepare(database, connection)
        click.echo(f"Successfully created the tables in {database.name}.")


@click.command(epilog="Example: mqbroker imq dbmgr delete tbl -varhome /var/imq -name b1")
@_FORCE
@database_options
def delete_tables(target: DatabaseTarget, force: bool) -> None:
    """Remove the tables of brokers, with all messages and definitions in them.

    Of an instance with an imq.brokerid outside of enhanced clusters only its own data go.
    """
    with _store(target) as store, store.unused("delete tbl"):
        click.echo(f"Successfully deleted the tables in {store.database.name}." if store.clear(force) else _only_own(store))


@click.command(epilog="Example: mqbroker imq dbmgr recreate tbl -varhome /var/imq -name b1")
@_FORCE
@database_options
def recreate_tables(target: DatabaseTarget, force: bool) -> None:
    """Make the tables of brokers anew, empty.

    Of an instance with an imq.brokerid outside of enhanced clusters only its own data go.
    """
    from mqbroker.storage.sql import schema

    with _store(target) as store, store.unused("recreate tbl"):
        if store.clear(force):
            schema.prepare(store.database, store.connection)
            click.echo(f"Successfully recreated the tables in {store.database.name}.")
        else:
            click.echo(_only_own(store))


@click.command(epilog="Example: mqbroker imq dbmgr query -varhome /var/imq -name b1")
@database_options
def query(target: DatabaseTarget) -> None:
    """Show the tables with their sizes, and the brokers of enhanced clusters."""
    from mqbroker.storage.shared import tables
    from mqbroker.storage.sql import schema

    with _store(target) as store:
        database, connection = store.database, store.connection
        if not tables.exist(connection):
            raise CommandError(f"There are no tables in {database.name}; create makes them.")
        click.echo(properties([[("Database", database.name), ("Version of the tables", str(schema.VERSION))]], gap=3))
        click.echo()
        click.echo(table(("Table", "Rows"), tables.sizes(connection), gap=3))
        members = tables.members(connection)
        if members:
            click.echo()
            click.echo(table(("Broker ID", "Cluster ID", "Address", "State", "Taken over by"), members, gap=3))


@click.command(epilog="Example: mqbroker imq dbmgr backup -dir backup -varhome /var/imq -name b1")
@_DIRECTORY
@database_options
def backup_tables(target: DatabaseTarget, directory: Path) -> None:
    """Write all tables into a new folder, a file each, as they are at one moment."""
    from mqbroker.storage.shared import tables

    with _store(target) as store:
        database, connection = store.database, store.connection
        if not tables.exist(connection):
            raise CommandError(f"There are no tables in {database.name}.")
        store.check_stopped()
        try:
            with _new_folder(directory) as folder:
                count = _write(tables.contents(connection), folder)
        except FileExistsError as error:
            raise CommandError(f"-dir {directory}: {error.strerror}; expected a new folder") from error
        except OSError as error:
            raise CommandError(f"-dir {directory}: {error.strerror or error}; there is no backup") from error
        click.echo(f"Successfully backed up {database.name}: {count} rows.")


@click.command(epilog="Example: mqbroker imq dbmgr restore -dir backup -varhome /var/imq -name b1")
@_DIRECTORY
@_FORCE
@database_options
def restore_tables(target: DatabaseTarget, directory: Path, force: bool) -> None:
    """Replace all tables with those of a backup, also with one of the other kind of database."""
    from mqbroker.storage.shared import tables
    from mqbroker.storage.sql import schema
    from mqbroker.storage.sql.database import DatabaseAwayError, DatabaseError

    if not (directory / "version.jsonl").is_file():
        raise CommandError(f"-dir {directory}: there is no backup in it")
    try:
        tables.check(lambda name: _read(directory / f"{name}.jsonl"))
    except (OSError, ValueError) as error:
        raise CommandError(f"-dir {directory}: {error}; nothing was changed") from error
    with _store(target) as store, store.unused("restore"):
        database, connection = store.database, store.connection
        if tables.exist(connection):
            store.check_alone(force)
            store.check_stopped()
        tables.delete(connection)
        schema.prepare(database, connection)
        try:
            count = tables.fill(connection, lambda name: _read(directory / f"{name}.jsonl"))
        except (OSError, ValueError, DatabaseAwayError, DatabaseError) as error:
            raise CommandError(f"-dir {directory}: {error}; the tables are empty now") from error
        click.echo(f"Successfully restored {database.name}: {count} rows.")


@click.command(epilog="Example: mqbroker imq dbmgr remove bkr -n b2 -varhome /var/imq -name b1")
@click.option("-n", "broker", required=True, help="The id of the broker (imq.brokerid).")
@click.option("-f", "force", is_flag=True, help="Do not ask.")
@database_options
def remove_broker(target: DatabaseTarget, broker: str, force: bool) -> None:
    """Remove a broker that has been shut down from an enhanced cluster, with the messages that it still has.

    Messages that another broker has taken over are not its own any more, and stay.
    """
    from mqbroker.storage.shared import tables

    with _store(target) as store:
        database, connection = store.database, store.connection
        if not tables.exist(connection):
            raise CommandError(f"There are no tables in {database.name}.")
        if not force and not click.confirm(f"Are you sure you want to remove the broker {broker} with its messages?"):
            click.echo("The broker was not removed.")
            return
        sessions = tables.remove_broker(database, connection, broker)
        click.echo(f"Successfully removed the broker {broker} from {database.name}, with {sessions} store sessions.")


def _written(value: Any) -> Any:
    return {"bytes": base64.b64encode(bytes(value)).decode()} if isinstance(value, bytes | memoryview) else value


@contextmanager
def _new_folder(directory: Path) -> Iterator[Path]:
    """A folder that gets its name when everything is in it, durably: half a backup must not be taken for one.  Raises OSError."""
    if directory.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(directory))
    partial = directory.with_name(f"{directory.name}.partial")
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(parents=True)
    try:
        yield partial
        LocalFileSystem().sync_directory(str(partial))
        partial.rename(directory)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    LocalFileSystem().sync_directory(str(directory.absolute().parent))


def _write(contents: Iterable[tuple[str, list[str], list[Row]]], folder: Path) -> int:
    """Write a file for each table; returns the number of rows."""
    count = 0
    for (name, columns), pieces in groupby(contents, lambda each: (each[0], each[1])):
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as stream:
            stream.write(json.dumps(columns) + "\n")
            for _, _, rows in pieces:
                stream.writelines(json.dumps([_written(value) for value in row]) + "\n" for row in rows)
                count += len(rows)
            stream.flush()
            os.fsync(stream.fileno())
    return count


def _read(path: Path) -> Iterator[list[Any]]:
    """The columns, then the rows.  Raises OSError, and ValueError with the line."""
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield [base64.b64decode(each["bytes"]) if isinstance(each, dict) else each for each in json.loads(line)]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path.name}, line {number}: {error}") from error
