"""``mqbroker activation list|set|forget``: the operator's way out when no copy of a replicated node can get its proof (decision 36)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mqbroker.cli.data.data import chosen_folders, data_options
from mqbroker.cli.options import JSON
from mqbroker.cli.output import print_json
from mqbroker.cli.status import BadUsage, CommandError

if TYPE_CHECKING:
    from mqbroker.cli.data.journal_folder import DataFolders
    from mqbroker.ha.proof.copy_record import CopyRecord


@click.command(name="list", epilog="Example: mqbroker activation list --instance /var/lib/mybroker")
@data_options
@JSON
def list_record(as_json: bool, ignore_lock: bool, **options: Any) -> None:
    """Print what a copy of a replicated node knows of itself, of the other copy and of its voters."""
    from mqbroker.cli.data.journal_folder import exclusive

    folders = chosen_folders(options)
    with exclusive(folders, ignore_lock):
        record = _record(folders)
        voters = _voters(folders) if record.usable else ()
    other = record.other
    if as_json:
        print_json(
            {
                "copy": record.copy_id,
                "data": record.state.value,
                "sequence": record.sequence,
                "diverged": record.diverged,
                "otherCopy": None if other is None else {"copy": other.copy_id, "connector": other.connector},
                "needsProof": record.shared,
                "voters": list(voters),
            }
        )
        return
    for name, value in (
        ("copy", record.copy_id),
        ("data", f"{record.state.value}{', with messages that no other copy has' if record.diverged else ''}"),
        ("sequence", record.sequence),
        ("other copy", "none" if other is None else f"{other.copy_id} at {other.connector}"),
        ("start", _start(record)),
        ("voters", ", ".join(voters) or "none"),
    ):
        click.echo(f"{name + ':':<12}{value}")


@click.command(name="set", epilog="Example: mqbroker activation set --instance /var/lib/mybroker --sequence 8")
@data_options
@click.option("--sequence", required=True, type=click.IntRange(0), help="At least the highest that `list` shows for any copy.")
def set_sequence(sequence: int, ignore_lock: bool, **options: Any) -> None:
    """Let the broker of this copy become active at its next start without asking anybody.

    Only for the copy with the latest messages, and only while no other copy of the node is active: whatever was acknowledged there and is
    not here is lost. Run `list` for each copy first. Works also with a damaged record.
    """
    import os

    from mqbroker.cli.data.journal_folder import exclusive
    from mqbroker.ha.proof.copy_record import SEQUENCE_MAX, CopyRecord, CopyState, read_record, write_record
    from mqbroker.process.localfs import LocalFileSystem
    from mqbroker.storage.errors import StorageError

    _refuse_to_share(ignore_lock)
    if sequence >= SEQUENCE_MAX:
        raise BadUsage(f"--sequence: {sequence} leaves no room for the next one")
    folders = chosen_folders(options)
    with exclusive(folders, ignore_lock):
        file_system, folder = LocalFileSystem(), folders.node_directory
        try:
            record = read_record(file_system, folder)
        except StorageError:
            record = CopyRecord.first(os.urandom, primary=True)
        if record is None:
            raise CommandError(_NO_RECORD.format(folder=folder))
        if record.state is CopyState.INCOMPLETE:
            raise CommandError(f"{folder}: these data are incomplete, since a copy from another broker was not finished")
        if sequence < record.sequence:
            raise CommandError(f"--sequence: this copy was active at {record.sequence} already")
        made = replace(record, state=CopyState.COMPLETE, sequence=sequence, other=None, diverged=False)
        write_record(file_system, folder, made)
    click.echo(f"the next start of this broker is active at sequence {sequence + 1}")


@click.command(epilog="Example: mqbroker activation forget --instance /var/lib/mybroker --node 2f1b9a3e-77a4-11ef-8a5c-0242ac120002")
@data_options
@click.option("--node", required=True, help="Node id of the voter.")
def forget(node: str, ignore_lock: bool, **options: Any) -> None:
    """Take a node out of the voters of this one, because it never comes back.

    Both copies of a node must count the same voters. So this is for data that no other copy may have: start the broker, or run `set`,
    before.
    """
    from mqbroker.cli.data.journal_folder import exclusive

    _refuse_to_share(ignore_lock)
    folders = chosen_folders(options)
    with exclusive(folders, ignore_lock):
        record = _record(folders)
        voters = _voters(folders)
    if record.shared or not record.complete:
        raise CommandError(f"{folders.journal}: {_start(record)}, so that its list of voters cannot be changed alone")
    if node not in voters:
        raise CommandError(f"--node: {node} is none of the voters ({', '.join(voters) or 'there are none'})")
    _leave(folders, node)
    click.echo(f"{node} is no voter any more")


_NO_RECORD = (
    "{folder}: this broker was never one of a replicated pair, or it has a node-manager-lock-directory, which --instance and --broker find"
)


def _refuse_to_share(ignore_lock: bool) -> None:
    if ignore_lock:
        raise BadUsage("--f: a folder that a broker uses is not written to")


def _record(folders: DataFolders) -> CopyRecord:
    from mqbroker.ha.proof.copy_record import read_record
    from mqbroker.process.localfs import LocalFileSystem

    record = read_record(LocalFileSystem(), folders.node_directory)
    if record is None:
        raise CommandError(_NO_RECORD.format(folder=folders.node_directory))
    return record


def _voters(folders: DataFolders) -> tuple[str, ...]:
    from mqbroker.ha.proof.voters import voters_in
    from mqbroker.process.localfs import LocalFileSystem
    from mqbroker.storage.files.recover import read_settings

    try:
        return voters_in(read_settings(LocalFileSystem(), folders.settings()))
    except ValueError as error:
        raise CommandError(f"{folders.bindings}: {error}") from error


def _start(record: CopyRecord) -> str:
    if record.shared:
        return "this copy needs a proof that no other one is active"
    if record.complete:
        return "this copy needs no proof: no other one has its messages"
    return "this copy needs a full copy of another one first"


def _leave(folders: DataFolders, node_id: str) -> None:
    import os

    from mqbroker.cli.data.here import Here
    from mqbroker.ha.proof.voters import Voters
    from mqbroker.process.localfs import LocalFileSystem
    from mqbroker.storage.errors import StorageError
    from mqbroker.storage.files.filestore import FileStore

    here = Here()
    failures: list[str] = []
    store = FileStore(folders.settings(), LocalFileSystem(), here, here, os.urandom, failures.append)
    try:
        store.open()
        recovered = store.load()
    except (StorageError, OSError) as error:
        raise CommandError(str(error)) from error
    Voters(store, store.node_id, recovered.settings).leave(node_id)
    here.run()
    store.stop(lambda: None)
    here.run()
    if failures:
        raise CommandError(f"{folders.journal}: {failures[0]}")
