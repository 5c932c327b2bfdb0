"""The messages that a broker has, as its management says."""

from __future__ import annotations

from contextlib import suppress

from mqbroker.cli.management import Management, MissingResource
from mqclient.jms import Connection, ConnectionFactory
from tests.integration.kill.worker import PASSWORD, USER


def message_counts(connection: Connection) -> dict[str, int]:
    """The number of messages of each queue, also of those in delivery; raises JMSException."""
    management = Management(connection)
    counts = {}
    for name in management.attribute("broker", "QueueNames"):
        if name == management.reply_queue:
            continue
        with suppress(MissingResource):  # Temporary queues end with their sessions, also after they were listed.
            counts[name] = management.attribute(f"queue.{name}", "MessageCount")
    return counts


def messages_left(url: str) -> dict[str, int]:
    """The queues that are not empty, with their numbers of messages; raises JMSException."""
    with ConnectionFactory(url) as factory, factory.create_connection(USER, PASSWORD) as connection:
        connection.start()
        return {name: count for name, count in message_counts(connection).items() if count}
