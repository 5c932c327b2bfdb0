"""``mqbroker queue stat``."""

from __future__ import annotations

import json
import time
from typing import Any, Final

import click

from mqbroker.cli.cluster.nodes import rows
from mqbroker.cli.management import Management, management
from mqbroker.cli.options import JSON, ConnectionOptions, connection_options
from mqbroker.cli.output import print_json, table
from mqbroker.cli.queues.queue_sums import MANAGEMENT_QUEUES, clustered_queues, selected
from mqbroker.cli.status import BadUsage

_COLUMNS: Final[dict[str, str]] = {
    "NAME": "name",
    "ADDRESS": "address",
    "CONSUMER_COUNT": "consumerCount",
    "MESSAGE_COUNT": "messageCount",
    "MESSAGES_ADDED": "messagesAdded",
    "DELIVERING_COUNT": "deliveringCount",
    "MESSAGES_ACKED": "messagesAcked",
    "SCHEDULED_COUNT": "scheduledCount",
    "ROUTING_TYPE": "routingType",
    "INTERNAL": "internalQueue",
}
_OPERATIONS: Final = ("CONTAINS", "NOT_CONTAINS", "EQUALS", "NOT_EQUALS", "GREATER_THAN", "LESS_THAN")


@click.command(epilog="Example: mqbroker queue stat --field MESSAGE_COUNT --operation GREATER_THAN --value 0 --json")
@click.option("--queueName", "queue_name", help="Only queues with this text in their name.")
@click.option(
    "--field",
    type=click.Choice([*_COLUMNS], case_sensitive=False),
    metavar="COLUMN",
    help="Column to filter by; needs --operation and --value.",
)
@click.option(
    "--operation",
    type=click.Choice(_OPERATIONS, case_sensitive=False),
    metavar="OPERATION",
    help=f"How --field and --value are compared: {', '.join(_OPERATIONS)}.",
)
@click.option("--value", help="Value that --field is compared with.")
@click.option("--maxRows", "max_rows", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of queues to show.")
@click.option(
    "--maxColumnSize", "max_width", type=int, default=25, show_default=True, help="Maximum width of a column, in characters; -1: no limit."
)
@click.option("--single-line-header", "one_line", is_flag=True, help="Print the titles in one line, and all columns flush left.")
@click.option("--internal", is_flag=True, help="Also show the queues that brokers use internally, for example between cluster members.")
@click.option("--include-management", is_flag=True, help="Also show the reply queues of management clients.")
@click.option("--clustered", is_flag=True, help="Show the sums over all members of the cluster.")
@click.option("--per-node", is_flag=True, help="With --clustered: add a column for each node, with the number of its messages.")
@click.option("--loop", is_flag=True, help="Repeat the output until Ctrl-C.")
@click.option("--sleep", type=click.IntRange(1), default=60_000, show_default=True, help="Milliseconds between two rounds of --loop.")
@JSON
@connection_options
def stat(
    connection: ConnectionOptions,
    queue_name: str | None,
    field: str | None,
    operation: str | None,
    value: str | None,
    max_rows: int,
    max_width: int,
    one_line: bool,
    internal: bool,
    include_management: bool,
    clustered: bool,
    per_node: bool,
    loop: bool,
    sleep: int,
    as_json: bool,
) -> None:
    """Print the counters of queues.

    CONSUMER_COUNT: consumers. MESSAGE_COUNT: messages in the queue, including scheduled, paged, and delivered but unacknowledged ones.
    MESSAGES_ADDED: routed to the queue since the start. DELIVERING_COUNT: delivered and not acknowledged. MESSAGES_ACKED: acknowledged
    since the start. Filter EITHER by --queueName OR by --field, --operation and --value. Queues that brokers use internally come last, and
    without a filter are shown only with --internal.
    """
    internal = internal or queue_name is not None or field is not None
    wanted = _filter(queue_name, field, operation, value)
    connection.quiet = as_json
    if per_node and not clustered:
        raise BadUsage("--per-node can only be used with --clustered")
    with management(connection) as broker:
        while True:
            nodes: list[dict[str, Any]] = []
            if clustered:
                queues, nodes = clustered_queues(connection, broker, management, wanted, include_management)
                for each in nodes:
                    if "error" in each:
                        click.echo(f"WARNING: {each['nodeID']} at {each['primary']} is not counted: {each['error']}", err=True)
            else:
                queues = _queues(broker, wanted, include_management)
            found = selected(queues, max_rows, internal)
            if as_json:
                print_json(found | ({"nodes": nodes} if clustered else {}))
            else:
                _print(found, {each["nodeID"]: each["name"] for each in nodes} if per_node else {}, max_width, one_line)
            if not loop:
                return
            time.sleep(sleep / 1000)


def _print(found: dict[str, Any], nodes: dict[str, str], max_width: int, one_line: bool) -> None:
    """Print the table, with a column for each of ``nodes`` (name by node id), and a line about queues that are not in it."""
    lines = [
        [*(str(entry.get(key, "")) for key in _COLUMNS.values()), *(str(entry["nodes"].get(node, "")) for node in nodes)]
        for entry in found["data"]
    ]
    titles = [*_COLUMNS, *(name.upper() for name in nodes.values())]
    click.echo(table(titles, lines, max_width=max_width, one_line_header=one_line))
    if found["count"] > len(lines):
        click.echo(f"WARNING: the displayed queues are {len(lines)}/{found['count']}, set maxRows to display more queues.")
    if found["leftOut"]:
        click.echo(f"Internal queues that are not shown: {found['leftOut']} (--internal shows them)")


def _filter(queue_name: str | None, field: str | None, operation: str | None, value: str | None) -> dict[str, str]:
    """As ``listQueues`` takes it."""
    given = [part is not None for part in (field, operation, value)]
    if queue_name is not None and any(given):
        raise BadUsage("either --queueName or --field, --operation and --value")
    if any(given) and not all(given):
        raise BadUsage("--field, --operation and --value go together")
    if queue_name is not None:
        field, operation, value = "NAME", "CONTAINS", queue_name
    column = "" if field is None else _COLUMNS[field.upper()]
    return {"field": column, "operation": (operation or "").upper(), "value": value or "", "sortField": "name", "sortOrder": "asc"}


def _queues(broker: Management, wanted: dict[str, str], include_management: bool) -> list[dict[str, Any]]:
    """The queues that match, without the one on which our own answers come."""
    return [
        entry
        for entry in rows(broker, "broker", "listQueues", json.dumps(wanted))
        if entry.get("name") != broker.reply_queue and (include_management or not str(entry.get("name")).startswith(MANAGEMENT_QUEUES))
    ]
