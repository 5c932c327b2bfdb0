"""``mqbroker queue retry-messages|move-messages|remove-messages``: messages of a queue, such as dead letters, treated where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from mqbroker.cli.management import Management, failing, json_object, management
from mqbroker.cli.options import ConnectionOptions, ask, connection_options, together
from mqbroker.cli.status import BadUsage

_ORIGIN: Final = "_AMQ_ORIG_ADDRESS"
_NO_ORIGIN: Final = "null"
"""The key under which a broker counts messages without the property."""


_message_options = together(
    click.option("--dry-run", is_flag=True, help="Only count the messages; change nothing."),
    click.option("--filter", help="Only messages that match this filter, such as \"_AMQ_ORIG_ADDRESS = 'orders'\". Default: all."),
    click.option("--name", help="Name of the queue that holds the messages."),
)


@click.command("retry-messages", epilog="Example: mqbroker queue retry-messages --name DLQ --filter \"_AMQ_ORIG_ADDRESS = 'orders'\"")
@_message_options
@connection_options
def retry(connection: ConnectionOptions, name: str | None, filter: str | None, dry_run: bool) -> None:
    """Send dead letters and expired messages back to the queues that they came from.

    A message goes back to the queue that its property _AMQ_ORIG_QUEUE names or, if that queue no longer exists, to the address in
    _AMQ_ORIG_ADDRESS. A message stays if it has neither property, if no queue takes it there, and while a consumer holds it. With an
    Artemis, --filter is not available.
    """
    queue = name or ask("name of the queue", "--name", connection)
    with management(connection) as broker:
        if dry_run:
            _say_where(broker, queue, filter)
            return
        parameters = () if filter is None else (filter,)
        count = _done("retry", queue, lambda: broker.invoke(f"queue.{queue}", "retryMessages", *parameters))
        click.echo(f"{_messages(count)} of queue {queue} sent back.")
        left = _count(broker, "retry", queue, filter)
        if left:
            click.echo(f"{_messages(left)} still there: without a way back, held by a consumer, or new.")


@click.command("move-messages", epilog="Example: mqbroker queue move-messages --name DLQ --to orders.repair --filter \"kind = 'order'\"")
@_message_options
@click.option("--to", "target", help="Name of the queue to move the messages to; it must exist.")
@connection_options
def move(connection: ConnectionOptions, name: str | None, filter: str | None, dry_run: bool, target: str | None) -> None:
    """Move messages to another queue of the same broker.

    Messages that a consumer holds stay.
    """
    queue = name or ask("name of the queue", "--name", connection)
    other = target or ask("name of the queue that the messages go to", "--to", connection)
    with management(connection) as broker:
        if dry_run:
            click.echo(f"{_messages(_count(broker, 'move', queue, filter))} of queue {queue} would be moved to {other}.")
            return
        count = _done("move", queue, lambda: broker.invoke(f"queue.{queue}", "moveMessages", filter or "", other))
        click.echo(f"{_messages(count)} of queue {queue} moved to {other}.")


@click.command("remove-messages", epilog="Example: mqbroker queue remove-messages --name DLQ --filter \"kind = 'test'\" --dry-run")
@_message_options
@connection_options
def remove(connection: ConnectionOptions, name: str | None, filter: str | None, dry_run: bool) -> None:
    """Delete the messages of a queue that match a filter.

    Messages that a consumer holds stay. `mqbroker queue purge` deletes all messages.
    """
    queue = name or ask("name of the queue", "--name", connection)
    if not filter:
        raise BadUsage("choose the messages with --filter; `mqbroker queue purge` deletes all messages of a queue")
    with management(connection) as broker:
        if dry_run:
            click.echo(f"{_messages(_count(broker, 'remove', queue, filter))} of queue {queue} would be deleted.")
            return
        count = _done("remove", queue, lambda: broker.invoke(f"queue.{queue}", "removeMessages", filter))
        click.echo(f"{_messages(count)} of queue {queue} deleted.")


def _say_where(broker: Management, queue: str, filter: str | None) -> None:
    found = _done("retry", queue, lambda: broker.invoke(f"queue.{queue}", "countMessages", filter or "", _ORIGIN))
    counts: dict[str, int] = {str(origin): int(count) for origin, count in json_object(found).items()}
    without = counts.pop(_NO_ORIGIN, 0)
    for origin, count in sorted(counts.items()):
        click.echo(f"{_messages(count)} of queue {queue} would be sent back to {origin}.")
    if without or not counts:
        click.echo(f"{_messages(without)} of queue {queue} without a way back.")


def _count(broker: Management, verb: str, queue: str, filter: str | None) -> int:
    return int(_done(verb, queue, lambda: broker.invoke(f"queue.{queue}", "countMessages", filter or "")))


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"


def _done(verb: str, queue: str, operation: Callable[[], Any]) -> Any:
    with failing(f"Failed to {verb} messages of queue {queue}. Reason: "):
        return operation()
