"""Packets of named readers: an extension of mqbroker that lets a client read a queue again and again until it settles what it has read.

Source: ``protocol-spec/``, chapter "Readers".
"""

from mqclient.wire.packets.base import (
    BLOB,
    BOOL,
    I32,
    I64,
    I64_ARRAY,
    NSSTR,
    REST,
    SSTR,
    Packet,
    packet,
)

READERS_ADDRESS = "$mqbroker.readers"
"""A binding query for this address tells whether the broker knows these packets: it "exists" on a broker that does, and on no other."""

START_OLDEST = -1
"""``ReaderOpen.start``: a new reader begins before the oldest message of the queue."""

START_NEWEST = -2
"""``ReaderOpen.start``: a new reader begins behind the newest message of the queue."""

READ_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of messages, or of a large body, that one answer to a reader brings; a single greater message comes alone."""


@packet(-101, "READER_OPEN")
class ReaderOpen(Packet):
    """Take over a reader, which is made if the queue has none of that name; an earlier user of the reader is fenced."""

    queue: SSTR
    reader: SSTR
    start: I64 = START_OLDEST


@packet(-102, "READER_STATE", response=True)
class ReaderState(Packet):
    """The state of a reader; its positions are message ids."""

    node_id: SSTR
    epoch: I64
    settled: I64
    reserved: I64
    newest: I64
    messages: I64
    address: SSTR


@packet(-103, "READER_RESERVE")
class ReaderReserve(Packet):
    """Ask for the next range of a reader; without ``reader`` for a range of the queue that belongs to no reader."""

    queue: SSTR
    reader: NSSTR
    epoch: I64
    after: I64
    until: I64 = -1
    max_messages: I64 = -1
    max_bytes: I64 = -1
    parts: I32 = 1


@packet(-104, "READER_RANGE", response=True)
class ReaderRange(Packet):
    """A range (after, until] of a queue; nothing is in it when both are equal."""

    after: I64
    until: I64
    messages: I64
    bytes: I64
    oldest: I64
    ends: I64_ARRAY = ()


@packet(-105, "READER_READ")
class ReaderRead(Packet):
    """Ask for messages of a range, which stay in the queue."""

    queue: SSTR
    after: I64
    until: I64
    max_bytes: I32 = READ_BYTES_MAX
    filter: NSSTR = None


@packet(-106, "READER_MESSAGES", response=True)
class ReaderMessages(Packet):
    """Messages of a range.

    ``messages``: one array each, big endian and without gaps, of ``count`` message ids (i64), delivery counts (i32), sizes in bytes
    (i32) and kinds (i8), then the messages back to back.  Kind 0 is a message as in SESS_RECEIVE_MSG; kind 1 is a large one: its body size
    (i64), then its headers as in SESS_RECEIVE_LARGE_MSG.
    """

    position: I64
    end: BOOL
    lost: BOOL
    count: I32
    messages: REST


@packet(-107, "READER_BODY")
class ReaderBody(Packet):
    """Ask for a piece of the body of a large message."""

    queue: SSTR
    message_id: I64
    offset: I64
    size: I32 = READ_BYTES_MAX


@packet(-108, "READER_BODY_CHUNK", response=True)
class ReaderBodyChunk(Packet):
    """A piece of a body; shorter than asked for only where the body ends."""

    data: BLOB


@packet(-109, "READER_SETTLE")
class ReaderSettle(Packet):
    """The messages up to ``until`` are done with."""

    queue: SSTR
    reader: SSTR
    epoch: I64
    until: I64


@packet(-110, "READER_REMOVE")
class ReaderRemove(Packet):
    """Forget a reader."""

    queue: SSTR
    reader: SSTR


@packet(-111, "ID_CACHE_QUERY")
class IdCacheQuery(Packet):
    """Ask how many duplicate ids the broker keeps for an address."""

    address: SSTR


@packet(-112, "ID_CACHE_STATE", response=True)
class IdCacheState(Packet):
    """The answer: how many ids, and whether a restart keeps them."""

    size: I32
    persisted: BOOL
