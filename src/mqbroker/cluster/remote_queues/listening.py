"""The session of a link for the notifications of a member.

Source: ``protocol-spec/``, chapter "Cluster connections".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from mqbroker.config.model.internal_names import NOTIFICATION_QUEUE
from mqclient.core.message import ClientMessage
from mqclient.core.runtime import new_uuid
from mqclient.core.session.session import Session
from mqclient.core.settings import QueueConfiguration
from mqclient.errors import NotConnectedError
from mqclient.wire.bodies import encode_text
from mqclient.wire.properties import STRING

ROUTING_MULTICAST = 0


@dataclass(frozen=True, slots=True)
class NotificationRequest:
    """The wanted notifications.  ``broker_name`` makes the queue's name readable; ``address`` is the cluster connection's option."""

    broker_name: str
    notification_address: str
    management_address: str
    address: str
    filter_string: str


async def listen(session: Session, request: NotificationRequest, handler: Callable[[ClientMessage], None]) -> None:
    """Have ``handler`` called with a notification for each present queue and consumer of the member, and for each later change.

    ``session`` must acknowledge by itself.  When the member deletes the queue for notifications, the connection counts as failed: only a
    new one makes up for missed notifications.  Raises the error that the member answers.
    """
    queue = f"{NOTIFICATION_QUEUE}{new_uuid(session.runtime)}.ActiveMQServerImpl_name={request.broker_name}"
    await session.create_queue(
        QueueConfiguration(
            name=queue,
            address=request.notification_address,
            routing_type=ROUTING_MULTICAST,
            filter_string=request.filter_string,
            durable=False,
            temporary=True,
            # Against the address settings of the member: each notification is needed, and none once it was read.
            last_value=False,
            non_destructive=False,
            ring_size=-1,
        )
    )
    consumer = await session.create_consumer(queue)
    consumer.set_message_handler(handler)
    consumer.on_disconnected = lambda: session.connection_failed(
        NotConnectedError("the member has deleted the queue for its notifications")
    )
    await session.start()
    producer = await session.create_producer(request.management_address)
    message = session.create_message(durable=False)
    message.properties = {
        "_AMQ_ResourceName": (STRING, "broker"),
        "_AMQ_OperationName": (STRING, "sendQueueInfoToQueue"),
    }
    message.body = encode_text(json.dumps([queue, request.address], separators=(",", ":")))
    await producer.send(message)
    await producer.close()
