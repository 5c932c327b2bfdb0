"""``mqbroker imq … dur``: durable subscriptions."""

from __future__ import annotations

import click

from mqbroker.cli.imq.tables import table
from mqbroker.cli.imq.target import ON_BROKER, Target, doing, target_options
from mqbroker.cli.options import together
from mqbroker.cli.status import CommandError


@click.command(epilog="Example: mqbroker imq list dur -d news")
@click.option("-d", "topic", help="Name of a topic. Default: all topics.")
@target_options
def list_durables(target: Target, topic: str | None) -> None:
    """List durable subscriptions."""
    if topic is None:
        target.open("Listing all subscriptions on the broker specified by:")
    else:
        target.open(f"Listing all subscriptions on the topic '{topic}'\non the broker specified by:")
    rows = target.run("Listing subscriptions failed.", "listDurables", topic)
    titles = ["Subscription Name", "Client ID", "Durable", "Messages", "Subscription State"]
    cells = [[row["name"], row["clientID"], "true", row["msgs"], row["state"]] for row in rows]
    if topic is None:
        titles.insert(2, "Destination Name")
        for line, row in zip(cells, rows, strict=True):
            line.insert(2, row["topic"])
    target.show(rows, table(titles, cells, gap=3))
    target.tell("Successfully listed subscriptions.")


_named = together(
    click.option("-c", "client_id", help="Client id of the subscriber; none for a shared subscription without one."),
    click.option("-n", "name", help="Name of the subscription."),
)


@click.command(epilog="Example: mqbroker imq destroy dur -n prices -c client1")
@_named
@target_options
def destroy_durable(target: Target, name: str | None, client_id: str | None) -> None:
    """Destroy a durable subscription with its messages on all brokers."""
    _change(target, "destroy", "destroyDurable", name, client_id)


@click.command(epilog="Example: mqbroker imq purge dur -n prices -c client1")
@_named
@target_options
def purge_durable(target: Target, name: str | None, client_id: str | None) -> None:
    """Remove all messages that this broker keeps for a durable subscription."""
    _change(target, "purge", "purgeDurable", name, client_id)


def _change(target: Target, verb: str, operation: str, name: str | None, client_id: str | None) -> None:
    """Raises CommandError without a name."""
    if not name:
        raise CommandError("Error: The durable subscription name needs to be specified with the -n option.")
    about = table(("Durable Sub. Name", "Client ID"), [(name, client_id or "")])
    target.open(f"{doing(verb)} the durable subscription where:", about, ON_BROKER)
    target.change(verb, "durable subscription", operation, name, client_id)
