"""``mqbroker activation list|set|forget``: the operator's way out when no copy of a replicated node can get its proof (decision 36)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mqbroker.cli.data.data import chosen_folders, data_options
from mqbroker.cli.options import JSON
from mqbroker.cli.output import print_json
from mqbroker.cli.status import BadUsage, CommandError

if TYPE_CHECKING:
    from uuid import UUID

    from mqbroker.cli.data.journal_folder import DataFolders
    from mqbroker.config.model.cluster import ReplicationConfiguration
    from mqbroker.ha.proof.copy_record import CopyRecord


_LOCAL = click.option("--local", "only_local", is_flag=True, help="Only what this copy has.")
_REMOTE = click.option("--remote", "only_remote", is_flag=True, help="Only what the lock manager has (the coordinated sequence).")


@click.command(name="list", epilog="Example: mqbroker activation list --instance /var/lib/mybroker")
@data_options
@_LOCAL
@_REMOTE
@click.option("--node-id", type=click.UUID, help="With --remote: another node than that of this broker.")
@JSON
def list_record(as_json: bool, only_local: bool, only_remote: bool, node_id: UUID | None, ignore_lock: bool, **options: Any) -> None:
    """Print what a copy of a replicated node knows of itself, of the other copy and of its voters.

    With a lock manager in the broker.xml also the activation sequence that it has. --remote works while brokers run, too.
    """
    from mqbroker.cli.data.coordinated import connected, node_name

    if node_id is not None and not only_remote:
        raise BadUsage("--node-id needs --remote")
    folders, policy = _sides(only_local, only_remote, options)
    record = None if only_remote else _shown(folders, ignore_lock)
    number: tuple[str, int] | None = None
    if policy is not None:
        name = node_name(policy, folders, None if node_id is None else str(node_id))
        with connected(policy) as manager:
            number = name, manager.number(name)
    if as_json:
        known = {} if number is None else {"nodeID": number[0], "coordinatedSequence": number[1]}
        print_json({**({} if record is None else _json(*record)), **known})
        return
    lines = [] if record is None else _lines(*record)
    if number is not None:
        lines += _number_lines(*number, None if record is None else record[0])
    for name, value in lines:
        click.echo(f"{name + ':':<12}{value}")


def _sides(only_local: bool, only_remote: bool, options: dict[str, Any]) -> tuple[DataFolders, ReplicationConfiguration | None]:
    """The folders, and the policy of the broker if its lock manager is to be asked.  Raises BadUsage."""
    from mqbroker.cli.data.coordinated import NO_MANAGER, lock_policy

    if only_local and only_remote:
        raise BadUsage("--local and --remote: without either the command is about both")
    folders = chosen_folders(options)
    policy = None if only_local else lock_policy(options)
    if only_remote and policy is None:
        raise BadUsage(NO_MANAGER)
    return folders, policy


def _shown(folders: DataFolders, ignore_lock: bool) -> tuple[CopyRecord, Sequence[str]]:
    """The record and the voters."""
    from mqbroker.cli.data.journal_folder import exclusive

    with exclusive(folders, ignore_lock):
        record = _record(folders)
        return record, _voters(folders) if record.usable else ()


def _json(record: CopyRecord, voters: Sequence[str]) -> dict[str, object]:
    other = record.other
    return {
        "copy": record.copy_id,
        "data": record.state.value,
        "sequence": record.sequence,
        "diverged": record.diverged,
        "otherCopy": None if other is None else {"copy": other.copy_id, "connector": other.connector},
        "needsProof": record.shared,
        "voters": list(voters),
    }


def _lines(record: CopyRecord, voters: Sequence[str]) -> list[tuple[str, object]]:
    other = record.other
    return [
        ("copy", record.copy_id),
        ("data", f"{record.state.value}{', with messages that no other copy has' if record.diverged else ''}"),
        ("sequence", record.sequence),
        ("other copy", "none" if other is None else f"{other.copy_id} at {other.connector}"),
        ("start", _start(record)),
        ("voters", ", ".join(voters) or "none"),
    ]


def _number_lines(name: str, number: int, record: CopyRecord | None) -> Iterator[tuple[str, object]]:
    """The number that the lock manager has for a node, as lines to print."""
    from mqbroker.cli.data.coordinated import verdict

    claimed = f", which is claimed and was not reached (it was {-number - 1})" if number < 0 else ""
    yield "node", name
    yield "number", f"{abs(number)}{claimed}"
    if record is not None:
        yield "may start", verdict(number, record)


@click.command(name="set", epilog="Example: mqbroker activation set --instance /var/lib/mybroker --to 8")
@data_options
@click.option(
    "--to", "--sequence", "sequence", required=True, type=click.IntRange(0), help="At least the highest that `list` shows for any copy."
)
@_LOCAL
@_REMOTE
@click.option("--node-id", type=click.UUID, help="Of the node; also that of this broker from now on, unless --remote.")
def set_sequence(sequence: int, only_local: bool, only_remote: bool, node_id: UUID | None, ignore_lock: bool, **options: Any) -> None:
    """Let the broker of this copy become active at its next start.

    Without a lock manager it asks nobody then. With one in the broker.xml the lock manager's activation sequence is set, too, so that this
    copy counts as the newest. Only for the copy with the latest messages, and only while no other copy of the node is active: whatever was
    acknowledged there and is not here is lost. Run `list` for each copy first. Works also with a damaged record.
    """
    from mqbroker.cli.data.coordinated import held_number, node_name, set_number
    from mqbroker.cli.data.journal_folder import exclusive
    from mqbroker.ha.proof.copy_record import SEQUENCE_MAX

    _refuse_to_share(ignore_lock)
    if sequence >= SEQUENCE_MAX:
        raise BadUsage(f"--to: {sequence} leaves no room for the next one")
    folders, policy = _sides(only_local, only_remote, options)
    asked = None if node_id is None else str(node_id)
    with ExitStack() as stack:
        if not only_remote:
            stack.enter_context(exclusive(folders, False))
        if policy is not None:
            name = node_name(policy, folders, asked)
            manager = stack.enter_context(held_number(policy, name))
        if not only_remote:
            _set_local(folders, sequence, asked)
        if policy is not None:
            set_number(manager, name, sequence)
    if not only_remote:
        click.echo(f"the next start of this broker is active at sequence {sequence + 1}")


def _set_local(folders: DataFolders, sequence: int, node_id: str | None) -> None:
    import os

    from mqbroker.ha.proof.copy_record import CopyRecord, CopyState, read_record, write_record
    from mqbroker.process.localfs import LocalFileSystem
    from mqbroker.storage.errors import StorageError

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
        raise CommandError(f"--to: this copy was active at {record.sequence} already")
    if node_id is not None:
        _force_node_id(folders, node_id)
    made = replace(record, state=CopyState.COMPLETE, sequence=sequence, other=None, diverged=False)
    write_record(file_system, folder, made)


def _force_node_id(folders: DataFolders, node_id: str) -> None:
    from mqbroker.process.localfs import LocalFileSystem
    from mqbroker.storage.disk.nodelock import NodeLock
    from mqbroker.storage.files.folders import journal_node_id

    lock = NodeLock(LocalFileSystem(), folders.node_directory)
    if lock.node_id() == node_id:
        return
    if journal_node_id(LocalFileSystem(), folders.settings()) is not None:
        raise CommandError(f"--node-id: {folders.journal} has data of the node {lock.node_id()}, which cannot become those of another one")
    lock.write_node_id(node_id)


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


def _voters(folders: DataFolders) -> Sequence[str]:
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
    from mqbroker.cli.data.here import written_store
    from mqbroker.ha.proof.voters import Voters
    from mqbroker.storage.errors import StorageError

    with written_store(folders) as (store, here):
        try:
            store.open()
            recovered = store.load()
        except (StorageError, OSError) as error:
            raise CommandError(str(error)) from error
        Voters(store, store.node_id, recovered.settings).leave(node_id)
        here.run()
