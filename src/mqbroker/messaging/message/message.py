"""A message inside the broker: its encoded bytes, and the few headers that routing and delivery need (decision 8).

The bytes stay as the client sent them; the message id is the only field that the broker writes into them.  Properties are found by a walk
over the encoded table, and decoded only on request.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from mqclient.errors import MalformedPacketError
from mqclient.wire.message import (
    KEY_ROUTING_TYPE,
    CoreMessage,
    body_end,
    decode_headers,
    decode_message,
    encode_headers,
    encode_message,
    scan_headers,
)
from mqclient.wire.primitives import decode_utf_16
from mqclient.wire.properties import (
    BOOLEAN,
    PROPERTIES_MAX,
    TypedValue,
    bytes_property,
    check_block,
    decode_properties,
    decode_value,
    find_property,
    with_property,
    without_properties,
)

if TYPE_CHECKING:
    from mqbroker.messaging.message.large_body import LargeBody
    from mqbroker.messaging.message.memory import AddressMemory

MEMORY_PER_MESSAGE = 352
"""Bytes that a message counts beside its buffer and, once more, its properties: Artemis counts them decoded, too, and configured
values of ``max-size-bytes`` are to mean the same here."""

PROPERTIES_CHECKED_FROM = 64 * 1024
"""Bytes of a property table from which on its entries are counted: a smaller one cannot cost much."""
_I64 = struct.Struct(">q")
_I32 = struct.Struct(">i")
_TABLE = struct.Struct(">?i")
"""The head of a property table: that there is one, and the number of its entries."""
_TRUE = bytes((BOOLEAN, 1))
_EXPIRATION_BEFORE_PROPERTIES = 17
"""Bytes from the expiration field to the property block: expiration, timestamp, priority."""
_TIMESTAMP_BEFORE_PROPERTIES = 9
_ROUTING_TYPE_KEY = KEY_ROUTING_TYPE.encode("utf-16-le")


def check_properties(buffer: bytes, start: int, packet: str = "message") -> None:
    """Raises MalformedPacketError when the table at ``start`` has more than :data:`PROPERTIES_MAX` entries."""
    if buffer[start] and len(buffer) >= start + 5:
        count = _I32.unpack_from(buffer, start + 1)[0]
        if not 0 <= count <= PROPERTIES_MAX:
            raise MalformedPacketError(packet, "properties", f"{count} entries, at most {PROPERTIES_MAX} are allowed")


class Message:
    """One message, shared by all queues that hold a reference to it.

    ``buffer`` is a whole regular message, or the headers and properties of a large message, whose body is ``large``.  ``headers`` is the
    offset of the message id in it, ``properties_offset`` that of its properties, right behind the fixed headers.  ``expiration`` is ms
    since the epoch (0 = never); ``account`` the memory account of its address; ``references`` the number of queue references in memory.
    ``store_state`` belongs to the store.

    Rarely used headers are read from the bytes and not kept as attributes: there may be millions of messages.
    """

    __slots__ = (
        "_properties",
        "account",
        "address",
        "buffer",
        "durable",
        "expiration",
        "headers",
        "large",
        "message_id",
        "properties_offset",
        "references",
        "store_state",
    )

    def __init__(
        self,
        buffer: bytes,
        headers: int,
        address: str,
        message_id: int,
        durable: bool,
        expiration: int,
        properties_offset: int,
        large: LargeBody | None = None,
    ) -> None:
        """A message of whose headers everything is known already."""
        self.buffer = buffer
        self.headers = headers
        self.address = address
        self.large = large
        self.durable = durable
        self.expiration = expiration
        self.properties_offset = properties_offset
        self.message_id = message_id
        self.references = 0
        self.account: AddressMemory | None = None
        self.store_state: object = None
        self._properties: dict[str, TypedValue] | None = None

    @classmethod
    def read(cls, buffer: bytes, headers: int, address: str | None = None, large: LargeBody | None = None) -> Message:
        """The message that these bytes are.  Raises MalformedPacketError when its headers cannot be decoded."""
        found = scan_headers(buffer, headers)
        if address is None:
            raw = found.address
            address = "" if raw is None else decode_utf_16(raw[4:])
        message_id: int = _I64.unpack_from(buffer, headers)[0]
        return cls(buffer, headers, address, message_id, found.durable, found.expiration, found.properties, large)

    @classmethod
    def received(cls, buffer: bytes | memoryview, message_id: int, address: str | None = None) -> Message:
        """A regular message as it came in, with the id that the broker gives it written into a copy of its bytes.

        Raises MalformedPacketError when its headers or its properties cannot be decoded.
        """
        end = body_end(buffer)
        message = cls.read(b"".join((buffer[:end], _I64.pack(message_id), buffer[end + 8 :])), end, address)
        if len(buffer) - message.properties_offset > PROPERTIES_CHECKED_FROM:
            check_properties(message.buffer, message.properties_offset)
        # An error found later, here or in a client, could not be traced to the sender.
        check_block(message.buffer, message.properties_offset, len(buffer))
        return message

    @classmethod
    def of(cls, message: CoreMessage, large: LargeBody | None = None) -> Message:
        """A message that the broker makes itself or has changed."""
        if large is not None:
            return cls.read(encode_headers(message), 0, large=large)
        return cls.read(encode_message(message), 4 + len(message.body))

    def set_expiration(self, expiration: int) -> None:
        """Change the expiration (ms since the epoch, 0 = never), in the bytes too."""
        at = self.properties_offset - _EXPIRATION_BEFORE_PROPERTIES
        self.buffer = b"".join((self.buffer[:at], _I64.pack(expiration), self.buffer[at + 8 :]))
        self.expiration = expiration

    def set_priority(self, priority: int) -> None:
        """Change the priority (0 to 9), which is in the bytes alone."""
        at = self.properties_offset - 1
        self.buffer = b"".join((self.buffer[:at], bytes((priority,)), self.buffer[at + 1 :]))

    def append_bytes_property(self, raw_key: bytes, value: bytes) -> None:
        """Add a property that the message does not have, by its key in encoded form; nothing is decoded."""
        self.buffer = with_property(self.buffer, self.properties_offset, bytes_property(raw_key, value))
        self._properties = None

    def strip_properties(self, raw_prefixes: tuple[bytes, ...]) -> dict[str, TypedValue]:
        """Remove the properties whose encoded keys begin so.  Returns them."""
        self.buffer, removed = without_properties(self.buffer, self.properties_offset, raw_prefixes)
        if removed:
            self._properties = None
        return removed

    def duplicate(self, message_id: int) -> Message:
        """A message of its own that says the same, but for its id; a large body is shared."""
        at = self.headers
        buffer = b"".join((self.buffer[:at], _I64.pack(message_id), self.buffer[at + 8 :]))
        if self.large is not None:
            self.large.hold()
        return Message(buffer, at, self.address, message_id, self.durable, self.expiration, self.properties_offset, self.large)

    def renumber(self, message_id: int) -> None:
        """Change the id of a message that no store knows yet."""
        at = self.headers
        self.buffer = b"".join((self.buffer[:at], _I64.pack(message_id), self.buffer[at + 8 :]))
        self.message_id = message_id

    def keep_elsewhere(self) -> None:
        """Another broker keeps the message: the own store never hears of it, whatever its bytes say."""
        self.durable = False

    def take_content(self, other: Message) -> None:
        """Take the content of ``other``; allowed before the message is routed."""
        self.buffer = other.buffer
        self.headers = other.headers
        self.address = other.address
        self.expiration = other.expiration
        self.properties_offset = other.properties_offset
        self._properties = None

    def flagged(self, key: str) -> Message:
        """A copy of this message for one delivery, with the further property ``key`` = true."""
        buffer, start = self.buffer, self.properties_offset
        count = _I32.unpack_from(buffer, start + 1)[0] if buffer[start] else 0
        raw = key.encode("utf-16-le")
        table = (_TABLE.pack(True, count + 1), buffer[start + _TABLE.size :] if count else b"", _I32.pack(len(raw)), raw, _TRUE)
        return Message.read(b"".join((buffer[:start], *table)), self.headers, self.address, self.large)

    @property
    def memory(self) -> int:
        """Bytes that the message counts in the memory account of its address."""
        return MEMORY_PER_MESSAGE + 2 * len(self.buffer) - self.properties_offset

    @property
    def priority(self) -> int:
        """From 0 to 9; other values in the bytes are brought into this range."""
        priority = self.buffer[self.properties_offset - 1]
        return priority if priority <= 9 else 9 if priority <= 127 else 0

    @property
    def timestamp(self) -> int:
        """When it was sent: ms since the epoch, 0 = not said."""
        timestamp: int = _I64.unpack_from(self.buffer, self.properties_offset - _TIMESTAMP_BEFORE_PROPERTIES)[0]
        return timestamp

    @property
    def encode_size(self) -> int:
        """Bytes of the encoded message (credits, ``AMQSize``); of a large one without its body."""
        return len(self.buffer)

    @property
    def stored_size(self) -> int:
        """Bytes of the encoded message, with the body of a large one."""
        return len(self.buffer) if self.large is None else len(self.buffer) + self.large.size

    @property
    def body_size(self) -> int:
        """Bytes of the body, wherever it is."""
        return self.headers - 4 if self.large is None else self.large.size

    @property
    def routing_type(self) -> int | None:
        """The value of ``_AMQ_ROUTING_TYPE``: 0 multicast, 1 anycast, None without the property."""
        value = self.raw_property(_ROUTING_TYPE_KEY)
        return value if value in (0, 1) and not isinstance(value, bool) else None

    @property
    def properties(self) -> dict[str, TypedValue]:
        """All properties, decoded at the first call and kept."""
        if self._properties is None:
            self._properties = decode_properties(self.buffer, self.properties_offset, len(self.buffer))[0]
        return self._properties

    def property(self, key: str) -> object:
        """The value of one property, None when it is missing."""
        if self._properties is not None:
            entry = self._properties.get(key)
            return None if entry is None else entry[1]
        return self.raw_property(key.encode("utf-16-le"))

    def raw_property(self, key: bytes) -> object:
        """As :meth:`property`, with the key in its encoded form; decodes nothing else."""
        buffer = self.buffer
        found = find_property(buffer, self.properties_offset, len(buffer), key)
        return None if found is None else decode_value(buffer, *found)

    def decoded(self) -> CoreMessage:
        """The message taken apart, for copies that change it; a large one without its body."""
        if self.large is not None:
            return decode_headers(self.buffer)
        return decode_message(self.buffer)
