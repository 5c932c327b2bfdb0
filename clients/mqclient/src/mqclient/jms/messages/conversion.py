"""Messages of the core client as JMS messages, and Python values as messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO, Final, Protocol

from mqclient.core.message import ClientMessage
from mqclient.jms.destinations import Destination
from mqclient.jms.exceptions import MessageFormatException
from mqclient.jms.messages.bytes_message import BytesMessage
from mqclient.jms.messages.map_message import MapMessage
from mqclient.jms.messages.message import Message, received_destination
from mqclient.jms.messages.simple_messages import ObjectMessage, TextMessage
from mqclient.jms.messages.stream_message import StreamMessage
from mqclient.wire import message as wire

_CLASSES: Final[dict[int, type[Message]]] = {
    wire.TYPE_DEFAULT: Message,
    wire.TYPE_OBJECT: ObjectMessage,
    wire.TYPE_TEXT: TextMessage,
    wire.TYPE_BYTES: BytesMessage,
    wire.TYPE_MAP: MapMessage,
    wire.TYPE_STREAM: StreamMessage,
}


class LargeBodies(Protocol):
    """Reads the bodies of large messages."""

    def read(self, message: ClientMessage) -> bytes:
        """The whole body."""

    def save(self, message: ClientMessage, file: BinaryIO) -> None:
        """Write the body to ``file`` chunk by chunk."""


def from_core(core: ClientMessage, expected: Destination | None, large: LargeBodies, *, browsed: bool = False) -> Message:
    """The JMS message for a received one.  A body of an unknown type becomes a BytesMessage.

    The body of a large message is read at once, but for a BytesMessage and a plain Message: that one is read when the application asks for
    it, or sends the message on, which it must do before it receives the next message of the consumer.
    """
    kind = _CLASSES.get(core.type, BytesMessage)
    message = kind()
    message._core = core
    message._body_read_only = message._properties_read_only = True
    message._destination = received_destination(core, expected)
    message._delivery_count = 0 if browsed else core.delivery_count
    if core.large is None:
        message._pending = core.plain_body() if core.compressed else core.body
    elif isinstance(message, BytesMessage):
        message._pending = lambda: large.read(core)
        message._length = core.large.size
        message._save = lambda file: large.save(core, file)
    elif kind is Message:  # the application does not see its body, but may send it on
        message._pending = lambda: large.read(core)
    else:
        message._pending = large.read(core)
    return message


def to_core(message: Message) -> ClientMessage:
    """A core message with the properties and the body of ``message``; the headers are the producer's business."""
    source = message._core
    properties = dict(source.properties)
    properties.pop(wire.KEY_LARGE_SIZE, None)
    properties.pop(wire.KEY_LARGE_COMPRESSED, None)
    core = ClientMessage(type=source.type, properties=properties)
    if isinstance(message, BytesMessage) and message.stream is not None:
        core.body_source = message.stream
    else:
        core.body = message._encode_body()
    return core


def as_message(body: object) -> Message:
    """The message for a Python value: str, bytes, a mapping, a list or tuple, None; a message is taken as it is."""
    if isinstance(body, Message):
        return body
    if isinstance(body, str):
        return TextMessage(body)
    if isinstance(body, bytes | bytearray | memoryview):
        return BytesMessage(bytes(body))
    if isinstance(body, Mapping):
        return MapMessage(body)
    if isinstance(body, list | tuple):
        return StreamMessage(body)
    if body is None:
        return Message()
    if isinstance(body, Destination):
        raise MessageFormatException(f"{body} is a destination, not a message; it is given as destination=…")
    raise MessageFormatException(f"a message body cannot be of type {type(body).__name__}; wrap it in an ObjectMessage to send it as JSON")
