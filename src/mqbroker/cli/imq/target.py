"""The broker that a command of ``mqbroker imq`` is sent to, and the frame in which ``imqcmd`` shows what happens there."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import click

from mqbroker.cli.imq.tables import properties, table
from mqbroker.cli.options import JSON, PATH, ConnectionOptions, gathered, named_values, together, without_effect
from mqbroker.cli.status import CommandError, NoConnection
from mqbroker.config.imq.places import Place, parse_place
from mqbroker.config.properties.properties import PropertiesError, parse_properties

if TYPE_CHECKING:
    from mqbroker.cli.management import Management

P = ParamSpec("P")
R = TypeVar("R")

RESOURCE = "imq.broker"
PASSWORD = "imq.imqcmd.password"
"""The property of the passfile."""

WAIT_SECONDS = 60.0
"""How long a command waits until a broker has stopped, or is there again."""
_LOOK_SECONDS = 0.1

ON_BROKER: Final = "On the broker specified by:"
_YES = ("y", "yes")
_NO = ("", "n", "no")

_OPTIONS = together(
    without_effect("-adminkey", "-load", "-verbose", values=("-D", "-rtm", "-rtr", "-javahome", "-jrehome", "-varhome", "-vmargs")),
    JSON,
    click.option("-secure", "secure", is_flag=True, help="Connect with TLS; any certificate is trusted."),
    click.option("-s", "silent", is_flag=True, help="Print nothing but errors and questions."),
    click.option("-f", "force", is_flag=True, help="Do not ask."),
    click.option("-passfile", "passfile", type=PATH, help=f"File with {PASSWORD}=…. Asked for without."),
    click.option("-u", "user", default="admin", show_default=True, help="User to log in as."),
    click.option("-b", "broker", default="localhost:7676", show_default=True, metavar="HOST:PORT", help="The broker."),
)

attributes_option = click.option("-o", "attributes", multiple=True, metavar="NAME=VALUE", help="An attribute; may be there several times.")


@dataclass(slots=True)
class Target:
    """The broker of ``-b``, how to log in there, and how to speak with whoever has called."""

    broker: str
    user: str
    passfile: Path | None
    force: bool
    secure: bool
    as_json: bool
    silent: bool = False

    # --- output

    def tell(self, text: str = "") -> None:
        """Print a line of the frame; with ``--json`` and ``-s`` there is no frame."""
        if not (self.as_json or self.silent):
            click.echo(text)

    def open(self, opening: str, *details: str, broker_id: str | None = None) -> None:
        """The beginning: what is done, with tables about it, and the broker, with its id in an enhanced cluster where that is known."""
        self.tell(opening)
        self.tell()
        for detail in details:
            self.tell(detail)
            self.tell()
        place = self.place
        known = () if broker_id is None else (("Cluster Broker ID", broker_id),)
        shown = (("Host", place.host), ("Primary Port", place.port), *known)
        self.tell(table(tuple(title for title, _ in shown), [tuple(value for _, value in shown)]))
        self.tell()

    def show(self, value: Any, text: str) -> None:
        """The result, as JSON or as ``text``."""
        if self.as_json:
            click.echo(json.dumps(value, ensure_ascii=False))
        else:
            self.tell(text)
            self.tell()

    def confirmed(self, question: str, otherwise: str) -> bool:
        """The answer to ``question``; with another one than yes or no the command fails."""
        if self.force:
            return True
        answer = str(click.prompt(f"{question} (y/n)[n]", default="n", show_default=False, prompt_suffix=" ", err=self.as_json)).lower()
        if answer in _YES:
            return True
        if answer in _NO:
            self.tell()
            self.tell(otherwise)
            return False
        raise CommandError(f"Unrecognized response: {answer}.\n{otherwise}")

    # --- the broker

    @property
    def place(self) -> Place:
        try:
            return parse_place(self.broker)
        except ValueError:
            raise CommandError(f"Error: the broker '{self.broker}' is not valid: expected host:port") from None

    @contextmanager
    def failing(self, failed: str) -> Iterator[None]:
        """End what is done inside with the reason of an error, and then with ``failed``."""
        from mqbroker.cli.management import ManagementError

        try:
            yield
        except NoConnection as error:
            place = self.place
            raise CommandError(
                f"Error while connecting to the broker on host '{place.host}' and port '{place.port}'.\n{error}\n"
                "Please verify that there is a broker running on the specified host and port or\n"
                f"use the '-b' option to specify the correct broker host and port.\n\n{failed}"
            ) from error
        except ManagementError as error:
            raise CommandError(f"Error while performing this operation on the broker.\n{error}\n\n{failed}") from error

    def connected(self) -> AbstractContextManager[Management]:
        """Management of the broker for the time of one command."""
        from mqbroker.cli.management import management

        place = self.place
        host = f"[{place.host}]" if ":" in place.host else place.host
        url = f"tcp://{host}:{place.port}" + ("?sslEnabled=true&trustAll=true&verifyHost=false" if self.secure else "")
        password = self._password()
        return management(ConnectionOptions(url, "", self.user, password, None, True, False, None, quiet=True))

    def ask(self, broker: Management, operation: str, *parameters: object) -> Any:
        """The result of an operation of the resource of OpenMQ's commands."""
        from mqbroker.cli.management import json_object

        return json_object(broker.invoke(RESOURCE, operation, *parameters))

    def run(self, failed: str, operation: str, *parameters: object) -> Any:
        """Carry out one operation; ``failed`` is the last line where that does not succeed."""
        with self.failing(failed), self.connected() as broker:
            return self.ask(broker, operation, *parameters)

    def change(self, verb: str, what: str, operation: str, *parameters: object) -> None:
        """Carry out an operation that does ``verb`` to ``what`` ("purge", "destination"), unless the answer to the question is no."""
        done = f"{verb.removesuffix('e')}ed"
        if self.confirmed(f"Are you sure you want to {verb} this {what}?", f"The {what} was not {done}."):
            self.run(f"{doing(verb)} the {what} failed.", operation, *parameters)
            self.tell(f"Successfully {done} the {what}.")

    def wait(self, *, there: bool, failed: str) -> None:
        """Return when something listens at the broker's place, or nothing does.  Fails after :data:`WAIT_SECONDS`."""
        end = time.monotonic() + WAIT_SECONDS
        while self._listens() != there:
            if time.monotonic() > end:
                state = "does not listen" if there else "still listens"
                raise CommandError(f"The broker at {self.place} {state} after {WAIT_SECONDS:g} s.\n\n{failed}")
            time.sleep(_LOOK_SECONDS)

    def _listens(self) -> bool:
        place = self.place
        try:
            socket.create_connection((place.host, place.port), _LOOK_SECONDS * 10).close()
        except OSError:
            return False
        return True

    def _password(self) -> str:
        if self.passfile is None:
            return str(click.prompt("Password", hide_input=True, err=True))
        try:
            entries = {each.key: each.value for each in parse_properties(self.passfile.read_bytes())}
        except (OSError, PropertiesError) as error:
            raise CommandError(f"Error: Failed to read password in passfile:\n{error}") from error
        if PASSWORD not in entries:
            raise CommandError(f"Error: Failed to read password in passfile:\n{self.passfile} has no {PASSWORD}")
        return _plain(entries[PASSWORD])


