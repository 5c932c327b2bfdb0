"""``mqbroker consumer`` and ``mqbroker browser``."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mqbroker.cli.connection import connected
from mqbroker.cli.options import FILE
from mqbroker.cli.progress import Advance
from mqbroker.cli.status import BadUsage
from mqbroker.cli.traffic.load import Load, Pause, load, load_options
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
@click.option("--data", "data_file", type=FILE, help="Write the messages to this file, for `producer --data`.")
@load
def consumer(run: Load, selector: str | None, durable: bool, break_on_null: bool, receive_timeout: int, data_file: Path | None) -> None:
    """Receive messages.

    At the end the rate, and percentiles of the age of the messages (from the time set by the sender to the time of receipt), are printed.
    """
    if durable and not run.connection.client_id:
        raise BadUsage("--durable needs --clientID: a durable subscription belongs to a client id")
    with ExitStack() as stack:
        writer = _writer(stack, data_file)
        opened = stack.enter_context(connected(run.connection))
        run.say(f"Consumer:: filter = {selector or 'null'}")

        def work(thread: int, tally: Tally, advance: Advance) -> None:
            tally.label = run.label("Consumer", thread)
            wait = "for ever" if receive_timeout < 0 else f"{receive_timeout}ms"
            run.say(f"{tally.label} wait {wait} until {run.count} messages are consumed")
            with (
                _session(run, opened, writer) as session,
                _subscribe(session, run.target, selector, tally.label if durable else None) as receiver,
            ):
                while tally.count < run.count and not run.pause.stopped.is_set():
                    message = _receive(receiver, receive_timeout, run.pause)
                    if message is None:
                        if break_on_null:
                            break
                        continue
                    _take(message, tally, writer, run.talk)
                    advance()
                    if writer is not None and not run.batch:
                        message.acknowledge()
                    if run.batch and tally.count % run.batch == 0:
                        session.commit()
                    if not run.pause():
                        break
                if run.batch and tally.count % run.batch:
                    session.commit()

        tallies, seconds = run.run(run.count, "Consuming", work)
        run.report(tallies, seconds, "Consumed", "age at receipt")
        for tally in tallies:
            run.say(f"{tally.label} Consumer thread finished")


@click.command(epilog="Example: mqbroker browser --destination queue://orders --filter \"colour = 'red'\"")
@load_options
@_FILTER
@load
def browser(run: Load, selector: str | None) -> None:
    """Look at the messages of a queue, at most --message-count, without consuming them.

    With --json each message is printed as one line with its headers and properties. --commit-interval has no effect.
    """
    with connected(run.connection) as opened:
        run.say(f"Consumer:: filter = {selector or 'null'}")

        def work(thread: int, tally: Tally, advance: Advance) -> None:
            tally.label = run.label("Consumer", thread)
            run.say(f"{tally.label} trying to browse {run.count} messages")
            _browse(opened, run, selector, tally)

        tallies, _ = run.run(0, "", work)
        for tally in tallies:
            run.say(f"{tally.label} browsed: {tally.count} messages")
            run.say(f"{tally.label} Browser thread finished")
        for tally in tallies:
            if tally.error is not None:
                raise tally.error


def _browse(connection: Connection, run: Load, selector: str | None, tally: Tally) -> None:
    from mqclient.jms import Queue

    if not isinstance(run.target, Queue):
        raise BadUsage("a topic cannot be browsed: browse the queue of a subscription, as fqqn://ADDRESS::QUEUE")
    with connection.create_session() as session, session.create_browser(run.target, selector) as messages:
        if run.count == 0:
            return
        for message in messages:
            click.echo(_json_line(message) if run.as_json else f"{tally.label} browsing {describe(message)}")
            tally.count += 1
            if tally.count >= run.count or not run.pause():
                break


def _session(run: Load, connection: Connection, writer: MessageWriter | None) -> Session:
    """A session: a message that goes into a file is acknowledged when it is there."""
    if writer is None or run.batch:
        return run.session(connection)
    from mqclient.jms import AcknowledgeMode

    return connection.create_session(acknowledge_mode=AcknowledgeMode.CLIENT_ACKNOWLEDGE)


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
    """One line about a message: its text, or its kind."""
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
