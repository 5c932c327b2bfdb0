"""Options that several commands share, with the names and defaults of the ``artemis`` command."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import click

from mqbroker.cli.status import BadUsage, CommandError

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D")

DEFAULT_URL: Final = "tcp://localhost:61616"


@dataclass(slots=True)
class ConnectionOptions:
    """The options of the connection to the broker, and of the output about it."""

    url: str | None
    acceptor: str
    user: str | None
    password: str | None
    client_id: str | None
    silent: bool
    verbose: bool
    instance: Path | None
    quiet: bool = False
    """Print nothing but the result: for ``--json``."""


def instance_from_environment() -> Path | None:
    """The instance folder whose start script called us (``MQBROKER_INSTANCE``, or ``ARTEMIS_INSTANCE`` of Artemis' own scripts)."""
    folder = os.environ.get("MQBROKER_INSTANCE") or os.environ.get("ARTEMIS_INSTANCE")
    return Path(folder) if folder else None


PATH: Final = click.Path(path_type=Path)
FILE: Final = click.Path(path_type=Path, dir_okay=False)
FOLDER: Final = click.Path(path_type=Path, file_okay=False)

instance_option = click.option(
    "--instance",
    type=FOLDER,
    default=instance_from_environment,
    help="The instance folder. Default: the instance whose start script runs this command.",
)
verbose_option = click.option("--verbose", is_flag=True, help="Print more details.")


def together(*options: Callable[..., Any]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Several options as one decorator; the help shows the last one first."""

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        for option in options:
            command = option(command)
        return command

    return decorate


_CONNECTION = together(
    instance_option,
    verbose_option,
    click.option("--silent", is_flag=True, help="Ask nothing: use a sensible default for a missing value, or fail."),
    click.option(
        "--protocol",
        type=click.Choice(["CORE"], case_sensitive=False),
        default="CORE",
        expose_value=False,
        help="Always CORE: AMQP is not spoken.",
    ),
    click.option("--clientID", "client_id", help="Client id of the connection."),
    click.option("--password", help="Password to log in with."),
    click.option("--user", help="User to log in as."),
    click.option(
        "--acceptor",
        default="artemis",
        help="Acceptor (or else connector) in the broker.xml of the instance that is used without --url. Default: artemis.",
    ),
    click.option(
        "--url",
        help=f"URL of the broker. Default: that of the acceptor 'artemis' of the instance; without an instance, {DEFAULT_URL}.",
    ),
)


def gathered(command: Callable[Concatenate[D, P], R], kind: Callable[..., D], names: Iterable[str]) -> Callable[..., R]:
    """The command with options of these names in place of its first argument, the ``kind`` that is made of them."""
    names = tuple(names)

    @functools.wraps(command)
    def wrapper(*args: Any, **values: Any) -> R:
        return command(kind(**{name: values.pop(name) for name in names}), *args, **values)

    return wrapper


def connection_options(command: Callable[Concatenate[ConnectionOptions, P], R]) -> Callable[..., R]:
    """``--url``, ``--user`` and the others; the command gets them as its first argument."""
    return _CONNECTION(gathered(command, ConnectionOptions, {field.name for field in fields(ConnectionOptions)} - {"quiet"}))


def without_effect(*names: str, values: tuple[str, ...] = ()) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Options of the ``artemis`` command that change nothing here: accepted, so that scripts carry over.  ``values`` take a value."""
    flags = [click.option(name, is_flag=True, hidden=True, expose_value=False) for name in names]
    return together(*flags, *(click.option(name, hidden=True, expose_value=False) for name in values))


def named_values(words: Iterable[str], refused: Callable[[str], CommandError]) -> dict[str, str]:
    """``NAME=VALUE`` as values by name.  Raises what ``refused`` makes of another word."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise refused(word)
        found[name] = value
    return found


JDBC_NAMES: Final = (
    "--jdbc-bindings-table-name",
    "--jdbc-driver-class-name",
    "--jdbc-large-message-table-name",
    "--jdbc-message-table-name",
    "--jdbc-node-manager-table-name",
    "--jdbc-page-store-table-name",
)
"""Options of the ``artemis`` command about a database that change nothing here."""

JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, useful for scripts.")


def ask(text: str, option: str, connection: ConnectionOptions, *, hide: bool = False) -> str:
    """Ask for a value that was not given.

    Raises :class:`mqbroker.cli.status.BadUsage` with ``--silent``, and without a terminal.
    """
    if connection.silent or not sys.stdin.isatty():
        raise BadUsage(f"{option} is needed: {text}")
    return str(click.prompt(f"{option}: {text}", hide_input=hide))
