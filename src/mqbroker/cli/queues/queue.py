"""``mqbroker queue create|update|delete|purge``."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from mqbroker.cli.management import failing, management
from mqbroker.cli.options import ConnectionOptions, ask, connection_options, together
from mqbroker.cli.status import BadUsage

_queue_options = together(
    click.option("--name", help="Name of the queue; address::queue is allowed."),
    click.option("--address", help="Address of the queue. Default: the name of the queue."),
    click.option("--filter", help="Only messages that match this filter enter the queue. Default: all."),
    click.option("--anycast", is_flag=True, help="Every message goes to one consumer among all queues of the address."),
    click.option("--multicast", is_flag=True, help="Every queue of the address gets its own copy of each message."),
    click.option("--durable/--no-durable", default=None, help="Whether the queue survives a restart of the broker."),
    click.option("--max-consumers", type=int, help="Maximum number of consumers at a time; -1: no limit."),
    click.option("--purge-on-no-consumers", "purge", flag_value=True, default=None, help="Empty the queue when its last consumer leaves."),
    click.option("--preserve-on-no-consumers", "purge", flag_value=False, help="Keep the messages when the last consumer leaves."),
    click.option("--auto-create-address", is_flag=True, default=None, help="Create the address when it does not exist."),
)


def _routing_type(anycast: bool, multicast: bool) -> str | None:
    if anycast and multicast:
        raise BadUsage("a queue is either --anycast or --multicast")
    return "ANYCAST" if anycast else "MULTICAST" if multicast else None


def _yes(value: bool | None, question: str, connection: ConnectionOptions) -> bool:
    """``value``, or the answer of a person; without one it is no."""
    if value is not None:
        return value
    if connection.silent or not sys.stdin.isatty():
        return False
    return bool(click.confirm(question, default=False))


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """The options under the names that the broker has for them."""
    return {
        "name": options["name"],
        "address": options["address"],
        "filter-string": options["filter"],
        "routing-type": _routing_type(options["anycast"], options["multicast"]),
        "durable": options["durable"],
        "max-consumers": options["max_consumers"],
        "purge-on-no-consumers": options["purge"],
        "auto-create-address": options["auto_create_address"],
    }


def _send(connection: ConnectionOptions, operation: str, verb: str, settings: dict[str, Any]) -> None:
    text = json.dumps({key: value for key, value in settings.items() if value is not None})
    _change(connection, verb, settings["name"], "broker", operation, text)


@click.command(epilog="Example: mqbroker queue create --name orders --address orders --anycast --durable --auto-create-address --silent")
@_queue_options
@connection_options
def create(connection: ConnectionOptions, /, **options: Any) -> None:
    """Create a queue.

    Missing options are asked for at a terminal; elsewhere they count as no, and the routing type is the broker's default for the address.
    """
    name = options["name"] = options["name"] or ask("name of the queue", "--name", connection)
    settings = _settings(options)
    settings["address"] = options["address"] or (name if "::" not in name else None)
    for key, question in (
        ("durable", "Is the queue durable?"),
        ("purge-on-no-consumers", "Purge it when it has no consumers?"),
        ("auto-create-address", "Create the address when it does not exist?"),
    ):
        settings[key] = _yes(settings[key], question, connection)
    _send(connection, "createQueue", "create", settings)


@click.command(epilog="Example: mqbroker queue update --name orders --max-consumers 3")
@_queue_options
@connection_options
def update(connection: ConnectionOptions, /, **options: Any) -> None:
    """Change the given settings of a queue; the others stay as they are."""
    options["name"] = options["name"] or ask("name of the queue", "--name", connection)
    _send(connection, "updateQueue", "update", _settings(options))


@click.command(epilog="Example: mqbroker queue delete --name orders --removeConsumers --autoDeleteAddress")
@click.option("--name", help="Name of the queue.")
@click.option("--removeConsumers", "remove_consumers", is_flag=True, help="Delete the queue even if it has consumers; they are closed.")
@click.option("--autoDeleteAddress", "delete_address", is_flag=True, help="Also delete the address if this was its last queue.")
@connection_options
def delete(connection: ConnectionOptions, name: str | None, remove_consumers: bool, delete_address: bool) -> None:
    """Delete a queue with its messages."""
    queue = name or ask("name of the queue", "--name", connection)
    _change(connection, "delete", queue, "broker", "destroyQueue", queue, remove_consumers, delete_address)


@click.command(epilog="Example: mqbroker queue purge --name orders")
@click.option("--name", help="Name of the queue.")
@connection_options
def purge(connection: ConnectionOptions, name: str | None) -> None:
    """Delete all messages of a queue."""
    queue = name or ask("name of the queue", "--name", connection)
    _change(connection, "purge", queue, f"queue.{queue}", "removeAllMessages")


def _change(connection: ConnectionOptions, verb: str, name: str, resource: str, operation: str, *parameters: object) -> None:
    """Carry out an operation, and print the result as the ``artemis`` command does: with the line about the queue, if one was sent."""
    with management(connection) as broker, failing(f"Failed to {verb} {name if verb == 'update' else f'queue {name}'}. Reason: "):
        described = broker.invoke(resource, operation, *parameters)
        line = _line(described) if isinstance(described, str) and described else f"Queue {name}"
        click.echo(f"{line} {verb}d successfully.")


def _line(described: str) -> str:
    from mqbroker.server.management.definitions import queue_line

    try:
        return queue_line(described)
    except ValueError:
        return described
