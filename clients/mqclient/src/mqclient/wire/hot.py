"""Hand-written codecs of the packets on the message path (decision 11).

The codecs work on a packet's body (the bytes after the 13 header bytes of a frame).  The classes that carry the values are in
:mod:`mqclient.wire.packets`; the broker and the client call these functions directly where a class would only cost time.

Source: ``protocol-spec/``, chapter "Sending and delivery".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from mqclient.errors import MalformedPacketError
from mqclient.wire.primitives import Decoder, Encoder, encode_simple_string

VERSION_NEW_ADDRESSING = 129
"""From here on a message buffer has no second integer between body and headers."""
VERSION_CORRELATION = 130
VERSION_COMMIT_CORRELATION = 132
VERSION_SENDER = 134

BODY_OFFSET = 17
"""A message's first field counts the body from this offset before 129, and from 13 since."""

_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_SEND_130 = struct.Struct(">Bq")
_SEND_134 = struct.Struct(">Bqi")
_SEND_BEGIN = struct.Struct(">ibq")
_SEND_TYPE = 71
_RECEIVE = struct.Struct(">qi")
_FLOW = struct.Struct(">qi")
_ACKNOWLEDGE = struct.Struct(">qqB")
_RECEIVE_CONTINUATION = struct.Struct(">Bq")
_CONTINUATION_BEGIN = struct.Struct(">ibqi")
_CONTINUATION_TYPE = 77
_CONTINUATION_EXTRA = _CONTINUATION_BEGIN.size - 4 + _RECEIVE_CONTINUATION.size
"""Bytes that the length field of the frame counts beside the chunk."""


def _cut_off(packet: str, size: int, *fields: tuple[str, int]) -> MalformedPacketError:
    """The error for a body of ``size`` bytes that ends inside one of ``fields`` (name and bytes of each)."""
    for name, width in fields:
        if size < width:
            return MalformedPacketError(packet, name, f"needs {width} bytes, {size} left")
        size -= width
    return MalformedPacketError(packet, "body", "is too short")


def send_trailer_size(version: int) -> int:
    """Bytes after the message in SESS_SEND: found from the end of the frame."""
    return 13 if version >= VERSION_SENDER else 9 if version >= VERSION_CORRELATION else 1


def to_old_layout(message: bytes) -> bytes:
    """The buffer as versions before 129 expect it: one more integer between body and headers."""
    end_of_body = _I32.unpack_from(message)[0] - 13 + 4
    return b"".join(
        (
            _I32.pack(end_of_body - 4 + BODY_OFFSET),
            message[4:end_of_body],
            _I32.pack(len(message) + BODY_OFFSET),
            message[end_of_body:],
        )
    )


def from_old_layout(message: bytes, packet: str) -> bytes:
    """The buffer of a version before 129 in today's layout."""
    if len(message) < 8:
        raise MalformedPacketError(packet, "message", f"{len(message)} bytes are too few")
    body_size = _I32.unpack_from(message)[0] - BODY_OFFSET
    if not 0 <= body_size <= len(message) - 8:
        raise MalformedPacketError(packet, "message", f"body of {body_size} bytes in {len(message)}")
    end = 4 + body_size
    return b"".join((_I32.pack(body_size + 13), message[4:end], message[end + 4 :]))


def encode_send(message: bytes, requires_response: bool, correlation_id: int, sender_id: int, version: int) -> bytes:
    flag = 0xFF if requires_response else 0
    if version >= VERSION_SENDER:
        return message + _SEND_134.pack(flag, correlation_id, sender_id)
    if version >= VERSION_CORRELATION:
        return message + _SEND_130.pack(flag, correlation_id)
    if version < VERSION_NEW_ADDRESSING:
        message = to_old_layout(message)
    return message + bytes((flag,))


