"""The encoded form of a message on a link: the message's bytes, with the properties and headers that links write (decision 26).

Messages are not decoded: entries of the property table are left out and added by their offsets.  The message itself does not change, for
other queues may hold it, too.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.config.model.internal_names import store_and_forward_end
from mqbroker.config.schema.values import ROUTING_TYPES
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.message.transformers import Transform
from mqbroker.messaging.routing.remote import NODE_ID_LENGTH
from mqclient.core.sending.encoded_sends import Done, ReadBody
from mqclient.wire.message import KEY_BRIDGE_DUPLICATE_ID, KEY_ROUTE_TO, KEY_ROUTING_TYPE
from mqclient.wire.primitives import encode_simple_string
from mqclient.wire.properties import BYTE, BYTES, encode_value, find_prefix

if TYPE_CHECKING:
    from mqclient.core.session.session import Session

_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_HEAD = struct.Struct(">Bi")
_ENTRY = struct.Struct(">bi")
_ROUTE_TO = KEY_ROUTE_TO.encode("utf-16-le")
_BRIDGE_DUPLICATE_ID = KEY_BRIDGE_DUPLICATE_ID.encode("utf-16-le")
_RAW_ROUTING_TYPE = KEY_ROUTING_TYPE.encode("utf-16-le")
_MESSAGE_ID = 8
"""Bytes of the message id, behind which the address stands."""
_EMPTY_TABLE = 1
"""Bytes of a table without entries."""
_TABLE_HEAD = 5


class Outgoing:
    """One message on its way to another broker.

    ``parts`` are the encoded message of ``size`` bytes.  A large message has ``read``: its ``parts`` are headers and properties, and its
    body has ``body_size`` bytes (``was_large``: the message arrived as a large one).  ``address`` is the target address.
    """

    __slots__ = ("address", "body_size", "parts", "read", "size", "was_large")

    def __init__(
        self,
        address: str,
        parts: tuple[bytes, ...],
        size: int,
        read: ReadBody | None = None,
        body_size: int = 0,
        was_large: bool = False,
    ) -> None:
        self.address = address
        self.parts = parts
        self.size = size
        self.read = read
        self.body_size = body_size
        self.was_large = was_large


def send_large(session: Session, outgoing: Outgoing, done: Done) -> bool:
    """Send a large message, whose body may come piece by piece; False when the next has to wait for ``on_room``."""
    sends, read_body = session.open_encoded_sends(), outgoing.read
    assert read_body is not None

    def read(offset: int, size: int) -> bytes | None:
        try:
            return read_body(offset, size)
        except NotYet as pending:
            pending.when_there(sends.resumed)
            return None

    headers = b"".join(outgoing.parts)
    return session.send_large_encoded(headers, read, outgoing.body_size, done, address=outgoing.address, was_large=outgoing.was_large)


def bytes_entry(key: str, size: int) -> bytes:
    """The beginning of a property of ``size`` bytes: everything before the value."""
    return encode_simple_string(key) + _ENTRY.pack(BYTES, size)


_ROUTE_TO_ONE = bytes_entry(KEY_ROUTE_TO, 8)


def duplicate_id_entry(node_id: bytes) -> bytes:
    """The beginning of the property by which the target recognises a repeated message; the message id follows."""
    return bytes_entry(KEY_BRIDGE_DUPLICATE_ID, len(node_id) + 8) + node_id


class StoreAndForward:
    """Encodes messages of the store-and-forward queue ``queue_name`` for the bindings that routing has named for this queue.

    ``node_id`` are the 16 bytes of the own node id, or None to send without duplicate ids.  A body of more than
    ``min_large_message_size`` bytes goes in pieces.
    """

    __slots__ = ("_duplicate_id", "_key", "_min_large")

    def __init__(self, queue_name: str, node_id: bytes | None, min_large_message_size: int) -> None:
        self._key = f"{KEY_ROUTE_TO}{queue_name}".encode("utf-16-le")
        self._duplicate_id = None if node_id is None else duplicate_id_entry(node_id)
        self._min_large = min_large_message_size

    def __call__(self, message: Message) -> Outgoing | None:
        """The encoded form; None for a message that names no binding, sent to the queue by a client.  Raises MalformedPacketError."""
        buffer = message.buffer
        start = message.properties_offset
        ids = b""
        cuts: list[tuple[int, int]] = []
        for key_start, key_end, kind, value_start, end in find_prefix(buffer, start, len(buffer), _ROUTE_TO):
            cuts.append((key_start - 4, end))
            if kind == BYTES and buffer[key_start:key_end] == self._key:
                ids = buffer[value_start + 4 : end]
        if not ids:
            return None
        entry = _ROUTE_TO_ONE + ids if len(ids) == 8 else bytes_entry(KEY_ROUTE_TO, len(ids)) + ids
        if self._duplicate_id is None:
            return assemble(message, message.address, (), cuts, entry, 1, self._min_large)
        added = b"".join((entry, self._duplicate_id, _I64.pack(message.message_id)))
        return assemble(message, message.address, (), cuts, added, 2, self._min_large)


def assemble(
    message: Message,
    address: str,
    head: tuple[bytes, ...],
    cuts: list[tuple[int, int]],
    added: bytes,
    count: int,
    min_large_message_size: int,
) -> Outgoing:
    """The message without some property entries (``cuts``: begin and end of each), and with ``count`` encoded entries added at the end.

    ``head``, if any, replaces the bytes between the body and the properties.
    """
    buffer = message.buffer
    headers, start = message.headers, message.properties_offset
    large = message.large
    base = headers if large is not None or headers > min_large_message_size else 0
    parts = [buffer[base:headers], *head] if head else [buffer[base:start]]
    if buffer[start]:
        entries: int = _I32.unpack_from(buffer, start + 1)[0]
        position = start + _TABLE_HEAD
    else:
        entries = 0
        position = start + _EMPTY_TABLE
    parts.append(_HEAD.pack(1, entries - len(cuts) + count))
    for begin, end in cuts:
        if begin > position:
            parts.append(buffer[position:begin])
        position = end
    if position < len(buffer):
        parts.append(buffer[position:])
    parts.append(added)
    size = sum(map(len, parts))
    if large is not None:
        return Outgoing(address, tuple(parts), size, large.read, large.size, True)
    if base:
        body = buffer[4:base]
        return Outgoing(address, tuple(parts), size, lambda offset, wanted: body[offset : offset + wanted], len(body))
    return Outgoing(address, tuple(parts), size)


def node_id_bytes(node_id: str) -> bytes:
    """The 16 bytes of a node id.  Raises ValueError when it is none."""
    raw = bytes.fromhex(node_id.replace("-", ""))
    if len(raw) != 16:
        raise ValueError(f"{node_id!r} is not a node id: expected 32 hexadecimal digits")
    return raw


def link_id(node_id: str, queue_name: str, connections: Sequence[ClusterConnectionConfiguration]) -> bytes:
    """The first 16 bytes of the duplicate ids of the link for the store-and-forward queue ``queue_name``.

    The links of the broker's first cluster connection use the node id, those of each other connection another prefix: a message may reach
    some queues of a broker over one connection and other queues over another, and must count there as two.  Raises ValueError when
    ``node_id`` is no node id.
    """
    raw = node_id_bytes(node_id)
    if any(queue_name.endswith("sf." + store_and_forward_end(each.name, queue_name[-NODE_ID_LENGTH:])) for each in connections[1:]):
        return blake2b(raw + queue_name.encode("utf-8", "surrogatepass"), digest_size=len(raw)).digest()
    return raw


class CoreBridgeMessages:
    """Encodes messages of a core bridge: to ``forwarding_address`` or the address of each message, with the routing type of the bridge.

    ``routing_type`` is PASS, STRIP, ANYCAST or MULTICAST.  Routes that were meant for other links are left out.
    """

    __slots__ = ("_address", "_duplicate_id", "_encoded_address", "_min_large", "_passes", "_routing_type", "_transform")

    def __init__(
        self,
        node_id: bytes | None,
        min_large_message_size: int,
        forwarding_address: str | None = None,
        routing_type: str = "PASS",
        transform: Transform | None = None,
    ) -> None:
        self._duplicate_id = None if node_id is None else duplicate_id_entry(node_id)
        self._min_large = min_large_message_size
        self._address = forwarding_address
        self._encoded_address = None if forwarding_address is None else b"\x01" + encode_simple_string(forwarding_address)
        self._passes = routing_type == "PASS"
        value = ROUTING_TYPES.get(routing_type)
        self._routing_type = b"" if value is None else encode_simple_string(KEY_ROUTING_TYPE) + encode_value(BYTE, value)
        self._transform = transform

    def __call__(self, message: Message) -> Outgoing:
        """Raises MalformedPacketError, and the errors of the transformer."""
        message_id = message.message_id
        if self._transform is not None:
            message = Message.of(self._transform(message.decoded()), message.large)
        buffer = message.buffer
        start, end = message.properties_offset, len(message.buffer)
        cuts = [(entry[0] - 4, entry[4]) for entry in find_prefix(buffer, start, end, _ROUTE_TO)]
        cuts += [(entry[0] - 4, entry[4]) for entry in find_prefix(buffer, start, end, _BRIDGE_DUPLICATE_ID)]
        added: list[bytes] = []
        if not self._passes:
            found = find_prefix(buffer, start, end, _RAW_ROUTING_TYPE)
            cuts += [(entry[0] - 4, entry[4]) for entry in found if entry[1] - entry[0] == len(_RAW_ROUTING_TYPE)]
            if self._routing_type:
                added.append(self._routing_type)
        if len(cuts) > 1:
            cuts.sort()
        count = len(added)
        if self._duplicate_id is not None:
            count += 1
            added += (self._duplicate_id, _I64.pack(message_id))
        address = message.address if self._address is None else self._address
        head = () if self._encoded_address is None else self._redirected(message, self._encoded_address)
        return assemble(message, address, head, cuts, b"".join(added), count, self._min_large)

    @staticmethod
    def _redirected(message: Message, address: bytes) -> tuple[bytes, ...]:
        """The headers with another address."""
        buffer = message.buffer
        at = message.headers + _MESSAGE_ID
        after = at + 1 + (4 + _I32.unpack_from(buffer, at + 1)[0] if buffer[at] else 0)
        return buffer[message.headers : at], address, buffer[after : message.properties_offset]
