"""Readers as management sees them: their positions on the queues, and their removal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.reader import Reader
from mqbroker.server.management.definitions import find_queue
from mqbroker.server.management.registry import ManagementError, Operation, as_text

if TYPE_CHECKING:
    from mqbroker.server.management.registry import ServerResource
    from mqbroker.server.server import Server


def reader_row(queue: Queue, reader: Reader) -> dict[str, Any]:
    """``lag`` is the number of messages that the reader has not settled."""
    return {
        "queue": queue.name,
        "address": queue.definition.address,
        "name": reader.name,
        "epoch": reader.epoch,
        "settled": reader.settled,
        "reserved": reader.reserved,
        "lag": 0 if queue.log is None else queue.log.lag(reader),
        "durable": queue.durable,
    }


def list_readers(server: Server, queue: Queue | None = None) -> str:
    """The readers of one queue as a JSON array; without a queue the readers of all queues."""
    rows = [reader_row(each, reader) for each, reader in server.messaging.readers.all() if queue is None or each is queue]
    return json.dumps(sorted(rows, key=lambda row: (row["queue"], row["name"])))


def check_free(queue: Queue) -> None:
    """Raises ManagementError for a queue with readers: messages that a reader was given must not change."""
    log = queue.log
    if log is not None and log.readers:
        raise ManagementError(
            f"AMQ229907: queue {queue.name} has readers ({', '.join(log.readers)}): nobody else can take or change its messages; "
            "removeReader removes a reader"
        )


def _list(control: ServerResource, name: Any = None) -> str:
    return list_readers(control.server, None if name is None else find_queue(control.server.messaging, name))


def _remove(control: ServerResource, queue: Any, name: Any) -> None:
    messaging = control.server.messaging
    messaging.readers.remove(find_queue(messaging, queue), as_text(name))


READER_OPERATIONS = {
    "listReaders": Operation(_list, 0, 1),
    "removeReader": Operation(_remove, 2),
}
