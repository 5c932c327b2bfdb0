"""``mqbroker imq … dur``: durable subscriptions."""

from __future__ import annotations

import click

from mqbroker.cli.imq.tables import table
from mqbroker.cli.imq.target import Target, target_options
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


@click.command(epilog="Example: mqbroker imq destroy dur -n prices -c client1")
@click.option("-n", "name", help="Name of the subscription.")
@click.option("-c", "client_id", help="Client id of the subscriber; none for a shared subscription without one.")
@target_options
def destroy_durable(target: Target, name: str | None, client_id: str | None) -> None:
    """Destroy a durable subscription with its messages on all brokers."""
    if not name:
        raise CommandError("Error: The durable subscription name needs to be specified with the -n option.")
    about = table(("Durable Sub. Name", "Client ID"), [(name, client_id or "")])
    target.open("Destroying the durable subscription where:", about, "On the broker specified by:")
    question = "Are you sure you want to destroy this durable subscription?"
    if target.confirmed(question, "The durable subscription was not destroyed."):
        target.run("Destroying the durable subscription failed.", "destroyDurable", name, client_id)
        target.tell("Successfully destroyed the durable subscription.")
