"""``mqbroker imq dbmgr … sharecc_tbl`` and ``reset lck``: the table of the change record of a cluster of peers [B9]."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mqbroker.cli.imq.dbmgr import DatabaseTarget, database_options
from mqbroker.cli.options import PATH
from mqbroker.cli.status import CommandError

if TYPE_CHECKING:
    from mqbroker.imq.peers.record_table import RecordTable
    from mqbroker.storage.sql.database import Connection

_FILE = click.option("-file", "file", required=True, type=PATH, help="The file of the backup.")


@contextmanager
def _record(target: DatabaseTarget) -> Iterator[tuple[RecordTable, Connection, str]]:
    """The table, a connection, and what it is called in messages."""
    from mqbroker.config.imq.members import PEERS
    from mqbroker.imq.peers.record_table import LockedError, RecordTable

    record = target.databases(**{PEERS: "true"}).record  # also before the brokers are changed into peers
    if record is None:
        raise CommandError("the properties name no database of the change record")
    with target.connected(record.database) as (database, connection):
        try:
            yield RecordTable(database, record.cluster), connection, f"the change record of the cluster {record.cluster} in {database.name}"
        except LockedError as error:
            raise CommandError(f"{error}. `mqbroker imq dbmgr reset lck` clears a lock that was left behind") from error


@click.command(epilog="Example: mqbroker imq dbmgr create sharecc_tbl -varhome /var/imq -name b1")
@database_options
def create_record(target: DatabaseTarget) -> None:
    """Make the table of the change record, empty.  The first broker that starts begins the record."""
    with _record(target) as (table, connection, called):
        if not table.create(connection):
            raise CommandError(f"The table of {called} exists already; recreate makes it anew.")
        click.echo(f"Successfully created the table of {called}.")


@click.command(epilog="Example: mqbroker imq dbmgr delete sharecc_tbl -varhome /var/imq -name b1")
@database_options
def delete_record(target: DatabaseTarget) -> None:
    """Remove the table of the change record, with the record."""
    with _record(target) as (table, connection, called):
        table.delete(connection)
        click.echo(f"Successfully deleted the table of {called}.")


@click.command(epilog="Example: mqbroker imq dbmgr recreate sharecc_tbl -varhome /var/imq -name b1")
@database_options
def recreate_record(target: DatabaseTarget) -> None:
    """Make the table of the change record anew, empty."""
    with _record(target) as (table, connection, called):
        if not table.create(connection):
            table.delete(connection)
            table.create(connection)
        click.echo(f"Successfully recreated the table of {called}.")


@click.command(epilog="Example: mqbroker imq dbmgr backup sharecc_tbl -file record.backup -varhome /var/imq -name b1")
@_FILE
@database_options
def backup_record(target: DatabaseTarget, file: Path) -> None:
    """Write the change record to a new file, which `restore`, and a master with `brokerd -restore`, can read."""
    from mqbroker.imq.record.backup import backup_of

    with _record(target) as (table, connection, called):
        record = table.read(connection)
        if record is None:
            raise CommandError(f"{called} is empty: there is nothing to back up.")
        try:
            with file.open("xb") as stream:
                stream.write(backup_of(record))
        except FileExistsError as error:
            raise CommandError(f"-file {file}: the file exists already; expected a new one") from error
        except OSError as error:
            raise CommandError(f"-file {file}: {error.strerror or error}") from error
        click.echo(f"Successfully backed up {called}: {len(record)} definitions.")


@click.command(epilog="Example: mqbroker imq dbmgr restore sharecc_tbl -file record.backup -varhome /var/imq -name b1")
@_FILE
@database_options
def restore_record(target: DatabaseTarget, file: Path) -> None:
    """Fill the empty table with the change record in a file, also with that of a master; all brokers take over everything of it."""
    from mqbroker.imq.record.backup import BackupError, record_of

    try:
        record = record_of(file.read_bytes()).renewed(os.urandom(16).hex(), target.holder, round(time.time() * 1000))
    except (OSError, BackupError) as error:
        raise CommandError(f"-file {file}: {error}") from error
    with _record(target) as (table, connection, called):
        table.lock(connection, target.holder)
        try:
            if not table.put(connection, record):
                raise CommandError(f"The table of {called} is not empty: `recreate sharecc_tbl` comes first.")
        finally:
            table.unlock(connection)
        click.echo(f"Successfully restored {called}: {len(record)} definitions.")


@click.command(epilog="Example: mqbroker imq dbmgr reset lck -varhome /var/imq -name b1")
@database_options
def reset_lock(target: DatabaseTarget) -> None:
    """Clear the lock of the table of the change record, which a command that was killed has left behind."""
    with _record(target) as (table, connection, called):
        holder = table.unlock(connection)
        click.echo(f"Successfully cleared the lock of {holder} on {called}." if holder else f"Nobody has locked {called}.")