def send_frames(
    messages: Sequence[bytes], channel: int, first_correlation: int, sender_id: int, requires_response: bool, version: int
) -> tuple[list[bytes], int]:
    """Whole SESS_SEND frames in parts, and the bytes of all messages; correlations ascend by one.  For versions from 129 on."""
    flag = 0xFF if requires_response else 0
    overhead = _SEND_BEGIN.size - 4 + send_trailer_size(version)
    begin, trailer = _SEND_BEGIN.pack, _SEND_134.pack
    parts: list[bytes] = []
    add = parts.append
    total = 0
    correlation = first_correlation
    for message in messages:
        size = len(message)
        total += size
        add(begin(overhead + size, _SEND_TYPE, channel))
        add(message)
        if version >= VERSION_SENDER:
            add(trailer(flag, correlation, sender_id))
        else:
            add(encode_send(b"", requires_response, correlation, sender_id, version))
        correlation += 1
    return parts, total


def decode_send(body: bytes, version: int) -> tuple[bytes, bool, int, int]:
    """(message, requires response, correlation id, sender id)."""
    size = len(body)
    end = size - send_trailer_size(version)
    if end < 4:
        raise MalformedPacketError("SESS_SEND", "message", f"body of {size} bytes is too short")
    if version >= VERSION_SENDER:
        flag, correlation_id, sender_id = _SEND_134.unpack_from(body, end)
        return body[:end], flag != 0, correlation_id, sender_id
    if version >= VERSION_CORRELATION:
        flag, correlation_id = _SEND_130.unpack_from(body, end)
        return body[:end], flag != 0, correlation_id, -1
    message = body[:end]
    if version < VERSION_NEW_ADDRESSING:
        message = from_old_layout(message, "SESS_SEND")
    return message, body[end] != 0, 0, -1


def encode_send_continuation(
    chunk: bytes,
    continues: bool,
    message_body_size: int,
    requires_response: bool,
    correlation_id: int,
    sender_id: int,
    version: int,
) -> bytes:
    out = Encoder()
    out.i32(len(chunk))
    out.raw(chunk)
    out.boolean(continues)
    if not continues:
        out.i64(message_body_size)
    out.boolean(requires_response)
    if version >= VERSION_CORRELATION:
        out.i64(correlation_id)
    if version >= VERSION_SENDER:
        out.i32(sender_id)
    return bytes(out.data)


def decode_send_continuation(body: bytes, version: int) -> tuple[bytes, bool, int, bool, int, int]:
    """(chunk, continues, message body size, requires response, correlation id, sender id)."""
    source = Decoder(body, "SESS_SEND_CONTINUATION")
    source.field = "chunk"
    chunk = source.raw(source.i32())
    source.field = "continues"
    continues = source.boolean()
    message_body_size = -1
    if not continues:
        source.field = "message_body_size"
        message_body_size = source.i64()
    source.field = "requires_response"
    requires_response = source.boolean()
    correlation_id = sender_id = -1
    if version >= VERSION_CORRELATION and source.remaining >= 8:
        correlation_id = source.i64()
        if version >= VERSION_SENDER and source.remaining >= 4:
            sender_id = source.i32()
    return chunk, continues, message_body_size, requires_response, correlation_id, sender_id


def encode_receive(message: bytes, consumer_id: int, delivery_count: int, version: int) -> bytes:
    if version < VERSION_NEW_ADDRESSING:
        message = to_old_layout(message)
    return message + _RECEIVE.pack(consumer_id, delivery_count)


def decode_receive(body: bytes, version: int) -> tuple[bytes, int, int]:
    """(message, consumer id, delivery count)."""
    end = len(body) - 12
    if end < 4:
        raise MalformedPacketError("SESS_RECEIVE_MSG", "message", f"body of {len(body)} bytes is too short")
    consumer_id, delivery_count = _RECEIVE.unpack_from(body, end)
    message = body[:end]
    if version < VERSION_NEW_ADDRESSING:
        message = from_old_layout(message, "SESS_RECEIVE_MSG")
    return message, consumer_id, delivery_count


def encode_receive_continuation(chunk: bytes, continues: bool, consumer_id: int) -> bytes:
    return b"".join((_I32.pack(len(chunk)), chunk, _RECEIVE_CONTINUATION.pack(0xFF if continues else 0, consumer_id)))


def receive_continuation_parts(channel: int, chunk: bytes, continues: bool, consumer_id: int) -> tuple[bytes, bytes, bytes]:
    """The whole frame, in parts, so that ``chunk`` is not copied."""
    size = len(chunk)
    begin = _CONTINUATION_BEGIN.pack(_CONTINUATION_EXTRA + size, _CONTINUATION_TYPE, channel, size)
    return begin, chunk, _RECEIVE_CONTINUATION.pack(0xFF if continues else 0, consumer_id)