def _plain(text: str) -> str:
    from mqbroker.config.masking import MaskingError, codec_key, decode_masked, unwrap

    masked = unwrap(text)
    try:
        return text if masked is None else decode_masked(masked, codec_key(None, os.environ.get))
    except MaskingError as error:
        raise CommandError(f"Error: the password in the passfile cannot be read: {error}") from error


def target_options(command: Callable[Concatenate[Target, P], R]) -> Callable[..., R]:
    """``-b``, ``-u`` and the others; the command gets them as its first argument."""
    return _OPTIONS(gathered(command, Target, (field.name for field in fields(Target))))


def doing(verb: str) -> str:
    """``Purging`` for ``purge``."""
    return f"{verb.removesuffix('e')}ing".capitalize()


def parse_attributes(words: tuple[str, ...], needed: bool = False) -> dict[str, str]:
    """The attributes of ``-o``.  Raises CommandError for a word without ``=``, and without any where they are ``needed``."""
    found = named_values(words, lambda word: CommandError(f"Error: the attribute '{word}' is not valid: expected name=value"))
    if needed and not found:
        raise CommandError("Error: the attributes to update need to be specified with the -o option.")
    return found


def listed(attributes: Mapping[str, str]) -> str:
    """Attributes as a command shows them before it changes anything."""
    return properties([attributes.items()])
