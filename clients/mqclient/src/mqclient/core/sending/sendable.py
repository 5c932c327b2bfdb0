"""Messages that cannot be sent are refused at the send call, with an error that names the allowed values."""

from __future__ import annotations

import struct
from collections.abc import Callable

from mqclient.core.message import ClientMessage
from mqclient.errors import MessageTooLargeError
from mqclient.wire.frames import FRAME_SIZE_MAX, HEADER_SIZE
from mqclient.wire.hot import send_trailer_size
from mqclient.wire.message import TYPE_TEXT, CoreMessage
from mqclient.wire.properties import PROPERTIES_MAX

CHUNK_SIZE_MAX = FRAME_SIZE_MAX // 2
"""Bytes of a piece of a large message that the client sends: with a greater ``min_large_message_size`` its frames would be too large."""

_ENCODERS = {"str": "encode_text", "dict": "encode_map", "list": "encode_stream"}
_length = struct.Struct(">i").unpack_from


def check_message(message: ClientMessage) -> None:
    """Raises TypeError or ValueError for an invalid message, and ``MessageTooLargeError`` for one with too many properties."""
    if not isinstance(message, ClientMessage):
        raise TypeError(f"expected a message, not {_kind(message)}: session.create_text_message(…) and session.create_message(…) make one")
    if len(message.properties) > PROPERTIES_MAX:
        raise MessageTooLargeError(f"the message has {len(message.properties)} properties; a broker takes at most {PROPERTIES_MAX}")
    if message.body_source is not None:
        return
    body = message.body
    if not isinstance(body, (bytes, bytearray, memoryview)):
        encoder = _ENCODERS.get(type(body).__name__, "encode_text")
        raise TypeError(f"the body of a message is bytes, not {_kind(body)}: {encoder}(…) of mqclient.wire.bodies makes them")
    if message.strict and message.type == TYPE_TEXT and body and not _is_text(body):
        raise ValueError(
            "the body of a text message is an encoded text: set message.text, or use encode_text(…) of mqclient.wire.bodies; "
            "plain bytes are sent with TYPE_BYTES"
        )


def check_size(buffer_size: int, version: int) -> None:
    """Raises ``MessageTooLargeError`` for an encoded message whose frame no broker would take: it would end the connection."""
    size = HEADER_SIZE + buffer_size + send_trailer_size(version)
    if size > FRAME_SIZE_MAX:
        raise MessageTooLargeError(
            f"the message takes a frame of {size} bytes; a broker takes at most {FRAME_SIZE_MAX}. "
            "A body above minLargeMessageSize travels in pieces: set it lower"
        )


def encoded(encode: Callable[[CoreMessage, bytes], bytes], message: CoreMessage, last: bytes = b"") -> bytes:
    """``encode(message, last)``.  Raises TypeError with the reason for a bad header or property, ValueError for a value that does not
    fit."""
    try:
        return encode(message, last)
    except TypeError as error:
        raise TypeError(_wrong(message) or f"the message cannot be encoded: {error}") from error


def _wrong(message: CoreMessage) -> str | None:
    for key, entry in message.properties.items():
        if not isinstance(key, str):
            return f"the name of a property is a str, not {_kind(key)}: {key!r}"
        if not isinstance(entry, tuple) or len(entry) != 2:
            return f"the property {key} is {_kind(entry)}; message.put({key!r}, value) gives it the type that travels with it"
    return None


def _is_text(body: bytes | bytearray | memoryview) -> bool:
    """Can ``body`` be an encoded text, as far as its first bytes tell?  Bytes after the text do not matter."""
    if body[0] == 0:
        return True
    if body[0] != 1 or len(body) < 5:
        return False
    length: int = _length(body, 1)[0]
    return 0 <= length <= len(body) - 5 and not length & 1


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
