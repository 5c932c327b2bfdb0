"""``mqbroker user add|list|rm|reset``: the users of a running broker, in its properties files."""

from __future__ import annotations

from typing import Any

import click

from mqbroker.cli.management import Management, failing, json_object, management
from mqbroker.cli.options import JSON, ConnectionOptions, ask, connection_options, without_effect
from mqbroker.cli.output import print_json

_USER = click.option("--user-command-user", "name", help="The user that this command is about.")
_PASSWORD = click.option("--user-command-password", "new_password", help="The password for that user.")
_PLAINTEXT = click.option("--plaintext", is_flag=True, help="Write the password to the file in plain text instead of as a hash.")


@click.command(epilog="Example: mqbroker user add --user-command-user bob --user-command-password secret --role amq,audit")
@_USER
@_PASSWORD
@click.option("--role", help="Roles of the user, separated by commas.")
@_PLAINTEXT
@connection_options
def add(connection: ConnectionOptions, name: str | None, new_password: str | None, role: str | None, plaintext: bool) -> None:
    """Add a user."""
    name = name or ask("the new user", "--user-command-user", connection)
    new_password = new_password or ask("the password of the new user", "--user-command-password", connection, hide=True)
    role = role or ask("roles of the new user", "--role", connection)
    with management(connection) as broker:
        _call(broker, "add", name, "addUser", name, new_password, role, plaintext)
    click.echo(f"{name} added successfully.")


@click.command(epilog="Example: mqbroker user rm --user-command-user bob")
@_USER
@without_effect("--plaintext", values=("--role", "--user-command-password"))
@connection_options
def remove(connection: ConnectionOptions, name: str | None) -> None:
    """Remove a user."""
    name = name or ask("the user to remove", "--user-command-user", connection)
    with management(connection) as broker:
        _call(broker, "remove", name, "removeUser", name)
    click.echo(f"{name} removed successfully.")


@click.command(epilog="Example: mqbroker user reset --user-command-user bob --user-command-password secret --role amq")
@_USER
@_PASSWORD
@click.option("--role", help="New roles of the user, separated by commas. Default: keep the roles.")
@_PLAINTEXT
@connection_options
def reset(connection: ConnectionOptions, name: str | None, new_password: str | None, role: str | None, plaintext: bool) -> None:
    """Change the password of a user, the user's roles, or both."""
    name = name or ask("the user to change", "--user-command-user", connection)
    if new_password is None and role is None:
        new_password = ask("the new password", "--user-command-password", connection, hide=True)
    with management(connection) as broker:
        _call(broker, "reset", name, "resetUser", name, new_password, role, plaintext)
    click.echo(f"{name} was successfully updated.")


@click.command(name="list", epilog="Example: mqbroker user list --json")
@click.option("--user-command-user", "name", help="Only this user.")
@without_effect("--plaintext", values=("--role", "--user-command-password"))
@JSON
@connection_options
def list_users(connection: ConnectionOptions, name: str | None, as_json: bool) -> None:
    """List users with their roles."""
    connection.quiet = as_json
    with management(connection) as broker:
        users: list[dict[str, Any]] = json_object(_call(broker, "list", name or "", "listUser", name or "")) or []
    if as_json:
        print_json(users)
        return
    click.echo('--- "user"(roles) ---')
    for user in users:
        click.echo(f'"{user["username"]}"({",".join(user["roles"])})')
    click.echo(f"\n Total: {len(users)}")


def _call(broker: Management, verb: str, name: str, operation: str, *parameters: object) -> Any:
    with failing(f"Failed to {verb} user {name}. Reason: "):
        return broker.invoke("broker", operation, *parameters)
