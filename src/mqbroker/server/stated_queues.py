"""Messages whose sender states the queues: the property ``_AMQ_ROUTE_TO`` holds their ids, 8 bytes each.

Imports use it, and brokers of a cluster towards each other.  Filters and round robin do not apply to such a message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from twisted.logger import Logger

from mqbroker.messaging.core import MessagingCore
from mqbroker.messaging.message import Message
from mqbroker.messaging.queue import Queue
from mqclient.wire.message import KEY_ACK_ROUTE_TO, KEY_ROUTE_TO

MARK: Final = KEY_ROUTE_TO.removeprefix("_AMQ_").encode("utf-16-le")
"""Part of every property name that this is about: without it among the properties there is nothing to do."""

_ID = struct.Struct(">q")

log = Logger(namespace="mqbroker.server")


def take_stated_queues(
    core: MessagingCore, message: Message, address: str, routing_type: int | None, may_send: Callable[[str, str, str | None], None]
) -> list[Queue] | None:
    """The queues that ``message`` states, None when it states none; the properties that say so are taken out of it.

    Only queues that messages of ``address`` may reach count, of the ``routing_type`` of the message if it has one.
    ``may_send(permission, address, queue)`` raises where the sender may not send to a queue.
    """
    properties = message.properties
    stated = properties.get(KEY_ROUTE_TO)
    removed = [
        name for name in properties if name.startswith((KEY_ROUTE_TO, KEY_ACK_ROUTE_TO)) and name not in (KEY_ROUTE_TO, KEY_ACK_ROUTE_TO)
    ]
    if stated is None and not removed:
        return None
    content = message.decoded()
    content.properties = {name: value for name, value in properties.items() if name != KEY_ROUTE_TO and name not in removed}
    message.take_content(Message.of(content, message.large))
    if stated is None:
        return None
    data = stated[1]
    ids = [number for (number,) in _ID.iter_unpack(data)] if isinstance(data, bytes) and not len(data) % _ID.size else []
    bound = {queue.queue_id: queue for queue in core.routing.bound(address)}
    found: list[Queue] = []
    for queue_id in dict.fromkeys(ids):
        queue = bound.get(queue_id)
        if queue is None:
            log.warn("a message to {address} states the queue {id}, which the address does not have", address=address, id=queue_id)
            continue
        may_send("send", queue.definition.address, queue.name)
        definition = queue.definition
        open_for_it = definition.enabled and (queue.consumer_count or not definition.purge_on_no_consumers)
        if open_for_it and routing_type in (None, definition.routing_type):
            found.append(queue)
    return found
