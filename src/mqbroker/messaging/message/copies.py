"""Copies that the broker makes of a message: for dead letters, expiry, moves and unroutable messages."""

from __future__ import annotations

from dataclasses import dataclass

from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.message.message import Message
from mqclient.wire import message as keys
from mqclient.wire.message import CoreMessage, encode_headers, encode_message
from mqclient.wire.properties import BYTE, LONG, STRING

_ROUTE_TO_KEY = keys.KEY_ROUTE_TO.encode("utf-16-le")


@dataclass(slots=True)
class Copy:
    """A changed message, not yet a :class:`Message`."""

    content: CoreMessage
    large: LargeBody | None

    def message(self) -> Message:
        """A message of its own; a large body is shared with the original."""
        if self.large is not None:
            self.large.hold()
        return Message.of(self.content, self.large)

    def replace_in(self, message: Message) -> None:
        """Give ``message`` itself this content."""
        if self.large is not None:
            changed = Message.read(encode_headers(self.content), 0, large=self.large)
        else:
            changed = Message.read(encode_message(self.content), 4 + len(self.content.body))
        message.take_content(changed)


def make_copy(
    message: Message,
    message_id: int,
    address: str,
    *,
    original_address: str,
    original_queue: str | None,
    actual_expiry: int | None = None,
) -> Copy:
    """``message`` as it goes to ``address``: no expiration, no schedule, and properties that tell where it came from.

    Source: Artemis manual, "Dead Letter Addresses" and "Message Expiry"; protocol-spec/, "Property keys with a meaning".
    """
    content = message.decoded()
    content.message_id = message_id
    content.address = address
    content.expiration = 0
    properties = content.properties
    properties.pop(keys.KEY_SCHEDULED_DELIVERY, None)
    if message.buffer.find(_ROUTE_TO_KEY, message.properties_offset) >= 0:
        for name in [name for name in properties if name.startswith(keys.KEY_ROUTE_TO)]:
            del properties[name]
    # Of a fully qualified name the address: KEY_ORIGINAL_QUEUE has the queue, and "::" cannot stand in the name of a queue made for it.
    properties[keys.KEY_ORIGINAL_ADDRESS] = (STRING, original_address.partition("::")[0])
    if original_queue is not None:
        properties[keys.KEY_ORIGINAL_QUEUE] = (STRING, original_queue)
    else:
        properties.pop(keys.KEY_ORIGINAL_QUEUE, None)
    properties[keys.KEY_ORIGINAL_MESSAGE_ID] = (LONG, message.message_id)
    earlier = properties.pop(keys.KEY_ORIGINAL_ROUTING_TYPE, None)
    stated = properties.pop(keys.KEY_ROUTING_TYPE, None)
    routing_type = message.routing_type
    if routing_type is not None:
        properties[keys.KEY_ORIGINAL_ROUTING_TYPE] = (BYTE, int(routing_type))
    elif earlier is not None and stated is None:
        properties[keys.KEY_ROUTING_TYPE] = earlier
    if actual_expiry is not None:
        properties[keys.KEY_ACTUAL_EXPIRY] = (LONG, actual_expiry)
    return Copy(content, message.large)
