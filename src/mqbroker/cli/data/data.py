"""``mqbroker data print|exp|imp|recover``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from mqbroker.cli.options import (
    FILE,
    FOLDER,
    JDBC_NAMES,
    JSON,
    connection_options,
    instance_option,
    together,
    verbose_option,
    without_effect,
)
from mqbroker.cli.output import print_json
from mqbroker.cli.status import CommandError

if TYPE_CHECKING:
    from mqbroker.cli.data.journal_folder import DataFolders
    from mqbroker.cli.options import ConnectionOptions
    from mqbroker.storage.files.recover import SalvagedState


folder_options = together(
    click.argument("configuration", required=False),
    click.option("--broker", type=FILE, help="The broker.xml that names the folders."),
    click.option("--data", type=FOLDER, help="Folder with journal, bindings, large-messages and paging in it."),
    click.option("--journal", type=FOLDER, help="Folder of the messages. Default: as in broker.xml."),
    click.option("--bindings", type=FOLDER, help="Folder of the bindings. Default: as in broker.xml."),
    click.option("--large-messages", type=FOLDER, help="Folder of the large messages. Default: as in broker.xml."),
    click.option("--paging", type=FOLDER, help="Folder of the pages. Default: as in broker.xml."),
)
"""The folders of a store, for a command that has ``--instance`` from elsewhere."""

data_options = together(
    instance_option,
    verbose_option,
    without_effect("--reclaimed"),
    folder_options,
    click.option("--f", "ignore_lock", is_flag=True, help="Read the folder even while a broker uses it. The result may be inconsistent."),
)
database_options = together(
    click.option("--jdbc", is_flag=True, help="The data are in a database: in the one of broker.xml, or of --jdbc-connection-url."),
    click.option(
        "--jdbc-connection-url", metavar="URL", help="The database, such as jdbc:postgresql://host:port/database?user=mq&password=secret."
    ),
    without_effect(values=JDBC_NAMES),
)
"""The database in the place of folders, for the commands that read one."""

_output_option = click.option("--output", type=FILE, help="Write to this file instead of the terminal.")


def chosen_folders(options: dict[str, Any]) -> DataFolders:
    """The folders that the options of :data:`folder_options` name, and ``instance``."""
    from mqbroker.cli.data.journal_folder import chosen_instance, find_folders

    names = ("broker", "data", "journal", "bindings", "large_messages", "paging")
    return find_folders(chosen_instance(options), *(options[name] for name in names))


def _output(stack: ExitStack, file: Path | None) -> TextIO:
    if file is None:
        return sys.stdout
    try:
        return stack.enter_context(file.open("w", encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"--output: {error}") from error


def _complete_output(stack: ExitStack, file: Path | None) -> TextIO:
    """The output as :func:`_output` opens it, in UTF-8, which the head of an export claims.

    A file gets its name, durably, once it is complete: a former export stays until then, and half of one is never taken for a whole one.
    """
    if file is None:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        return sys.stdout
    if file.exists() and not file.is_file():
        return _output(stack, file)
    try:
        return stack.enter_context(_completed(file.resolve()))
    except OSError as error:
        raise CommandError(f"--output: {error}") from error


@contextmanager
def _completed(file: Path) -> Iterator[TextIO]:
    from mqbroker.process.localfs import LocalFileSystem

    partial = file.with_name(f"{file.name}.partial")
    try:
        with partial.open("w", encoding="utf-8") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        partial.replace(file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    LocalFileSystem().sync_directory(str(file.parent))


@click.command(name="print", epilog="Example: mqbroker data print --instance /var/lib/mybroker --safe")
@data_options
@database_options
@_output_option
@click.option("--safe", is_flag=True, help="Leave out the contents of messages.")
@click.option("--skip-bindings", is_flag=True, help="Leave out the bindings journal.")
@click.option("--skip-journal", is_flag=True, help="Leave out the messages journal.")
@without_effect(values=("--max-pages",))
def print_data(output: Path | None, safe: bool, skip_bindings: bool, skip_journal: bool, ignore_lock: bool, **options: Any) -> None:
    """Print the records of the journals of a stopped broker, one per line, with their segment, and a summary at the end.

    Of a broker with a database print what is stored there.
    """
    from mqbroker.cli.data.database import chosen_database, contents_of
    from mqbroker.cli.data.journal_folder import exclusive
    from mqbroker.cli.data.printing import print_journals, print_rows

    database = chosen_database(options)
    parts = {"safe": safe, "bindings": not skip_bindings, "journal": not skip_journal}
    with ExitStack() as stack:
        if database is not None:
            contents = stack.enter_context(contents_of(database, ignore_lock))
            print_rows(contents, _output(stack, output), **parts)
            return
        folders = chosen_folders(options)
        out = _output(stack, output)
        with exclusive(folders, ignore_lock):
            print_journals(folders, out, **parts)


@click.command(epilog="Example: mqbroker data exp --instance /var/lib/mybroker --output exp.xml")
@data_options
@database_options
@_output_option
def exp(output: Path | None, ignore_lock: bool, **options: Any) -> None:
    """Export queues and messages of a stopped broker as XML, which `artemis data imp` can also read."""
    from mqbroker.cli.data.database import chosen_database, contents_of
    from mqbroker.cli.data.export import export, of_files, of_rows
    from mqbroker.cli.data.journal_folder import exclusive, load_state

    database = chosen_database(options)
    with ExitStack() as stack:
        if database is not None:
            data = of_rows(stack.enter_context(contents_of(database, ignore_lock)))
        else:
            folders = chosen_folders(options)
            stack.enter_context(exclusive(folders, ignore_lock))
            data = of_files(load_state(folders), folders)
        queues, messages = export(data, _complete_output(stack, output))
    if data.prepared:
        click.echo(
            f"{data.prepared} prepared XA branches are not exported: "
            "messages that they sent are left out, those that they consumed are not",
            err=True,
        )
    if output is not None:
        click.echo(f"exported {queues} queues and {messages} messages to {output}")


@click.command(epilog="Example: mqbroker data imp --input exp.xml --user admin --password secret")
@click.option("--input", "file", type=FILE, default=Path("exp.dmp"), show_default=True, help="File to read.")
@click.option("--legacy-prefixes", is_flag=True, help="Keep the prefixes jms.queue. and jms.topic. of old exports.")
@click.option("--sort", is_flag=True, help="Sort the messages by id, for a file in which they are not sorted; holds all of them in memory.")
@connection_options
def imp(connection: ConnectionOptions, file: Path, legacy_prefixes: bool, sort: bool) -> None:
    """Import an XML export of mqbroker or Artemis into a running broker.

    Missing addresses and queues are created. Messages are sent in transactions of 500 to exactly the queues that held them, and all of
    them become durable. The user needs the permission manage.
    """
    from mqbroker.cli.connection import broker_url
    from mqbroker.cli.data.importing import Importer
    from mqbroker.cli.data.sessions import core_sessions
    from mqbroker.cli.management import management
    from mqbroker.cli.progress import progress
    from mqclient.urls import masked

    click.echo(f"Connection brokerURL = {masked(broker_url(connection))}")
    with core_sessions(connection) as (runner, open_session):
        admin, sender = open_session(), open_session(auto_commit_sends=False)
        with management(replace(connection, quiet=True)) as asked, progress(0, "Importing", False) as advance:
            counts = Importer(runner, admin, sender, legacy_prefixes, asked.queue_id).run(file, sort, advance)
    click.echo(f"imported {counts.messages} messages; created {counts.addresses} addresses and {counts.queues} queues")


@click.command(epilog="Example: mqbroker data recover --instance /var/lib/mybroker --target /var/lib/mybroker/recovered")
@data_options
@database_options
@click.option("--target", required=True, type=FOLDER, help="New folder for everything that can be saved.")
@click.option("--output", type=FILE, help="Write the list to this file instead of the terminal.")
@JSON
def recover(target: Path, output: Path | None, as_json: bool, ignore_lock: bool, **options: Any) -> None:
    """Save everything readable in a damaged journal to a new one, and list what is lost.

    The old folders are not changed. Messages whose acknowledgement is lost are delivered again. Of a database all readable rows are saved.
    """
    from mqbroker.cli.data.database import chosen_database, contents_of
    from mqbroker.cli.data.journal_folder import DataFolders, exclusive
    from mqbroker.cli.data.recover import salvage, salvage_rows, write_journal

    database = chosen_database(options)
    folders = chosen_folders(options) if database is None else None
    if target.exists() and any(target.iterdir()):
        raise CommandError(f"--target: {target} exists and is not empty")
    new = DataFolders(target / "journal", target / "bindings", target / "large-messages")
    if database is not None:
        with contents_of(database, ignore_lock) as contents:
            found, saved = salvage_rows(contents, new)
    elif folders is not None:
        with exclusive(folders, ignore_lock):
            found = salvage(folders)
            saved = len(found.state.messages)
            write_journal(found, folders, new)
    with ExitStack() as stack:
        try:
            out = _output(stack, output)
        except CommandError:
            _report(found, saved, target, sys.stdout, as_json)  # the target is no longer empty, so that another run would be refused
            raise
        _report(found, saved, target, out, as_json)


def _report(found: SalvagedState, saved: int, target: Path, out: TextIO, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "messages": saved,
                "losses": [
                    {"file": loss.file, "start": loss.offset, "end": loss.offset + loss.size, "messageIDs": list(loss.message_ids)}
                    for loss in found.losses
                ],
                "withoutQueue": found.without_queue,
                "withoutBranch": found.without_branch,
                "withoutPage": found.without_page,
                "missingBodies": list(found.missing_bodies),
                "target": str(target),
            },
            out,
        )
        return
    for loss in found.losses:
        ids = ", ".join(map(str, loss.message_ids)) or "none could be identified"
        end = loss.offset + loss.size
        click.echo(f"LOST {loss.file}: bytes {loss.offset} to {end} cannot be read; message ids: {ids}", out)
    for message_ids, reason in (
        (found.without_queue, "a queue that it was on is no longer known"),
        (found.without_branch, "it was sent in an XA branch that is no longer known"),
        (found.without_page, "it is in a page, and nothing that can be read says that it counts"),
        (found.missing_bodies, "the file of its large body is missing"),
    ):
        for message_id in message_ids:
            click.echo(f"LOST message {message_id}: {reason}", out)
    click.echo(f"recovered {saved} messages into {target}", out)
