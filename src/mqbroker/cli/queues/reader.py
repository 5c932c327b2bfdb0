"""``mqbroker reader list|remove``."""

from __future__ import annotations

import click

from mqbroker.cli.management import failing, json_object, management
from mqbroker.cli.options import JSON, ConnectionOptions, ask, connection_options
from mqbroker.cli.output import print_json, table

_COLUMNS = {"QUEUE": "queue", "READER": "name", "EPOCH": "epoch", "SETTLED": "settled", "RESERVED": "reserved", "LAG": "lag"}


@click.command("list", epilog="Example: mqbroker reader list --queue orders")
@click.option("--queue", help="Only the readers of this queue. Default: all.")
@JSON
@connection_options
def list_readers(connection: ConnectionOptions, queue: str | None, as_json: bool) -> None:
    """Print the readers of queues.

    SETTLED: everything up to this message id is settled. RESERVED: everything up to this message id has been handed out. LAG: messages that
    are not settled. EPOCH: how often the reader was opened; only the program that opened it last may use it.
    """
    connection.quiet = as_json
    with management(connection) as broker, failing("cannot list readers: "):
        found = json_object(broker.invoke("broker", "listReaders", *([] if queue is None else [queue])))
    if as_json:
        print_json(found)
    else:
        click.echo(table([*_COLUMNS], [[str(row[key]) for key in _COLUMNS.values()] for row in found]))


@click.command(epilog="Example: mqbroker reader remove --queue orders --name spark-orders")
@click.option("--queue", help="Name of the queue.")
@click.option("--name", help="Name of the reader.")
@connection_options
def remove(connection: ConnectionOptions, queue: str | None, name: str | None) -> None:
    """Remove a reader.

    Messages that the reader has not settled stay in the queue for other readers or, once the queue has no reader, for consumers.
    """
    queue = queue or ask("name of the queue", "--queue", connection)
    name = name or ask("name of the reader", "--name", connection)
    with management(connection) as broker, failing(f"cannot remove reader {name}: "):
        broker.invoke("broker", "removeReader", queue, name)
    click.echo(f"Reader {name} of queue {queue} removed.")
