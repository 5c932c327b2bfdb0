"""The records inside a frame.  Pure: bytes in, records out, and back.

Each record is a type byte and its fields, big-endian::

    1 message         u8 flags, u32 offset of the message id in the buffer, u32 buffer length, u32 n, n x i64 queue id,
                      [flag 1: u32 length, address in UTF-8], [flag 2: i64 body id, i64 body size], buffer
    2 acknowledge     i64 queue id, i64 message id
    3 delivery count  i64 queue id, i64 message id, u32 count
    4 schedule        i64 queue id, i64 message id, i64 time (ms since the epoch, 0 = at once)
    5 duplicate id    i64 record id, u32 length, cache name in UTF-8, u32 length, duplicate id
    6 duplicate gone  i64 record id
    7 trim            u64 sequence: no segment before this one is needed any more
    8 mark            u64 number: this frame counts only together with the frame of the other journal that has the same mark
    16 binding        u8 what, u32 length, JSON: an address, a queue or a setting; replaces the one with the same key
    17 binding gone   u8 what, u32 length, JSON: its key
    18 id limit       i64 number: ids below this one may be in use

A message record adds references to what is known of that message; with flag 4 (a record moved by compaction) it says all of
it: references, delivery counts and schedules of before are forgotten, those that still hold follow in the same frame.
The address is there only where it differs from the one in the buffer.  A body is that of a large message, in a file of its own.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mqclient.storageformat.frames import StorageFormatError

MESSAGE = 1
ACKNOWLEDGE = 2
DELIVERY_COUNT = 3
SCHEDULE = 4
DUPLICATE_ID = 5
DUPLICATE_GONE = 6
TRIM = 7
MARK = 8
BINDING = 16
BINDING_GONE = 17
ID_LIMIT = 18

FLAG_ADDRESS = 1
FLAG_BODY = 2
FLAG_MOVED = 4

ADDRESS_BINDING = 1
QUEUE_BINDING = 2
SETTING_BINDING = 3

SINGLE_REFERENCE = struct.Struct(">BBIIIq")
"""A message record up to the buffer, for one queue and no flags: the usual one."""
ACKNOWLEDGED = struct.Struct(">Bqq")
_MESSAGE = struct.Struct(">BIII")
_COUNT = struct.Struct(">BqqI")
_SCHEDULE = struct.Struct(">Bqqq")
_I64 = struct.Struct(">q")
_U32 = struct.Struct(">I")
_TWO = struct.Struct(">qq")
_NUMBER = struct.Struct(">Bq")
_BINDING = struct.Struct(">BBI")
_MESSAGE_NUMBERS = struct.Struct(">III")
_REFERENCE_COUNT = struct.Struct(">qqI")
_REFERENCE_TIME = struct.Struct(">qqq")

JsonValue = bool | int | str | None | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(slots=True)
class MessageRecord:
    """A message; ``buffer`` is as the client sent it, with the message id at offset ``headers``."""

    message_id: int
    headers: int
    queue_ids: tuple[int, ...]
    buffer: bytes
    address: str | None
    body_id: int | None
    body_size: int
    moved: bool


@dataclass(slots=True)
class AcknowledgeRecord:
    queue_id: int
    message_id: int


@dataclass(slots=True)
class DeliveryCountRecord:
    queue_id: int
    message_id: int
    count: int


@dataclass(slots=True)
class ScheduleRecord:
    queue_id: int
    message_id: int
    time_ms: int


@dataclass(slots=True)
class DuplicateIdRecord:
    record_id: int
    cache: str
    duplicate_id: bytes


@dataclass(slots=True)
class DuplicateGoneRecord:
    record_id: int


@dataclass(slots=True)
class Trim:
    sequence: int


@dataclass(slots=True)
class Mark:
    number: int


@dataclass(slots=True)
class BindingRecord:
    """``what`` is one of ``ADDRESS_BINDING``, ``QUEUE_BINDING``, ``SETTING_BINDING``; ``value`` as described at its encoder's caller."""

    what: int
    value: dict[str, JsonValue]


@dataclass(slots=True)
class BindingGoneRecord:
    what: int
    value: dict[str, JsonValue]


@dataclass(slots=True)
class IdLimit:
    limit: int


Record = (
    MessageRecord
    | AcknowledgeRecord
    | DeliveryCountRecord
    | ScheduleRecord
    | DuplicateIdRecord
    | DuplicateGoneRecord
    | Trim
    | Mark
    | BindingRecord
    | BindingGoneRecord
    | IdLimit
)


def encode_message_head(
    headers: int,
    length: int,
    queue_ids: Sequence[int],
    address: str | None = None,
    body: tuple[int, int] | None = None,
    moved: bool = False,
) -> bytes:
    """A message record without its buffer of ``length`` bytes, which must follow.  ``body`` is id and size of a large message's body."""
    flags = (FLAG_ADDRESS if address is not None else 0) | (FLAG_BODY if body is not None else 0) | (FLAG_MOVED if moved else 0)
    parts = [bytes((MESSAGE,)), _MESSAGE.pack(flags, headers, length, len(queue_ids)), struct.pack(f">{len(queue_ids)}q", *queue_ids)]
    if address is not None:
        text = address.encode("utf-8", "surrogatepass")
        parts += (_U32.pack(len(text)), text)
    if body is not None:
        parts.append(_TWO.pack(*body))
    return b"".join(parts)


