"""``mqbroker producer``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mqbroker.cli.connection import connected
from mqbroker.cli.options import FILE
from mqbroker.cli.progress import Advance
from mqbroker.cli.status import BadUsage
from mqbroker.cli.traffic.load import Load, load, load_options
from mqbroker.cli.traffic.stats import Tally

if TYPE_CHECKING:
    from mqclient.jms import Connection, Message, Session

_FILLER: Final = "The quick brown fox jumps over the lazy dog. "
_PROPERTY_SETTERS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "boolean": ("set_boolean_property", lambda value: str(value).lower() == "true"),
    "byte": ("set_byte_property", int),
    "short": ("set_short_property", int),
    "int": ("set_int_property", int),
    "long": ("set_long_property", int),
    "float": ("set_float_property", float),
    "double": ("set_double_property", float),
    "string": ("set_string_property", str),
}


@dataclass(slots=True)
class Template:
    """The form of every message."""

    text: str | None
    text_size: int | None
    message_size: int | None
    object_size: int | None
    group: str | None
    properties: list[tuple[str, str, Any]]

    def make(self, session: Session, number: int) -> Message:
        message: Message
        if self.text is not None:
            message = session.create_text_message(self.text)
        elif self.text_size is not None:
            message = session.create_text_message("".join(islice(cycle(_FILLER), self.text_size)))
        elif self.message_size is not None:
            message = session.create_bytes_message(
                bytes(index % 256 for index in range(256)) * (self.message_size // 256) + bytes(self.message_size % 256)
            )
        elif self.object_size is not None:
            message = session.create_object_message("x" * self.object_size)
        else:
            message = session.create_text_message(f"test message: {number}")
        for setter, name, value in self.properties:
            getattr(message, setter)(name, value)
        if self.group is not None:
            message.group_id = self.group
        return message


def parse_properties(text: str | None) -> list[tuple[str, str, Any]]:
    """``[{"type": "int", "key": "a", "value": "1"}]`` as (setter, name, value).  Raises :class:`BadUsage`."""
    if not text:
        return []
    try:
        entries = json.loads(text)
        if not isinstance(entries, list):
            raise BadUsage('--properties: expected a JSON array such as [{"type":"string","key":"colour","value":"red"}]')
        found = []
        for entry in entries:
            kind = entry["type"]
            if kind not in _PROPERTY_SETTERS:
                raise BadUsage(f"--properties: unknown type '{kind}', expected one of {', '.join(_PROPERTY_SETTERS)}")
            setter, convert = _PROPERTY_SETTERS[kind]
            found.append((setter, str(entry["key"]), convert(entry["value"])))
        return found
    except (ValueError, KeyError, TypeError) as error:
        raise BadUsage(f'--properties: {error}; expected JSON such as [{{"type":"int","key":"size","value":"3"}}]') from error


@click.command(epilog="Example: mqbroker producer --destination queue://orders --message-count 100 --text-size 1024 --threads 2")
@load_options
@click.option("--message", "text", help="Send text messages with this text.")
@click.option("--text-size", type=click.IntRange(0), help="Send text messages of this many characters.")
@click.option("--message-size", type=click.IntRange(0), help="Send bytes messages of this many bytes.")
@click.option("--object-size", type=click.IntRange(0), help="Send object messages that hold a text of this many characters as JSON.")
@click.option("--data", "data_file", type=FILE, help="Send the messages in this file, which was written by `consumer --data`.")
@click.option("--msgttl", type=click.IntRange(0), default=0, help="Milliseconds after which a message expires; 0: never.")
@click.option("--group", help="Message group (JMSXGroupID) of all messages.")
@click.option(
    "--properties",
    help='Properties of all messages as JSON: [{"type":"int","key":"size","value":"3"}]. '
    "Types: boolean, byte, short, int, long, float, double, string.",
)
@click.option("--non-persistent", is_flag=True, help="Messages need not survive a restart of the broker.")
@load
def producer(run: Load, /, data_file: Path | None, msgttl: int, non_persistent: bool, properties: str | None, **body: Any) -> None:
    """Send messages.

    Without a body option the messages are the texts "test message: 0", "test message: 1" and so on. At the end the rate, and percentiles of
    the time that a send took, are printed.
    """
    template = Template(**body, properties=parse_properties(properties))
    with connected(run.connection) as opened:

        def work(thread: int, tally: Tally, advance: Advance) -> None:
            tally.label = run.label("Producer", thread)
            run.say(f"{tally.label} Started to calculate elapsed time ...\n")
            messages = (
                _from_file(data_file) if data_file is not None else (partial(template.make, number=each) for each in range(run.count))
            )
            _send(opened, run, messages, tally, advance, msgttl, non_persistent)

        tallies, seconds = run.run(run.count if data_file is None else 0, "Producing", work)
        run.report(tallies, seconds, "Produced", "time of a send")


Maker = Callable[["Session"], "Message"]


def _from_file(file: Path) -> Iterator[Maker]:
    from mqbroker.cli.traffic.message_file import read_messages

    return read_messages(file)


def _send(
    connection: Connection, run: Load, messages: Iterator[Maker], tally: Tally, advance: Advance, time_to_live: int, non_persistent: bool
) -> None:
    from mqclient.jms import DeliveryMode

    mode = DeliveryMode.NON_PERSISTENT if non_persistent else DeliveryMode.PERSISTENT
    with (
        run.session(connection) as session,
        session.create_producer(run.target, delivery_mode=mode, time_to_live=time_to_live) as sender,
    ):
        for make in messages:
            message = make(session)
            started = time.perf_counter()
            sender.send(message)
            if run.batch and (tally.count + 1) % run.batch == 0:
                if run.talk:
                    click.echo(f"{tally.label} Committing transaction: {tally.count // run.batch}")
                session.commit()
            tally.latencies.add((time.perf_counter() - started) * 1000)
            tally.count += 1
            advance()
            if run.talk:
                click.echo(f"{tally.label} Sent: {message.body if not isinstance(message.body, bytes) else f'{len(message.body)} bytes'}")
            if not run.pause():
                break
        if run.batch and tally.count % run.batch:
            session.commit()
