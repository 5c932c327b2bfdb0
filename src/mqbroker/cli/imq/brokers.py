"""``mqbroker imq … bkr`` and ``… cls``: a broker and its cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from mqbroker.cli.imq.tables import nested, properties, table
from mqbroker.cli.imq.target import ON_BROKER, Target, attributes_option, listed, parse_attributes, target_options
from mqbroker.cli.status import CommandError


@click.command(epilog="Example: mqbroker imq list bkr -b localhost:7676 -u admin -passfile passfile")
@target_options
def list_brokers(target: Target) -> None:
    """List the brokers of the cluster, also those that are down."""
    opening = "Listing all the brokers in the cluster that the following broker is a member of:"
    try:
        found = target.run("Listing the brokers in the cluster failed.", "listBrokers")
    except CommandError:
        target.open(opening)
        raise
    target.open(opening, broker_id=found.get("brokerID"))
    enhanced = found["clusterIsHighlyAvailable"]
    head = properties([[("Cluster ID", found["clusterID"]), ("Cluster is Highly Available", "true" if enhanced else "false")]], gap=3)
    target.show(found, f"{head}\n\n{_members(found['brokers']) if enhanced else _places(found['brokers'])}")
    target.tell("Successfully listed brokers in the cluster.")


def _places(rows: Sequence[Mapping[str, Any]]) -> str:
    return table(("Address", "State"), [(row["address"], row["state"]) for row in rows], gap=3, centred=True)


_MEMBER: Sequence[tuple[str, str, Callable[[Mapping[str, Any]], str]]] = (
    ("", "Broker ID", lambda row: row["brokerID"]),
    ("", "Address", lambda row: row["address"]),
    ("", "State", lambda row: row["state"]),
    ("", "Msgs in store", lambda row: _known(row["messages"])),
    ("ID of broker", "performing takeover", lambda row: row["takeoverBrokerID"]),
    ("Time since last", "status timestamp", lambda row: _known(row["statusAgeMs"], shown_age)),
)
"""The columns of a member of an enhanced cluster: a title in two lines, and the value."""
_TAKER = _MEMBER[4]


def _members(rows: Sequence[Mapping[str, Any]], columns: Sequence[tuple[str, str, Callable[[Mapping[str, Any]], str]]] = _MEMBER) -> str:
    above, titles, values = zip(*columns, strict=True)
    cells = [[value(row) for value in values] for row in rows]
    return table(titles, cells, [(title, 1) for title in above], gap=3, centred=True)


def _known(value: int | None, shown: Callable[[int], str] = str) -> str:
    """Nothing while the database does not say it."""
    return "" if value is None else shown(value)


def shown_age(ms: int) -> str:
    """A time as ``imqcmd`` writes it: in the greatest unit of which there is one."""
    for unit, size in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)):
        if ms >= size:
            return f"{ms // size} {unit}{'s' if ms >= 2 * size else ''}"
    seconds = max(ms, 0) // 1000
    return f"{seconds} second{'' if seconds == 1 else 's'}"


@click.command(epilog="Example: mqbroker imq takeover bkr -n b2 -b b1:7676")
@click.option("-n", "member", required=True, help="The id of the broker to take over (imq.brokerid).")
@target_options
def take_over(target: Target, member: str) -> None:
    """Let a broker of an enhanced cluster take over the messages and clients of another one, which should have stopped."""
    failed = "Performing takeover failed."
    target.open("Taking over another broker where:", "The broker performing the takeover:")
    found = target.run(failed, "listBrokers")
    if not found["clusterIsHighlyAvailable"]:
        raise CommandError(f"The broker does not support takeover operation.\n\n{failed}")
    rows = [row for row in found["brokers"] if row["brokerID"] == member]
    if not rows:
        raise CommandError(f"Cannot find broker with ID '{member}' in the cluster.\n\n{failed}")
    target.tell("The broker whose store will be taken over:")
    target.tell()
    target.tell(_members(rows, [column for column in _MEMBER if column is not _TAKER]))
    target.tell()
    if target.confirmed("Are you sure you want to takeover the broker?", "The broker specified was not taken over."):
        target.run(failed, "takeOver", member)
        target.tell("Successfully performed broker takeover.")


@click.command(epilog="Example: mqbroker imq query bkr --origin")
@click.option("--origin", is_flag=True, help="Show each property with its value, and which file or option gives it.")
@target_options
def query_broker(target: Target, origin: bool) -> None:
    """Show everything about a broker, or where its properties come from."""
    target.open("Querying the broker specified by:")
    found = target.run("Querying the broker failed.", "listOrigins" if origin else "queryBroker")
    if origin:
        rows = [(row["name"], row["value"], row["origin"], row["effect"]) for row in found]
        target.show(found, table(("Property", "Value", "Origin", "Effect"), rows))
    else:
        target.show(nested(found), properties(found, gap=3))
    target.tell("Successfully queried the broker.")


@click.command(epilog="Example: mqbroker imq update bkr -o imq.cluster.url=file:/etc/imq/cluster.properties")
@attributes_option
@target_options
def update_broker(target: Target, attributes: tuple[str, ...]) -> None:
    """Change properties in the file of the instance; they count from the next start on, imq.cluster.url from the next reload on."""
    values = parse_attributes(attributes, needed=True)
    target.open("Updating the following broker attributes:", listed(values), ON_BROKER)
    target.change("update", "broker", "updateBroker", json.dumps(values))


@click.command(epilog="Example: mqbroker imq quiesce bkr -b b1:7676")
@target_options
def quiesce(target: Target) -> None:
    """Let a broker take no new clients; those that are connected go on, and so do links."""
    target.open("Quiescing the broker where:")
    target.change("quiesce", "broker", "quiesce")


@click.command(epilog="Example: mqbroker imq unquiesce bkr -b b1:7676")
@target_options
def unquiesce(target: Target) -> None:
    """Let a broker take new clients again."""
    target.open("Unquiescing the broker where:")
    target.change("unquiesce", "broker", "unquiesce")


@click.command(epilog="Example: mqbroker imq shutdown bkr -b b1:7676 -time 60")
@click.option("-time", "seconds", type=click.IntRange(0), default=0, show_default=True, help="Seconds until the broker stops.")
@click.option("-nofailover", "nofailover", is_flag=True, help="In an enhanced cluster: let no other broker take over.")
@target_options
def shutdown(target: Target, seconds: int, nofailover: bool) -> None:
    """Stop a broker in order.  Its messages are there again after its next start; in an enhanced cluster another broker takes them over."""
    target.open("Shutting down the broker specified by:")
    if target.confirmed("Are you sure you want to shutdown this broker?", "The broker was not shutdown."):
        target.run("Shutting down the broker failed.", "shutdown", seconds, nofailover)
        if seconds:
            target.tell("Successfully sent command to shutdown the broker.")
            return
        target.tell(f"Waiting for broker at {target.place} to shutdown...")
        target.wait(there=False, failed="Shutting down the broker failed.")
        target.tell("Successfully shutdown the broker.")


@click.command(epilog="Example: mqbroker imq restart bkr -b b1:7676")
@target_options
def restart(target: Target) -> None:
    """Stop a broker in order and start it again, with its files as they are then."""
    target.open("Restarting the broker specified by:")
    if target.confirmed("Are you sure you want to restart this broker?", "The broker was not restarted."):
        target.run("Restarting the broker failed.", "restart")
        for there in (False, True):
            target.wait(there=there, failed="Restarting the broker failed.")
        target.tell("Successfully restarted the broker.")


@click.command(epilog="Example: mqbroker imq reload cls -b b1:7676")
@target_options
def reload_cluster(target: Target) -> None:
    """Let all members read imq.cluster.url and the list of brokers again, and open and close links accordingly."""
    target.open("Reloading cluster configuration at the broker specified by:")
    target.run("Reloading broker cluster configuration failed.", "reloadCluster")
    target.tell("Successfully reloaded broker cluster configuration.")


@click.command(epilog="Example: mqbroker imq changemaster cls -o imq.cluster.masterbroker=b2:7676 -b b1:7676")
@attributes_option
@target_options
def change_master(target: Target, attributes: tuple[str, ...]) -> None:
    """Let another broker keep the change record.  Sent to the present master."""
    values = parse_attributes(attributes)
    target.open("Changing cluster master broker to:", listed(values), ON_BROKER)
    question = "Are you sure you want to change the cluster master broker ?"
    if target.confirmed(question, "Cluster master broker is not changed."):
        target.run("Changing cluster master broker failed.", "changeMaster", json.dumps(values))
        target.tell("Successfully changed cluster master broker.")