def encode_delivery_count(queue_id: int, message_id: int, count: int) -> bytes:
    return _COUNT.pack(DELIVERY_COUNT, queue_id, message_id, count)


def encode_schedule(queue_id: int, message_id: int, time_ms: int) -> bytes:
    return _SCHEDULE.pack(SCHEDULE, queue_id, message_id, time_ms)


def encode_duplicate_id(record_id: int, cache: str, duplicate_id: bytes) -> bytes:
    name = cache.encode("utf-8", "surrogatepass")
    return b"".join((_NUMBER.pack(DUPLICATE_ID, record_id), _U32.pack(len(name)), name, _U32.pack(len(duplicate_id)), duplicate_id))


def encode_duplicate_gone(record_id: int) -> bytes:
    return _NUMBER.pack(DUPLICATE_GONE, record_id)


def encode_trim(sequence: int) -> bytes:
    return _NUMBER.pack(TRIM, sequence)


def encode_mark(number: int) -> bytes:
    return _NUMBER.pack(MARK, number)


def encode_id_limit(limit: int) -> bytes:
    return _NUMBER.pack(ID_LIMIT, limit)


def encode_binding(what: int, value: dict[str, JsonValue]) -> bytes:
    return _encode_json(BINDING, what, value)


def encode_binding_gone(what: int, key: dict[str, JsonValue]) -> bytes:
    return _encode_json(BINDING_GONE, what, key)


def _encode_json(kind: int, what: int, value: dict[str, JsonValue]) -> bytes:
    text = json.dumps(value, separators=(",", ":"), sort_keys=True).encode("ascii")
    return _BINDING.pack(kind, what, len(text)) + text


class _Reader:
    """A place in the content of a frame."""

    __slots__ = ("at", "data")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            raise StorageFormatError(f"record of {length} bytes at {self.at} exceeds its frame of {len(self.data)} bytes")
        piece = bytes(self.data[self.at : end])
        self.at = end
        return piece

    def numbers(self, form: struct.Struct) -> tuple[int, ...]:
        values = form.unpack_from(self.data, self.at)
        self.at += form.size
        return values

    def sized(self) -> bytes:
        return self.take(self.numbers(_U32)[0])


def decode_records(content: memoryview) -> Iterator[Record]:
    """The records of one frame, in order.  Raises :class:`StorageFormatError` at the first that is none."""
    reader = _Reader(content)
    size = len(content)
    while reader.at < size:
        start = reader.at
        kind = content[start]
        if kind == MESSAGE and start + SINGLE_REFERENCE.size <= size:
            _, flags, headers, length, count, queue_id = SINGLE_REFERENCE.unpack_from(content, start)
            end = start + SINGLE_REFERENCE.size + length
            if not flags and count == 1 and end <= size and headers + 8 <= length:
                buffer = bytes(content[end - length : end])
                reader.at = end
                yield MessageRecord(_I64.unpack_from(buffer, headers)[0], headers, (queue_id,), buffer, None, None, 0, False)
                continue
        reader.at += 1
        try:
            record = _decode(kind, reader)
        except (struct.error, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise StorageFormatError(f"record of type {kind} at {start}: {error}") from error
        yield record


def _decode(kind: int, reader: _Reader) -> Record:
    if kind == MESSAGE:
        return _decode_message(reader)
    if kind == ACKNOWLEDGE:
        return AcknowledgeRecord(*reader.numbers(_TWO))
    if kind == DELIVERY_COUNT:
        return DeliveryCountRecord(*reader.numbers(_REFERENCE_COUNT))
    if kind == SCHEDULE:
        return ScheduleRecord(*reader.numbers(_REFERENCE_TIME))
    if kind == DUPLICATE_ID:
        record_id = reader.numbers(_I64)[0]
        return DuplicateIdRecord(record_id, reader.sized().decode("utf-8", "surrogatepass"), reader.sized())
    if kind == DUPLICATE_GONE:
        return DuplicateGoneRecord(reader.numbers(_I64)[0])
    if kind == TRIM:
        return Trim(reader.numbers(_I64)[0])
    if kind == MARK:
        return Mark(reader.numbers(_I64)[0])
    if kind == ID_LIMIT:
        return IdLimit(reader.numbers(_I64)[0])
    if kind in (BINDING, BINDING_GONE):
        what = reader.take(1)[0]
        value = json.loads(reader.sized())
        if not isinstance(value, dict) or what not in (ADDRESS_BINDING, QUEUE_BINDING, SETTING_BINDING):
            raise StorageFormatError(f"binding of kind {what}")
        return BindingRecord(what, value) if kind == BINDING else BindingGoneRecord(what, value)
    raise StorageFormatError(f"unknown record type {kind}")


def _decode_message(reader: _Reader) -> MessageRecord:
    flags = reader.take(1)[0]
    headers, length, count = reader.numbers(_MESSAGE_NUMBERS)
    queue_ids = struct.unpack(f">{count}q", reader.take(8 * count))
    address = reader.sized().decode("utf-8", "surrogatepass") if flags & FLAG_ADDRESS else None
    body_id, body_size = reader.numbers(_TWO) if flags & FLAG_BODY else (None, 0)
    buffer = reader.take(length)
    if headers + 8 > length:
        raise StorageFormatError(f"message id at {headers} of {length} bytes")
    message_id = _I64.unpack_from(buffer, headers)[0]
    return MessageRecord(message_id, headers, queue_ids, buffer, address, body_id, body_size, bool(flags & FLAG_MOVED))
