"""Durable subscriptions: the durable queues of topics, by their names as every JMS client makes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mqbroker.config.model.address_settings import MULTICAST
from mqbroker.server.management.queue_control import QueueControl
from mqbroker.server.management.registry import ManagementError, as_text
from mqclient.jms.subscriptions import subscription_queue

if TYPE_CHECKING:
    from mqbroker.messaging.messaging import Messaging
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.messaging.turns.steps import Steps
    from mqbroker.server.server import Server


def durable_rows(messaging: Messaging, topic: Any = None) -> list[dict[str, Any]]:
    """The durable subscriptions of all topics, or of one.  Raises ManagementError for a topic that is not there."""
    name = as_text(topic)
    if name:
        address = messaging.core.addresses.get(name)
        if address is None or MULTICAST not in address.routing_types:
            raise ManagementError(f"Could not locate destination {name}")
    found = []
    for queue in durables(messaging):
        if not name or queue.definition.address == name:
            client_id, subscription = split_subscription(queue.name)
            found.append(
                {
                    "name": subscription,
                    "clientID": client_id,
                    "topic": queue.definition.address,
                    "durable": True,
                    "msgs": queue.message_count,
                    "state": "ACTIVE" if queue.consumer_count else "INACTIVE",
                }
            )
    return sorted(found, key=lambda row: (row["name"], row["clientID"]))


def destroy_durable(messaging: Messaging, name: Any, client_id: Any = None) -> None:
    """Remove a durable subscription that nobody uses.  Raises ManagementError, the errors of the registrar, Undecided."""
    queue = _find(messaging, name, client_id, "unsubscribe")
    if queue.consumer_count:
        raise ManagementError(f"Unable to unsubscribe durable subscription {_shown(name, client_id)} - it is in use")
    messaging.definitions.delete_queue(queue)


def purge_durable(server: Server, name: Any, client_id: Any = None) -> Steps[int]:
    """Remove the messages that this broker keeps for a durable subscription; the result is their number.  Raises ManagementError."""
    return QueueControl(server, _find(server.messaging, name, client_id, "purge")).purge()


def _find(messaging: Messaging, name: Any, client_id: Any, action: str) -> Queue:
    queue = messaging.core.queues.get(subscription_queue(as_text(client_id) or None, as_text(name), durable=True))
    if queue is None or queue not in set(durables(messaging)):
        raise ManagementError(f"Unable to {action} durable subscription {_shown(name, client_id)} - consumer does not exist")
    return queue


def _shown(name: Any, client_id: Any) -> str:
    return f"[{as_text(client_id)}:{as_text(name)}]"


def split_subscription(queue_name: str) -> tuple[str, str]:
    """Client id and name of a subscription, from the name of its queue; no client id where the name has one part."""
    parts = [""]
    position = 0
    while position < len(queue_name):
        character = queue_name[position]
        position += 1
        if character == "\\" and position < len(queue_name):
            parts[-1] += queue_name[position]
            position += 1
        elif character == "." and len(parts) == 1:
            parts.append("")
        else:
            parts[-1] += character
    return ("", parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def durables(messaging: Messaging) -> Iterator[Queue]:
    for queue in messaging.core.queues.values():
        definition = queue.definition
        own = definition.temporary or definition.internal or definition.name == definition.address
        if definition.routing_type == MULTICAST and definition.durable and not own:
            yield queue
