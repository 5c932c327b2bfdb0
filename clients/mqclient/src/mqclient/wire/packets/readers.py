"""Packets of named readers: an extension of mqbroker that lets a client read a queue again and again until it settles what it has read.

Source: ``protocol-spec/``, chapter "Readers".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mqclient.wire.packets.base import (
    BLOB,
    BOOL,
    I32,
    I64,
    I64_ARRAY,
    NSSTR,
    REST,
    SSTR,
    FieldTable,
    Packet,
    register,
)

READERS_ADDRESS = "$mqbroker.readers"
"""A binding query for this address tells whether the broker knows these packets: it "exists" on a broker that does, and on no other."""

START_OLDEST = -1
"""``ReaderOpen.start``: a new reader begins before the oldest message of the queue."""

START_NEWEST = -2
"""``ReaderOpen.start``: a new reader begins behind the newest message of the queue."""

READ_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of messages, or of a large body, that one answer to a reader brings; a single greater message comes alone."""


@register
@dataclass(slots=True, eq=False, repr=False)
class ReaderOpen(Packet):
    """Take over a reader, which is made if the queue has none of that name; whoever had it opened before is fenced."""

    TYPE: ClassVar[int] = -101
    NAME: ClassVar[str] = "READER_OPEN"
    FIELDS: ClassVar[FieldTable] = (("queue", SSTR), ("reader", SSTR), ("start", I64))
    queue: str
    reader: str
    start: int = START_OLDEST


@register
@dataclass(slots=True, eq=False, repr=False)
class ReaderState(Packet):
    """Where a reader stands: positions are message ids."""

    TYPE: ClassVar[int] = -102
    NAME: ClassVar[str] = "READER_STATE"
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (
        ("node_id", SSTR),
        ("epoch", I64),
        ("settled", I64),
        ("reserved", I64),
        ("newest", I64),
        ("messages", I64),
        ("address", SSTR),
    )
    node_id: str
    epoch: int
    settled: int
    reserved: int
    newest: int
    messages: int
    address: str


@register
@dataclass(slots=True, eq=False, repr=False)
class ReaderReserve(Packet):
    """Ask for the next range of a reader; without ``reader`` for a range of the queue that nobody keeps."""

    TYPE: ClassVar[int] = -103
    NAME: ClassVar[str] = "READER_RESERVE"
    FIELDS: ClassVar[FieldTable] = (
        ("queue", SSTR),
        ("reader", NSSTR),
        ("epoch", I64),
        ("after", I64),
        ("until", I64),
        ("max_messages", I64),
        ("max_bytes", I64),
        ("parts", I32),
    )
    queue: str
    reader: str | None
    epoch: int
    after: int
    until: int = -1
    max_messages: int = -1
    max_bytes: int = -1
    parts: int = 1


@register
@dataclass(slots=True, eq=False, repr=False)
class ReaderRange(Packet):
    """A range (after, until] of a queue; nothing is in it when both are equal."""

    TYPE: ClassVar[int] = -104
    NAME: ClassVar[str] = "READER_RANGE"
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (
        ("after", I64),
        ("until", I64),
        ("messages", I64),
        ("bytes", I64),
        ("oldest", I64),
        ("ends", I64_ARRAY),
    )
    after: int
    until: int
    messages: int
    bytes: int
    oldest: int
    ends: tuple[int, ...] = ()


@register
@dataclass(slots=True, eq=False, repr=False)
class ReaderRead(Packet):
    """Ask for messages of a range, which stay in the queue."""

    TYPE: ClassVar[int] = -105
    NAME: ClassVar[str] = "READER_READ"
    FIELDS: ClassVar[FieldTable] = (("queue", SSTR), ("after", I64), ("until", I64), ("max_bytes", I32), ("filter", NSSTR))
    queue: str
    after: int
    until: int
    max_bytes: int = READ_BYTES_MAX
    filter: str | None = None


@register
@dataclass(slots=True, eq=False, repr=False)
class ReaderMessages(Packet):
    """Messages of a range.

    ``messages``: one array each, big endian and without gaps, of ``count`` message ids (i64), delivery counts (i32), sizes in bytes
    (i32) and kinds (i8), then the messages back to back.  Kind 0 is a message as in SESS_RECEIVE_MSG; kind 1 is a large one: its body size
    (i64), then its headers as in SESS_RECEIVE_LARGE_MSG.
    """

    TYPE: ClassVar[int] = -106
    NAME: ClassVar[str] = "READER_MESSAGES"
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("position", I64), ("end", BOOL), ("lost", BOOL), ("count", I32), ("messages", REST))
    position: int
    end: bool
    lost: bool
    count: int
    messages: bytes


@register
@dataclass(slots=True, eq=False, repr=False)
class ReaderBody(Packet):
    """Ask for a piece of the body of a large message."""

    TYPE: ClassVar[int] = -107
    NAME: ClassVar[str] = "READER_BODY"
    FIELDS: ClassVar[FieldTable] = (("queue", SSTR), ("message_id", I64), ("offset", I64), ("size", I32))
    queue: str
    message_id: int
    offset: int
    size: int = READ_BYTES_MAX


@register
@dataclass(slots=True, eq=False, repr=False)
class ReaderBodyChunk(Packet):
    """A piece of a body; shorter than asked for only where the body ends."""

    TYPE: ClassVar[int] = -108
    NAME: ClassVar[str] = "READER_BODY_CHUNK"
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("data", BLOB),)
    data: bytes


@register
@dataclass(slots=True, eq=False, repr=False)
class ReaderSettle(Packet):
    """Everything up to ``until`` is done with."""

    TYPE: ClassVar[int] = -109
    NAME: ClassVar[str] = "READER_SETTLE"
    FIELDS: ClassVar[FieldTable] = (("queue", SSTR), ("reader", SSTR), ("epoch", I64), ("until", I64))
    queue: str
    reader: str
    epoch: int
    until: int


@register
@dataclass(slots=True, eq=False, repr=False)
class ReaderRemove(Packet):
    """Forget a reader."""

    TYPE: ClassVar[int] = -110
    NAME: ClassVar[str] = "READER_REMOVE"
    FIELDS: ClassVar[FieldTable] = (("queue", SSTR), ("reader", SSTR))
    queue: str
    reader: str


@register
@dataclass(slots=True, eq=False, repr=False)
class IdCacheQuery(Packet):
    """Ask how many duplicate ids the broker keeps for an address."""

    TYPE: ClassVar[int] = -111
    NAME: ClassVar[str] = "ID_CACHE_QUERY"
    FIELDS: ClassVar[FieldTable] = (("address", SSTR),)
    address: str


@register
@dataclass(slots=True, eq=False, repr=False)
class IdCacheState(Packet):
    """The answer: how many ids, and whether a restart keeps them."""

    TYPE: ClassVar[int] = -112
    NAME: ClassVar[str] = "ID_CACHE_STATE"
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("size", I32), ("persisted", BOOL))
    size: int
    persisted: bool
