"""``mqbroker data merge``."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mqbroker.cli.data.data import chosen_folders, folder_options
from mqbroker.cli.options import JSON, connection_options
from mqbroker.cli.output import print_json
from mqbroker.cli.status import CommandError

if TYPE_CHECKING:
    from mqbroker.cli.data.merge.sending import Plan, Target
    from mqbroker.cli.management import Management
    from mqbroker.cli.options import ConnectionOptions
    from mqclient.blocking import Runner
    from mqclient.core.api import ClientSession


@click.command(epilog="Example: mqbroker data merge --instance /var/lib/mybroker --url tcp://other:61616 --user admin --password secret")
@folder_options
@click.option(
    "--former", type=click.IntRange(1), help="The n of the oldreplica.n to compare. Default: the highest that was kept after a split."
)
@click.option("--send", "sending", is_flag=True, help="Send the missing messages. Default: a dry run, which changes nothing.")
@click.option(
    "--include-undecided", "with_undecided", is_flag=True, help="Count messages as missing that the running broker may have consumed."
)
@JSON
@connection_options
def merge(connection: ConnectionOptions, /, former: int | None, sending: bool, with_undecided: bool, as_json: bool, **options: Any) -> None:
    """After a split, give the running broker the messages that only a kept journal has.

    The folders are those of the broker that gave way, with oldreplica.n in them; the URL is that of the broker that is active now. The kept
    journal is only read. A message is sent with a duplicate id to exactly the queues that held it, so a second run adds nothing. The user
    needs the permission manage.
    """
    from mqbroker.cli.connection import broker_url
    from mqbroker.cli.data.merge.comparison import compare
    from mqbroker.cli.data.merge.report import Report
    from mqbroker.cli.data.merge.sending import make_plan, send
    from mqbroker.cli.data.merge.split import kept_folders, read_split
    from mqbroker.cli.data.sessions import core_sessions
    from mqbroker.cli.management import management
    from mqbroker.cli.progress import progress
    from mqbroker.process.localfs import LocalFileSystem
    from mqclient.errors import MalformedPacketError
    from mqclient.urls import masked

    folders = chosen_folders({**options, "instance": connection.instance})
    file_system = LocalFileSystem()
    kept = kept_folders(file_system, folders, former)
    if not as_json:
        click.echo(f"Connection brokerURL = {masked(broker_url(connection))}")
    with management(replace(connection, quiet=True)) as asked, core_sessions(connection) as (runner, open_session):
        split = read_split(file_system, kept, folders)
        _check_node(asked, split.node_id)
        session = open_session()
        try:
            comparison = compare(split.kept, split.running, split.common)
            plan = make_plan(split, comparison, kept, with_undecided, lambda name: _target(runner, session, asked, name))
        except MalformedPacketError as error:
            raise CommandError(f"{kept.journal}: {error}") from error
        problem = _id_cache_problem(plan, runner, session)
        sent = None
        if sending and not problem:
            with progress(len(plan.to_send), "Sending", as_json) as advance:
                sent = send(plan.to_send, kept, runner, session, advance)
    report = Report(kept, split, comparison, plan, with_undecided, sent)
    if as_json:
        print_json(report.as_json())
    else:
        report.print(connection.verbose)
    if problem:
        raise CommandError(problem)


def _check_node(asked: Management, node_id: bytes) -> None:
    kept, running = str(uuid.UUID(bytes=node_id)), str(asked.attribute("broker", "NodeID"))
    if kept != running:
        raise CommandError(f"the kept journal is of node {kept}, and the running broker is node {running}")


def _target(runner: Runner, session: ClientSession, asked: Management, name: str) -> Target | None:
    from mqbroker.cli.data.merge.sending import Target

    found = runner.call(session.queue_query, name)
    return Target(found.address, asked.queue_id(name)) if found.exists else None


def _id_cache_problem(plan: Plan, runner: Runner, session: Any) -> str:
    from mqbroker.cli.data.merge.sending import id_cache_problem

    call: Callable[..., Any] = runner.call
    caches = {address: call(session.readers.id_cache, address) for address in plan.ids()}
    if not all(cache.persisted for cache in caches.values()):
        click.echo("the running broker forgets duplicate ids when it ends (persist-id-cache): make no further run after that", err=True)
    return id_cache_problem(plan, {address: int(cache.size) for address, cache in caches.items()})
