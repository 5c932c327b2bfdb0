"""Paging: the records about pages in the journal of messages, and the records of a page file.  Pure: bytes in, records out, and back.

A page file is a segment (see ``frames``) of kind 3 whose sequence is the number of the page: a header and frames.  A frame holds a page
position and then message records like those of the journal, with the ids of all queues that the message went to; or, compressed, one record
with all of these.  Messages of a page are counted from 0: this number is their *index*.

Messages of a page count only as far as a page record in the journal covers them: the frame of the journal is the one commit point.

Records in the journal, big-endian, with their type byte::

    32 page                i64 page, u32 end (offset), u32 messages, u32 length, address in UTF-8, u32 n, n x (i64 queue id, u32 messages)
    33 page acknowledge    i64 queue id, i64 page, u32 first index, u32 indexes, u32 messages
    34 page queue          i64 queue id, i64 page, u32 acknowledged, u32 length, bits, u32 n, n x (u32 index, u32 count, i64 time)
    35 page count          i64 queue id, i64 page, u32 index, u32 delivery count
    36 page schedule       i64 queue id, i64 page, u32 index, i64 time (ms since the epoch, 0 = at once)
    37 page body           i64 page, u32 index, i64 body id, i64 body size, u32 n, n x i64 queue id
    38 page gone           i64 page

Records in a page file::

    40 page position       u32 index of the message that follows
    41 page compressed     u32 size of the content, u32 length, the content as an lz4 block

A page record replaces the one before it for this page, and counts durable messages, by durable queue.  A page acknowledge settles
``messages`` of a queue's own messages, all of which have an index in the range; other indexes in it are without meaning.  A page queue
record holds all messages of a page that a queue has settled: it replaces earlier acknowledges, counts and schedules.  Bit n is bit n % 8 of
byte n // 8.  A time of -1 stands for none recorded.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from mqclient.storageformat.frames import RecordDecoder

PAGE = 32
PAGE_ACKNOWLEDGE = 33
PAGE_QUEUE = 34
PAGE_COUNT = 35
PAGE_SCHEDULE = 36
PAGE_BODY = 37
PAGE_GONE = 38
PAGE_POSITION = 40
PAGE_COMPRESSED = 41
PAGE_KINDS = range(PAGE, PAGE_COMPRESSED + 1)

_PAGE = struct.Struct(">BqII")
_ACKNOWLEDGE = struct.Struct(">BqqIII")
_QUEUE = struct.Struct(">BqqI")
_DETAIL = struct.Struct(">IIq")
_COUNT = struct.Struct(">BqqII")
_SCHEDULE = struct.Struct(">BqqIq")
_BODY = struct.Struct(">BqIqq")
_GONE = struct.Struct(">Bq")
_POSITION = struct.Struct(">BI")
_COMPRESSED = struct.Struct(">BII")
_U32 = struct.Struct(">I")
_SHARE = struct.Struct(">qI")
_PAGE_FIELDS = struct.Struct(">qII")
_ACKNOWLEDGE_FIELDS = struct.Struct(">qqIII")
_QUEUE_FIELDS = struct.Struct(">qqI")
_COUNT_FIELDS = struct.Struct(">qqII")
_SCHEDULE_FIELDS = struct.Struct(">qqIq")
_BODY_FIELDS = struct.Struct(">qIqq")
_I64 = struct.Struct(">q")


@dataclass(slots=True)
class PageRecord:
    page: int
    end: int
    messages: int
    address: str
    queues: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class PageAcknowledgeRecord:
    queue_id: int
    page: int
    first: int
    indexes: int
    messages: int


@dataclass(slots=True)
class PageQueueRecord:
    queue_id: int
    page: int
    acknowledged: int
    bits: bytes
    details: tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class PageCountRecord:
    queue_id: int
    page: int
    index: int
    count: int


@dataclass(slots=True)
class PageScheduleRecord:
    queue_id: int
    page: int
    index: int
    time_ms: int


@dataclass(slots=True)
class PageBodyRecord:
    page: int
    index: int
    body_id: int
    body_size: int
    queue_ids: tuple[int, ...]


@dataclass(slots=True)
class PageGoneRecord:
    page: int


@dataclass(slots=True)
class PagePosition:
    index: int


@dataclass(slots=True)
class PageCompressed:
    size: int
    data: bytes


PageJournalRecord = (
    PageRecord | PageAcknowledgeRecord | PageQueueRecord | PageCountRecord | PageScheduleRecord | PageBodyRecord | PageGoneRecord
)
PageFileRecord = PagePosition | PageCompressed


def encode_page(page: int, end: int, messages: int, address: str, queues: Sequence[tuple[int, int]]) -> bytes:
    name = address.encode("utf-8", "surrogatepass")
    parts = [_PAGE.pack(PAGE, page, end, messages), _U32.pack(len(name)), name, _U32.pack(len(queues))]
    parts += (_SHARE.pack(*share) for share in queues)
    return b"".join(parts)


def encode_page_acknowledge(queue_id: int, page: int, first: int, indexes: int, messages: int) -> bytes:
    return _ACKNOWLEDGE.pack(PAGE_ACKNOWLEDGE, queue_id, page, first, indexes, messages)


def encode_page_queue(queue_id: int, page: int, acknowledged: int, bits: bytes, details: Sequence[tuple[int, int, int]]) -> bytes:
    parts = [_QUEUE.pack(PAGE_QUEUE, queue_id, page, acknowledged), _U32.pack(len(bits)), bits, _U32.pack(len(details))]
    parts += (_DETAIL.pack(*detail) for detail in details)
    return b"".join(parts)


def encode_page_count(queue_id: int, page: int, index: int, count: int) -> bytes:
    return _COUNT.pack(PAGE_COUNT, queue_id, page, index, count)


def encode_page_schedule(queue_id: int, page: int, index: int, time_ms: int) -> bytes:
    return _SCHEDULE.pack(PAGE_SCHEDULE, queue_id, page, index, time_ms)


def encode_page_body(page: int, index: int, body_id: int, body_size: int, queue_ids: Sequence[int]) -> bytes:
    head = _BODY.pack(PAGE_BODY, page, index, body_id, body_size)
    return head + struct.pack(f">I{len(queue_ids)}q", len(queue_ids), *queue_ids)


def encode_page_gone(page: int) -> bytes:
    return _GONE.pack(PAGE_GONE, page)


def encode_page_position(index: int) -> bytes:
    return _POSITION.pack(PAGE_POSITION, index)


def encode_page_compressed(size: int, data: bytes) -> bytes:
    return _COMPRESSED.pack(PAGE_COMPRESSED, size, len(data)) + data


def unpacked_size(content: memoryview) -> int:
    """Bytes of a page's frame when its messages are unpacked."""
    packed = len(content) >= _POSITION.size + _COMPRESSED.size and content[_POSITION.size] == PAGE_COMPRESSED
    return int(_COMPRESSED.unpack_from(content, _POSITION.size)[1]) if packed else len(content)