def decode_receive_continuation(body: bytes) -> tuple[bytes, bool, int]:
    """(chunk, continues, consumer id)."""
    source = Decoder(body, "SESS_RECEIVE_CONTINUATION")
    source.field = "chunk"
    chunk = source.raw(source.i32())
    source.field = "continues"
    continues = source.boolean()
    source.field = "consumer_id"
    return chunk, continues, source.i64()


def encode_acknowledge(consumer_id: int, message_id: int, requires_response: bool) -> bytes:
    return _ACKNOWLEDGE.pack(consumer_id, message_id, 0xFF if requires_response else 0)


def decode_acknowledge(body: bytes, packet: str) -> tuple[int, int, bool]:
    """(consumer id, message id, requires response)."""
    if len(body) < 17:
        raise _cut_off(packet, len(body), ("consumer_id", 8), ("message_id", 8), ("requires_response", 1))
    consumer_id, message_id, flag = _ACKNOWLEDGE.unpack_from(body)
    return consumer_id, message_id, flag != 0


def encode_flow_token(consumer_id: int, credits: int) -> bytes:
    return _FLOW.pack(consumer_id, credits)


def decode_flow_token(body: bytes) -> tuple[int, int]:
    """(consumer id, credits)."""
    if len(body) < 12:
        raise _cut_off("SESS_FLOWTOKEN", len(body), ("consumer_id", 8), ("credits", 4))
    consumer_id, credits = _FLOW.unpack_from(body)
    return consumer_id, credits


def encode_credits(credits: int, address: str) -> bytes:
    return _I32.pack(credits) + encode_simple_string(address)


def decode_credits(body: bytes, packet: str) -> tuple[int, str]:
    """(credits, address)."""
    source = Decoder(body, packet)
    source.field = "credits"
    credits = source.i32()
    source.field = "address"
    return credits, source.simple_string()


def encode_create_consumer(
    consumer_id: int,
    queue_name: str,
    filter_string: str | None,
    browse_only: bool,
    requires_response: bool,
    priority: int,
    version: int,
) -> bytes:
    out = Encoder()
    out.i64(consumer_id)
    out.simple_string(queue_name)
    out.nullable_simple_string(filter_string)
    out.boolean(browse_only)
    out.boolean(requires_response)
    if version >= VERSION_CORRELATION:
        out.i32(priority)
    return bytes(out.data)


def decode_create_consumer(body: bytes, version: int = VERSION_SENDER) -> tuple[int, str, str | None, bool, bool, int]:
    """(consumer id, queue name, filter, browse only, requires response, priority)."""
    source = Decoder(body, "SESS_CREATECONSUMER")
    source.field = "consumer_id"
    consumer_id = source.i64()
    source.field = "queue_name"
    queue_name = source.simple_string()
    source.field = "filter_string"
    filter_string = source.nullable_simple_string()
    source.field = "browse_only"
    browse_only = source.boolean()
    source.field = "requires_response"
    requires_response = source.boolean()
    priority = source.i32() if version >= VERSION_CORRELATION and source.remaining >= 4 else 0
    return consumer_id, queue_name, filter_string, browse_only, requires_response, priority


def encode_null_response(correlation_id: int | None, version: int) -> bytes:
    if correlation_id is None or version < VERSION_CORRELATION:
        return b""
    return _I64.pack(correlation_id)


def decode_null_response(body: bytes, version: int = VERSION_SENDER) -> int | None:
    """The correlation id; None in the empty form."""
    return _I64.unpack_from(body)[0] if len(body) >= 8 and version >= VERSION_CORRELATION else None


def encode_commit(correlation_id: int | None, version: int) -> bytes:
    if correlation_id is None or version < VERSION_COMMIT_CORRELATION:
        return b""
    return _I64.pack(correlation_id)


def decode_commit(body: bytes, version: int = VERSION_SENDER) -> int | None:
    """The correlation id; None in the empty form."""
    return _I64.unpack_from(body)[0] if len(body) >= 8 and version >= VERSION_COMMIT_CORRELATION else None
