"""``mqbroker address create|update|delete|show``."""

from __future__ import annotations

from typing import Final

import click

from mqbroker.cli.management import failing, management
from mqbroker.cli.options import JSON, ConnectionOptions, ask, connection_options, together, without_effect
from mqbroker.cli.output import print_json
from mqbroker.cli.status import BadUsage

_ROUTING_FLAGS: Final = ("--anycast", "--no-anycast", "--multicast", "--no-multicast")


_address_options = together(
    click.option("--name", help="Name of the address."),
    click.option("--anycast/--no-anycast", default=None, help="Whether the address may have anycast queues."),
    click.option("--multicast/--no-multicast", default=None, help="Whether the address may have multicast queues."),
)


def _routing_types(anycast: bool | None, multicast: bool | None) -> str:
    return ",".join(name for name, wanted in (("ANYCAST", anycast), ("MULTICAST", multicast)) if wanted)


@click.command(epilog="Example: mqbroker address create --name orders --anycast")
@_address_options
@connection_options
def create(connection: ConnectionOptions, name: str | None, anycast: bool | None, multicast: bool | None) -> None:
    """Create an address; it is multicast if no routing type is given."""
    address = name or ask("name of the address", "--name", connection)
    if anycast is None and multicast is None:
        multicast = True
    types = _routing_types(anycast, multicast)
    if not types:
        raise BadUsage("an address needs --anycast, --multicast or both")
    _change(connection, "create", address, "createAddress", types)


@click.command(epilog="Example: mqbroker address update --name orders --anycast --multicast")
@_address_options
@connection_options
def update(connection: ConnectionOptions, name: str | None, anycast: bool | None, multicast: bool | None) -> None:
    """Change the routing types of an address to exactly those given."""
    address = name or ask("name of the address", "--name", connection)
    types = _routing_types(anycast, multicast)
    if not types:
        raise BadUsage("say which routing types the address may have: --anycast, --multicast or both")
    _change(connection, "update", address, "updateAddress", types)


@click.command(epilog="Example: mqbroker address delete --name orders --force")
@click.option("--name", help="Name of the address.")
@click.option("--force", is_flag=True, help="Delete the address even if it has queues, together with these queues and their messages.")
@without_effect(*_ROUTING_FLAGS)
@connection_options
def delete(connection: ConnectionOptions, name: str | None, force: bool) -> None:
    """Delete an address."""
    address = name or ask("name of the address", "--name", connection)
    _change(connection, "delete", address, "deleteAddress", force)


@click.command(epilog="Example: mqbroker address show --name orders --bindings")
@click.option("--name", help="Show this address. Default: show the names of all addresses.")
@click.option("--bindings", is_flag=True, help="Show the queues and other bindings of the address.")
@without_effect(*_ROUTING_FLAGS)
@JSON
@connection_options
def show(connection: ConnectionOptions, name: str | None, bindings: bool, as_json: bool) -> None:
    """Show the addresses, or one of them."""
    if bindings and not name:
        raise BadUsage("--bindings needs --name")
    connection.quiet = as_json
    with management(connection) as broker, failing(f"Failed to show address {name or ''}. Reason: "):
        if name is None:
            text = str(broker.invoke("broker", "listAddresses", "\n"))
            names = [line for line in text.split("\n") if line and line != broker.reply_queue]
            if as_json:
                print_json(names)
            else:
                click.echo("\n".join(names))
            return
        result = broker.invoke("broker", "listBindingsForAddress" if bindings else "getAddressInfo", name)
        if as_json:
            print_json({"name": name, "bindings" if bindings else "info": result})
        else:
            click.echo(result)


def _change(connection: ConnectionOptions, verb: str, name: str, operation: str, *parameters: object) -> None:
    """Carry out an operation, and print what the broker says of the address, if it says something."""
    with management(connection) as broker, failing(f"Failed to {verb} address {name}. Reason: "):
        described = broker.invoke("broker", operation, name, *parameters)
        subject = described if isinstance(described, str) and described else f"Address {name}"
        click.echo(f"{subject} {verb}d successfully.")
