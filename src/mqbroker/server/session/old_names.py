"""Names as clients before protocol version 129 expect them: with ``jms.queue.`` or ``jms.topic.`` before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqbroker.server.transport.naming import Naming
from mqclient.wire.hot import VERSION_NEW_ADDRESSING
from mqclient.wire.message import encode_message

if TYPE_CHECKING:
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.server.session_state import SessionState

JMS_SESSION_KEY = "jms-session"


def wants_old_names(session: SessionState) -> bool:
    """Does this session expect ``jms.queue.`` or ``jms.topic.`` before names?"""
    return session.version < VERSION_NEW_ADDRESSING and JMS_SESSION_KEY in session.metadata


def shown_name(session: SessionState, queue: Queue) -> str:
    """The name of a queue as this session expects it."""
    return Naming.for_old_client(queue.name, queue.definition.routing_type) if wants_old_names(session) else queue.name


def with_old_address(session: SessionState, message: Message) -> bytes:
    """A regular message, encoded, with its address as this session expects it.  (Large messages have the plain address.)"""
    if not wants_old_names(session):
        return message.buffer
    content = message.decoded()
    routing_type = message.routing_type
    if routing_type is None:
        known = session.server.messaging.core.addresses.get(message.address)
        routing_type = ANYCAST if known is None or ANYCAST in known.routing_types else MULTICAST
    content.address = Naming.for_old_client(message.address, routing_type)
    return encode_message(content)
