"""``mqbroker consumer`` and ``mqbroker browser``."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mqbroker.cli.connection import connected
from mqbroker.cli.options import JSON, ConnectionOptions, connection_options
from mqbroker.cli.progress import Advance
from mqbroker.cli.status import BadUsage
from mqbroker.cli.traffic.load import Pause, destination_of, label_of, load_options, report, run_threads, session_for
from mqbroker.cli.traffic.stats import Tally

if TYPE_CHECKING:
    from mqbroker.cli.traffic.message_file import MessageWriter
    from mqclient.jms import Connection, Destination, Message, MessageConsumer, Session

_SLICE_MS: Final = 250
"""A thread that waits for a message looks that often whether it has to end."""

_FILTER = click.option("--filter", "selector", help="Only messages that match this filter (selector).")


@click.command(epilog="Example: mqbroker consumer --destination queue://orders --message-count 100 --break-on-null")
@load_options
@_FILTER
@click.option("--durable", is_flag=True, help="Use a durable subscription to the topic; needs --clientID.")
@click.option("--break-on-null", is_flag=True, help="End when no message has come within the receive timeout. Default: keep waiting.")
@click.option(
    "--receive-timeout",
    type=click.IntRange(-1),
    default=3000,
    show_default=True,
    help="Milliseconds to wait for a message; -1 waits forever.",
)
@click.option(
    "--data", "data_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the messages to this file, for `producer --data`."
)
@JSON
@connection_options
def consumer(
    connection: ConnectionOptions,
    destination: str,
    message_count: int,
    threads: int,
    sleep: int,
    batch: int,
    selector: str | None,
    durable: bool,
    break_on_null: bool,
    receive_timeout: int,
    data_file: Path | None,
    as_json: bool,
) -> None:
    """Receive messages.

    At the end the rate, and percentiles of the age of the messages (from the time set by the sender to the time of receipt), are printed.
    """
    target = destination_of(destination)
    if durable and not connection.client_id:
        raise BadUsage("--durable needs --clientID: a durable subscription belongs to a client id")
    connection.quiet = as_json
    pause = Pause(sleep)
    talk = connection.verbose and not as_json
    with ExitStack() as stack:
        writer = _writer(stack, data_file)
        opened = stack.enter_context(connected(connection))
        if not as_json:
            click.echo(f"Consumer:: filter = {selector or 'null'}")

        def work(thread: int, tally: Tally, advance: Advance) -> None:
            tally.label = label_of("Consumer", target, thread)
            if not as_json:
                wait = "for ever" if receive_timeout < 0 else f"{receive_timeout}ms"
                click.echo(f"{tally.label} wait {wait} until {message_count} messages are consumed")
            with session_for(opened, batch) as session, _subscribe(session, target, selector, tally.label if durable else None) as receiver:
                while tally.count < message_count and not pause.stopped.is_set():
                    message = _receive(receiver, receive_timeout, pause)
                    if message is None:
                        if break_on_null:
                            break
                        continue
                    _take(message, tally, writer, talk)
                    advance()
                    if batch and tally.count % batch == 0:
                        session.commit()
                    if not pause():
                        break
                if batch and tally.count % batch:
                    session.commit()

        tallies, seconds = run_threads(threads, message_count, "Consuming", pause, as_json, work)
        report(tallies, seconds, "Consumed", "age at receipt", as_json)
        if not as_json:
            for tally in tallies:
                click.echo(f"{tally.label} Consumer thread finished")


@click.command(epilog="Example: mqbroker browser --destination queue://orders --filter \"colour = 'red'\"")
@load_options
@_FILTER
@JSON
@connection_options
def browser(
    connection: ConnectionOptions,
    destination: str,
    message_count: int,
    threads: int,
    sleep: int,
    batch: int,
    selector: str | None,
    as_json: bool,
) -> None:
    """Look at the messages of a queue, at most --message-count, without consuming them.

    With --json each message is printed as one line with its headers and properties. --commit-interval has no effect.
    """
    target = destination_of(destination)
    connection.quiet = as_json
    pause = Pause(sleep)
    with connected(connection) as opened:
        if not as_json:
            click.echo(f"Consumer:: filter = {selector or 'null'}")

        def work(thread: int, tally: Tally, advance: Advance) -> None:
            tally.label = label_of("Consumer", target, thread)
            if not as_json:
                click.echo(f"{tally.label} trying to browse {message_count} messages")
            _browse(opened, target, selector, message_count, tally, pause, as_json)

        tallies, _ = run_threads(threads, 0, "Browsing", pause, True, work)
        if not as_json:
            for tally in tallies:
                click.echo(f"{tally.label} browsed: {tally.count} messages")
                click.echo(f"{tally.label} Browser thread finished")
        for tally in tallies:
            if tally.error is not None:
                raise tally.error


def _browse(
    connection: Connection, queue: Destination, selector: str | None, count: int, tally: Tally, pause: Pause, as_json: bool
) -> None:
    from mqclient.jms import Queue

    if not isinstance(queue, Queue):
        raise BadUsage("a topic cannot be browsed: browse the queue of a subscription, as fqqn://ADDRESS::QUEUE")
    with connection.create_session() as session, session.create_browser(queue, selector) as messages:
        if count == 0:
            return
        for message in messages:
            if as_json:
                click.echo(_json_line(message))
            else:
                click.echo(f"{tally.label} browsing {describe(message)}")
            tally.count += 1
            if tally.count >= count or not pause():
                break


def _writer(stack: ExitStack, file: Path | None) -> MessageWriter | None:
    if file is None:
        return None
    from mqbroker.cli.traffic.message_file import MessageWriter

    return stack.enter_context(MessageWriter(file))


def _subscribe(session: Session, destination: Destination, selector: str | None, subscription: str | None) -> MessageConsumer:
    from mqclient.jms import Topic

    if subscription is None:
        return session.create_consumer(destination, selector)
    if not isinstance(destination, Topic):
        raise BadUsage("--durable is for topics: --destination topic://NAME")
    return session.create_durable_consumer(destination, subscription, selector)


def _receive(receiver: MessageConsumer, timeout: int, pause: Pause) -> Message | None:
    """The next message; None when ``timeout`` ms (-1: no limit) are over, or when the command ends."""
    deadline = None if timeout < 0 else time.monotonic() + timeout / 1000
    while not pause.stopped.is_set():
        left = _SLICE_MS if deadline is None else min(_SLICE_MS, max(0, int((deadline - time.monotonic()) * 1000)))
        message = receiver.receive(left)
        if message is not None or (deadline is not None and time.monotonic() >= deadline):
            return message
    return None


def _take(message: Message, tally: Tally, writer: MessageWriter | None, talk: bool) -> None:
    if message.timestamp:
        tally.latencies.add(time.time() * 1000 - message.timestamp)
    tally.count += 1
    if writer is not None:
        writer.write(message)
    if talk:
        click.echo(f"{tally.label} Received {describe(message)}")
        click.echo(f"JMS Message ID:{message.message_id}")
        if isinstance(message.body, str):
            click.echo(f"Received text sized at {len(message.body)}")


def describe(message: Message) -> str:
    """One line about a message: its text, or what it is."""
    body = message.body
    if isinstance(body, str):
        return body
    if isinstance(body, bytes):
        return f"{type(message).__name__} with {len(body)} bytes, {message.message_id}"
    return f"{type(message).__name__} {message.message_id}"


def _json_line(message: Message) -> str:
    import json

    body = message.body
    return json.dumps(
        {
            "messageID": message.message_id,
            "timestamp": message.timestamp,
            "priority": int(message.priority),
            "expiration": message.expiration,
            "deliveryMode": message.delivery_mode.name,
            "type": type(message).__name__,
            "correlationID": message.correlation_id,
            "properties": dict(message.properties),
            "body": {"bytes": len(body)} if isinstance(body, bytes) else body,
        },
        default=str,
        ensure_ascii=False,
    )
