"""Making messages, the common part of sessions and contexts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import BinaryIO

from mqclient.jms.messages.bytes_message import BytesMessage
from mqclient.jms.messages.map_message import MapMessage
from mqclient.jms.messages.message import Message
from mqclient.jms.messages.simple_messages import ObjectMessage, TextMessage
from mqclient.jms.messages.stream_message import StreamMessage


class MessageMaking:
    """The calls that make a message; it belongs to no session."""

    def create_message(self) -> Message:
        return Message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        return TextMessage(text)

    def create_bytes_message(self, data: bytes = b"", *, stream: BinaryIO | None = None) -> BytesMessage:
        """``stream``: a file whose content is the body, sent in chunks as a large message."""
        return BytesMessage(data, stream=stream)

    def create_map_message(self, entries: Mapping[str, object] | None = None) -> MapMessage:
        return MapMessage(entries)

    def create_stream_message(self, items: Iterable[object] = ()) -> StreamMessage:
        return StreamMessage(items)

    def create_object_message(self, value: object = None) -> ObjectMessage:
        return ObjectMessage(value)
