"""``mqbroker imq … dst``: destinations."""

from __future__ import annotations

import json
from typing import Any

import click

from mqbroker.cli.imq.tables import nested, properties, table
from mqbroker.cli.imq.target import ON_BROKER, Target, attributes_option, doing, listed, parse_attributes, target_options
from mqbroker.cli.options import together
from mqbroker.cli.status import CommandError
from mqbroker.config.imq.destinations import BY_NAME, UNLIMITED_BY_ZERO

TYPES = {"q": "Queue", "t": "Topic"}

_named = together(
    click.option("-n", "name", help="Name of the destination."),
    click.option("-t", "kind", help="q for a queue, t for a topic."),
)


def _checked(kind: str | None, name: str | None) -> tuple[str, str]:
    if not kind:
        raise CommandError("Error: The destination type needs to be specified with the -t option.")
    if kind not in TYPES:
        raise CommandError(f"Error: The destination type '{kind}' is not valid.")
    if not name:
        raise CommandError("Error: The destination name needs to be specified with the -n option.")
    return kind, name


def _limits(values: dict[str, str]) -> dict[str, str]:
    """The attributes with -1 where there is 0, the old way to say that there is no limit."""
    old = [name for name in values if name in UNLIMITED_BY_ZERO and values[name] == "0"]
    for name in old:
        click.echo(f"Warning: {name}=0 means unlimited, which is written {name}=-1", err=True)
    return values | dict.fromkeys(old, "-1")


def _which(kind: str, name: str) -> str:
    return table(("Destination Name", "Destination Type"), [(name, TYPES[kind])])


@click.command(epilog="Example: mqbroker imq list dst -t q")
@click.option("-t", "kind", help="q: queues alone; t: topics alone.")
@click.option("-tmp", "temporary", is_flag=True, help="Also temporary destinations.")
@target_options
def list_destinations(target: Target, kind: str | None, temporary: bool) -> None:
    """List destinations with their counts."""
    if kind is not None:
        _checked(kind, "any")
    what = "" if kind is None else f"{TYPES[kind].lower()} "
    target.open(f"Listing all the {what}destinations on the broker specified by:")
    rows = target.run("Listing destinations failed.", "listDestinations", kind, temporary)
    target.show(rows, _rows(rows, kind))
    target.tell("Successfully listed destinations.")


def _rows(rows: list[dict[str, Any]], kind: str | None) -> str:
    counts = ("Count", "Remote", "UnAck", "InDelay", "Avg Size")
    if kind == "q":
        kinds: tuple[str, ...] = ("", "Active", "Backup")
        over = (("Producers", 1), ("Consumers", 2))
    else:
        kinds = ("Total", "Wildcard", "Total", "Wildcard")
        over = (("Producers", 2), ("Consumers", 2))

    def cells(row: dict[str, Any]) -> tuple[Any, ...]:
        named = row["name"], row["type"], row["state"]
        counted = row["msgs"], row["remote"], row["unAck"], row["inDelay"], row["avgSize"]
        if kind == "q":
            return *named, row["producers"], row["consumers"], 0, *counted
        wild = "-" if row["type"].startswith("Queue") else 0
        return *named, row["producers"], wild, row["consumers"], wild, *counted

    return table(
        ("", "", "", *kinds, *counts),
        map(cells, rows),
        (("Name", 1), ("Type", 1), ("State", 1), *over, ("Msgs", 5)),
        gap=2,
        centred=True,
    )


@click.command(epilog="Example: mqbroker imq query dst -t q -n orders")
@_named
@target_options
def query_destination(target: Target, kind: str | None, name: str | None) -> None:
    """Show everything about a destination."""
    which, label = _checked(kind, name)
    target.open("Querying the destination where:", _which(which, label), ON_BROKER)
    found = target.run("Querying the destination failed.", "queryDestination", which, label)
    target.show(nested(found), properties(found))
    target.tell("Successfully queried the destination.")


@click.command(epilog="Example: mqbroker imq create dst -t q -n orders -o maxNumMsgs=1000 -o limitBehavior=FLOW_CONTROL")
@_named
@attributes_option
@target_options
def create_destination(target: Target, kind: str | None, name: str | None, attributes: tuple[str, ...]) -> None:
    """Create a destination on all brokers."""
    which, label = _checked(kind, name)
    values = _limits(parse_attributes(attributes))
    shown = {BY_NAME[key].title if key in BY_NAME else key: value for key, value in values.items()}
    about = {"Destination Name": label, "Destination Type": TYPES[which]} | shown
    target.open("Creating a destination with the following attributes:", listed(about), ON_BROKER)
    target.run("Creating the destination failed.", "createDestination", which, label, json.dumps(values))
    target.tell("Successfully created the destination.")


@click.command(epilog="Example: mqbroker imq update dst -t q -n orders -o maxNumMsgs=2000")
@_named
@attributes_option
@target_options
def update_destination(target: Target, kind: str | None, name: str | None, attributes: tuple[str, ...]) -> None:
    """Change attributes of a destination on all brokers."""
    which, label = _checked(kind, name)
    values = _limits(parse_attributes(attributes, needed=True))
    opening = f"Updating the {TYPES[which]} destination that has the name:"
    target.open(opening, label, "with the following updated attributes:", listed(values), ON_BROKER)
    target.change("update", "destination", "updateDestination", which, label, json.dumps(values))


@click.command(epilog="Example: mqbroker imq destroy dst -t q -n orders -f")
@_named
@target_options
def destroy_destination(target: Target, kind: str | None, name: str | None) -> None:
    """Destroy a destination with its messages on all brokers; its consumers are closed."""
    _change(target, "destroy", "destroyDestination", kind, name)


@click.command(epilog="Example: mqbroker imq purge dst -t q -n orders -f")
@_named
@target_options
def purge_destination(target: Target, kind: str | None, name: str | None) -> None:
    """Remove all messages that this broker keeps of a destination."""
    _change(target, "purge", "purgeDestination", kind, name)


def _change(target: Target, verb: str, operation: str, kind: str | None, name: str | None) -> None:
    which, label = _checked(kind, name)
    target.open(f"{doing(verb)} the destination where:", _which(which, label), ON_BROKER)
    target.change(verb, "destination", operation, which, label)
