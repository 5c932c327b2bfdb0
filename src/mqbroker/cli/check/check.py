"""``mqbroker check node`` and ``mqbroker check queue``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from mqbroker.cli.cluster.nodes import topology
from mqbroker.cli.connection import connected, reason
from mqbroker.cli.management import Management, ManagementError, MissingResource
from mqbroker.cli.options import JSON, ConnectionOptions, ask, connection_options, without_effect
from mqbroker.cli.output import print_json
from mqbroker.cli.status import CommandError

if TYPE_CHECKING:
    from mqclient.jms import Connection, Destination


class CheckFailed(Exception):
    """A check has failed."""


@dataclass(slots=True)
class Check:
    """One check: its description, and a function that raises :class:`CheckFailed`."""

    text: str
    run: Callable[[], None]


_FAIL_AT_END = click.option("--fail-at-end", is_flag=True, help="Continue with the other checks after one has failed.")
_TIMEOUT = click.option(
    "--timeout", type=click.IntRange(1), default=30_000, show_default=True, help="Milliseconds that all checks together may take."
)


def run_checks(title: str, checks: Sequence[Check], *, fail_at_end: bool, timeout: int, as_json: bool) -> None:
    """Run the checks in their order and print the outcome.  Raises :class:`CommandError` when one failed or could not be made."""
    started = time.monotonic()
    results: list[dict[str, Any]] = []
    problem: str | None = None
    if not as_json:
        click.echo(f"Running {title}")
    for check in checks:
        outcome = "skipped" if problem and not fail_at_end else _outcome(check, started + timeout / 1000)
        results.append({"check": check.text, "outcome": outcome})
        if not as_json and outcome != "skipped":
            click.echo(f"Checking that {check.text} ... {outcome}")
        if problem is None and outcome not in ("success", "skipped"):
            problem = outcome
    seconds = time.monotonic() - started
    kinds = [str(result["outcome"]).partition(":")[0] for result in results]
    counts = {"failures": kinds.count("failure"), "errors": kinds.count("error"), "skipped": kinds.count("skipped")}
    if as_json:
        print_json({"name": title, "checks": results, "run": len(results), **counts, "seconds": round(seconds, 3)})
    else:
        click.echo(
            f"Checks run: {len(results)}, Failures: {counts['failures']}, Errors: {counts['errors']}, Skipped: {counts['skipped']}, "
            f"Time elapsed: {seconds:.3f} sec - {title}"
        )
    if problem is not None:
        raise CommandError(f"{title} failed. Reason: {problem}")


def _outcome(check: Check, deadline: float) -> str:
    from mqclient.jms import JMSException

    if time.monotonic() > deadline:
        return "error: the time for the checks is over (--timeout)"
    try:
        check.run()
    except (CheckFailed, MissingResource) as error:
        return f"failure: {error}"
    except (ManagementError, JMSException) as error:
        return f"error: {reason(error)}"
    return "success"


@click.command(epilog="Example: mqbroker check node --up --diskUsage -1 --memoryUsage 90")
@click.option("--up", is_flag=True, help="Check that the broker has started. This is the default check.")
@click.option(
    "--diskUsage",
    "disk_usage",
    type=click.IntRange(-1, 100),
    help="Check that less than this percentage of the disk is used; -1: less than max-disk-usage.",
)
@click.option(
    "--memoryUsage",
    "memory_usage",
    type=click.IntRange(0, 100),
    help="Check that messages take less than this percentage of global-max-size.",
)
@click.option("--primary", "--live", "primary", is_flag=True, help="Check that the node is in the topology with a primary.")
@click.option("--backup", is_flag=True, help="Check that the node has a backup in the topology.")
@click.option("--peers", type=click.IntRange(1), help="Check that the topology has this many nodes with a primary.")
@_FAIL_AT_END
@_TIMEOUT
@without_effect(values=("--name",))
@JSON
@connection_options
def node(
    connection: ConnectionOptions,
    up: bool,
    disk_usage: int | None,
    memory_usage: int | None,
    primary: bool,
    backup: bool,
    peers: int | None,
    fail_at_end: bool,
    timeout: int,
    as_json: bool,
) -> None:
    """Check a node."""
    connection.quiet = as_json
    with connected(connection) as opened:
        broker = Management(opened)
        checks: list[Check] = []
        if up or not (disk_usage is not None or memory_usage is not None or primary or backup or peers is not None):
            checks.append(Check("the node is started", lambda: _started(broker)))
        if disk_usage is not None:
            limit = "the max-disk-usage" if disk_usage == -1 else str(disk_usage)
            checks.append(Check(f"the disk usage is less than {limit}", lambda: _disk_usage(broker, disk_usage)))
        if memory_usage is not None:
            checks.append(Check(f"the memory usage is less than {memory_usage}", lambda: _memory_usage(broker, memory_usage)))
        if primary:
            checks.append(Check("the node has a primary", lambda: _in_topology(broker, "primary")))
        if backup:
            checks.append(Check("the node has a backup", lambda: _in_topology(broker, "backup")))
        if peers is not None:
            checks.append(Check(f"there are {peers} peers", lambda: _peers(broker, peers)))
        run_checks("NodeCheck", checks, fail_at_end=fail_at_end, timeout=timeout, as_json=as_json)


def _started(broker: Management) -> None:
    if not broker.attribute("broker", "Started"):
        raise CheckFailed("The node is not started")


def _disk_usage(broker: Management, limit: int) -> None:
    if limit == -1:
        limit = int(broker.attribute("broker", "MaxDiskUsage"))
    used = float(broker.attribute("broker", "DiskStoreUsage")) * 100
    if limit >= 0 and used >= limit:
        raise CheckFailed(f"The disk usage {used:.0f} is not less than {limit}")


def _memory_usage(broker: Management, limit: int) -> None:
    used = int(broker.attribute("broker", "AddressMemoryUsagePercentage"))
    if used >= limit:
        raise CheckFailed(f"The memory usage {used} is not less than {limit}")


def _in_topology(broker: Management, role: str) -> None:
    node_id = broker.attribute("broker", "NodeID")
    if not any(member.get("nodeID") == node_id and member.get(role) for member in topology(broker)):
        raise CheckFailed(f"No {role} of the node {node_id} in the topology")


def _peers(broker: Management, wanted: int) -> None:
    found = sum(1 for member in topology(broker) if member.get("primary"))
    if found < wanted:
        raise CheckFailed(f"Insufficient peers: {found}")


@click.command(epilog="Example: mqbroker check queue --name orders --produce 1 --consume 1")
@click.option("--name", help="Name of the queue.")
@click.option("--up", is_flag=True, help="Check that the queue exists and is not paused. This is the default check.")
@click.option("--produce", type=click.IntRange(1), help="Send this many messages.")
@click.option("--browse", type=click.IntRange(-1), help="Browse this many messages; -1: only check that the queue can be browsed.")
@click.option("--consume", type=click.IntRange(-1), help="Consume this many messages; -1: only check that the queue can be consumed from.")
@_FAIL_AT_END
@_TIMEOUT
@JSON
@connection_options
def queue(
    connection: ConnectionOptions,
    name: str | None,
    up: bool,
    produce: int | None,
    browse: int | None,
    consume: int | None,
    fail_at_end: bool,
    timeout: int,
    as_json: bool,
) -> None:
    """Check a queue.

    --consume removes messages from the queue, whichever are there, including those of applications.
    """
    connection.quiet = as_json
    wanted = name or ask("name of the queue", "--name", connection)
    with connected(connection) as opened:
        broker = Management(opened)
        checks: list[Check] = []
        if up or (produce is None and browse is None and consume is None):
            checks.append(Check(f"the queue {wanted} exists and is not paused", lambda: _not_paused(broker, wanted)))
        if produce is not None:
            text = f"a producer can send {produce} messages to the queue {wanted}"
            checks.append(Check(text, lambda: _produce(opened, _destination(broker, wanted), produce)))
        if browse is not None:
            text = f"a consumer can browse {'' if browse == -1 else f'{browse} messages from '}the queue {wanted}"
            checks.append(Check(text, lambda: _browse(opened, _destination(broker, wanted), browse)))
        if consume is not None:
            text = f"a consumer can consume {'' if consume == -1 else f'{consume} messages from '}the queue {wanted}"
            checks.append(Check(text, lambda: _consume(opened, _destination(broker, wanted), consume, timeout)))
        run_checks("QueueCheck", checks, fail_at_end=fail_at_end, timeout=timeout, as_json=as_json)


def _not_paused(broker: Management, name: str) -> None:
    if broker.attribute(f"queue.{name}", "Paused"):
        raise CheckFailed(f"The queue {name} is paused")


def _destination(broker: Management, name: str) -> Destination:
    from mqclient.jms import Queue

    return Queue(f"{broker.attribute(f'queue.{name}', 'Address')}::{name}")


def _produce(connection: Connection, destination: Destination, count: int) -> None:
    with connection.create_session() as session, session.create_producer(destination) as producer:
        for number in range(count):
            producer.send(session.create_text_message(f"CHECK_MESSAGE {number}"))


def _browse(connection: Connection, destination: Destination, count: int) -> None:
    from mqclient.jms import Queue

    assert isinstance(destination, Queue)
    with connection.create_session() as session, session.create_browser(destination) as browser:
        if count == -1:
            next(iter(browser), None)
            return
        seen = 0
        for _ in browser:
            seen += 1
            if seen >= count:
                return
        if seen < count:
            raise CheckFailed(f"Insufficient messages to browse: {seen}")


def _consume(connection: Connection, destination: Destination, count: int, timeout: int) -> None:
    with connection.create_session() as session, session.create_consumer(destination) as consumer:
        if count == -1:
            return
        deadline = time.monotonic() + timeout / 1000
        for number in range(count):
            if consumer.receive(max(0, int((deadline - time.monotonic()) * 1000))) is None:
                raise CheckFailed(f"Insufficient messages to consume: {number}")