def decode_page_record(kind: int, decoder: RecordDecoder) -> PageJournalRecord | PageFileRecord | None:
    """The record of type ``kind`` whose fields begin where ``decoder`` stands; None for a type that is not of these."""
    if kind == PAGE:
        page, end, messages = decoder.numbers(_PAGE_FIELDS)
        address = decoder.sized().decode("utf-8", "surrogatepass")
        count = decoder.numbers(_U32)[0]
        return PageRecord(page, end, messages, address, tuple(_SHARE.iter_unpack(decoder.take(count * _SHARE.size))))
    if kind == PAGE_ACKNOWLEDGE:
        return PageAcknowledgeRecord(*decoder.numbers(_ACKNOWLEDGE_FIELDS))
    if kind == PAGE_QUEUE:
        queue_id, page, acknowledged = decoder.numbers(_QUEUE_FIELDS)
        bits = decoder.sized()
        count = decoder.numbers(_U32)[0]
        return PageQueueRecord(queue_id, page, acknowledged, bits, tuple(_DETAIL.iter_unpack(decoder.take(count * _DETAIL.size))))
    if kind == PAGE_COUNT:
        return PageCountRecord(*decoder.numbers(_COUNT_FIELDS))
    if kind == PAGE_SCHEDULE:
        return PageScheduleRecord(*decoder.numbers(_SCHEDULE_FIELDS))
    if kind == PAGE_BODY:
        page, index, body_id, body_size = decoder.numbers(_BODY_FIELDS)
        count = decoder.numbers(_U32)[0]
        return PageBodyRecord(page, index, body_id, body_size, struct.unpack(f">{count}q", decoder.take(8 * count)))
    if kind == PAGE_GONE:
        return PageGoneRecord(decoder.numbers(_I64)[0])
    if kind == PAGE_POSITION:
        return PagePosition(decoder.numbers(_U32)[0])
    if kind == PAGE_COMPRESSED:
        return PageCompressed(decoder.numbers(_U32)[0], decoder.sized())
    return None
