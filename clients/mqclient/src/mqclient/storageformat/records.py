"""The records inside a frame.  Pure: bytes in, records out, and back.

Each record is a type byte and its fields, big-endian::

    1 message         u8 flags, u32 offset of the message id in the buffer, u32 buffer length, u32 n, n x i64 queue id,
                      [flag 1: u32 length, address in UTF-8], [flag 2: i64 body id, i64 body size],
                      [flag 8: i64 branch id], buffer
    2 acknowledge     i64 queue id, i64 message id
    3 delivery count  i64 queue id, i64 message id, u32 count
    4 schedule        i64 queue id, i64 message id, i64 time (ms since the epoch, 0 = at once)
    5 duplicate id    i64 record id, u32 length, cache name in UTF-8, u32 length, duplicate id
    6 duplicate gone  i64 record id of a record of type 5 or 11
    7 trim            u64 sequence: no segment before this one is needed any more
    8 mark            u64 number: this frame counts only together with the frame of the other journal that has the same mark
    9 branch          i64 branch id, u8 state, i64 time (ms since the epoch), i32 format id, u32 length, branch qualifier,
                      u32 length, global transaction id, u32 n, n x (i64 queue id, i64 message id), u32 n, n x i64 record id
    10 branch ends    i64 branch id, u8 outcome (1 committed, 0 rolled back or forgotten)
    11 duplicate ids  i64 record id, u32 length, cache name in UTF-8, u32 length of each id, u32 length, the ids
    16 binding        u8 what, u32 length, JSON: an address, a queue or a setting; replaces the one with the same key
    17 binding gone   u8 what, u32 length, JSON: its key
    18 id limit       i64 number: ids below this one may be in use
    32 to 41          about pages: see ``page_records``

A message record adds references to a message.  With flag 4 (a record moved by compaction) it replaces all earlier references, delivery
counts and schedules of the message; those that still hold follow in the same frame.  The address is there only where it differs from the
one in the buffer.  A body belongs to a large message, in a file of its own.

A branch (of an XA transaction) in state 0 is prepared.  The frame that prepares it also has its messages, with flag 8: their references
count only once the branch ends as committed, and when it is rolled back the messages are gone.  The pairs in its record are the references
that it has acknowledged and that no consumer gets meanwhile; the frame with its end has the acknowledgements themselves.  Its duplicate ids
are ordinary records, and are listed so that a rollback finds them.  In states 1 and 2 management has committed or rolled back the branch
without its transaction manager; such a record follows the end of the branch, and stays until a second end, when the branch is forgotten.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mqclient.storageformat.frames import RecordDecoder, StorageFormatError
from mqclient.storageformat.page_records import PAGE_KINDS, PageFileRecord, PageJournalRecord, decode_page_record

MESSAGE = 1
ACKNOWLEDGE = 2
DELIVERY_COUNT = 3
SCHEDULE = 4
DUPLICATE_ID = 5
DUPLICATE_GONE = 6
TRIM = 7
MARK = 8
BRANCH = 9
BRANCH_ENDS = 10
DUPLICATE_IDS = 11
BINDING = 16
BINDING_GONE = 17
ID_LIMIT = 18

FLAG_ADDRESS = 1
FLAG_BODY = 2
FLAG_MOVED = 4
FLAG_BRANCH = 8

BRANCH_PREPARED = 0
BRANCH_COMMITTED = 1
BRANCH_ROLLED_BACK = 2

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
_BRANCH = struct.Struct(">qBqi")
_BRANCH_ENDS = struct.Struct(">BqB")
_MESSAGE_NUMBERS = struct.Struct(">III")
_REFERENCE_COUNT = struct.Struct(">qqI")
_REFERENCE_TIME = struct.Struct(">qqq")

JsonValue = bool | int | str | None | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(slots=True)
class MessageRecord:
    """A message; ``buffer`` is as the client sent it, with the message id at offset ``headers``.

    ``branch_id`` is that of the branch with which it counts, 0 = it counts at once.
    """

    message_id: int
    headers: int
    queue_ids: tuple[int, ...]
    buffer: bytes
    address: str | None
    body_id: int | None
    body_size: int
    moved: bool
    branch_id: int = 0


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
class DuplicateIdsRecord:
    """Several duplicate ids of ``size`` bytes each, oldest first, that came and go together: ``ids`` is all of them."""

    record_id: int
    cache: str
    size: int
    ids: bytes


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
class BranchRecord:
    """A branch; ``state`` is one of ``BRANCH_PREPARED``, ``BRANCH_COMMITTED``, ``BRANCH_ROLLED_BACK``, the rest as described above."""

    branch_id: int
    state: int
    time_ms: int
    format_id: int
    branch_qualifier: bytes
    global_transaction_id: bytes
    acknowledged: tuple[tuple[int, int], ...] = ()
    duplicate_ids: tuple[int, ...] = ()


@dataclass(slots=True)
class BranchEndsRecord:
    branch_id: int
    committed: bool


@dataclass(slots=True)
class BindingRecord:
    """``what`` is one of ``ADDRESS_BINDING``, ``QUEUE_BINDING``, ``SETTING_BINDING``; ``value`` as described at its encoder's caller.

    ``encoded`` is the record as it was read; empty where it was not.
    """

    what: int
    value: dict[str, JsonValue]
    encoded: bytes = field(default=b"", repr=False, compare=False)


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
    | DuplicateIdsRecord
    | DuplicateGoneRecord
    | Trim
    | Mark
    | BranchRecord
    | BranchEndsRecord
    | BindingRecord
    | BindingGoneRecord
    | IdLimit
    | PageJournalRecord
    | PageFileRecord
)


def encode_message_head(
    headers: int,
    length: int,
    queue_ids: Sequence[int],
    address: str | None = None,
    body: tuple[int, int] | None = None,
    moved: bool = False,
    branch_id: int = 0,
) -> bytes:
    """A message record without its buffer of ``length`` bytes, which must follow.  ``body`` is id and size of a large message's body."""
    flags = (FLAG_ADDRESS if address is not None else 0) | (FLAG_BODY if body is not None else 0) | (FLAG_MOVED if moved else 0)
    if branch_id:
        flags |= FLAG_BRANCH
    parts = [bytes((MESSAGE,)), _MESSAGE.pack(flags, headers, length, len(queue_ids)), struct.pack(f">{len(queue_ids)}q", *queue_ids)]
    if address is not None:
        text = address.encode("utf-8", "surrogatepass")
        parts += (_U32.pack(len(text)), text)
    if body is not None:
        parts.append(_TWO.pack(*body))
    if branch_id:
        parts.append(_I64.pack(branch_id))
    return b"".join(parts)


def encode_delivery_count(queue_id: int, message_id: int, count: int) -> bytes:
    return _COUNT.pack(DELIVERY_COUNT, queue_id, message_id, count)


def encode_schedule(queue_id: int, message_id: int, time_ms: int) -> bytes:
    return _SCHEDULE.pack(SCHEDULE, queue_id, message_id, time_ms)


def encode_duplicate_id(record_id: int, cache: str, duplicate_id: bytes) -> bytes:
    name = cache.encode("utf-8", "surrogatepass")
    return b"".join((_NUMBER.pack(DUPLICATE_ID, record_id), _U32.pack(len(name)), name, _U32.pack(len(duplicate_id)), duplicate_id))


def encode_duplicate_ids(record_id: int, cache: str, size: int, ids: bytes) -> bytes:
    name = cache.encode("utf-8", "surrogatepass")
    return b"".join((_NUMBER.pack(DUPLICATE_IDS, record_id), _U32.pack(len(name)), name, _U32.pack(size), _U32.pack(len(ids)), ids))


def encode_duplicates(record: DuplicateIdRecord | DuplicateIdsRecord) -> bytes:
    if isinstance(record, DuplicateIdRecord):
        return encode_duplicate_id(record.record_id, record.cache, record.duplicate_id)
    return encode_duplicate_ids(record.record_id, record.cache, record.size, record.ids)


def duplicate_ids_of(record: DuplicateIdRecord | DuplicateIdsRecord) -> list[bytes]:
    """The duplicate ids in a record, oldest first."""
    if isinstance(record, DuplicateIdRecord):
        return [record.duplicate_id]
    return [record.ids[at : at + record.size] for at in range(0, len(record.ids), record.size)]


def encode_duplicate_gone(record_id: int) -> bytes:
    return _NUMBER.pack(DUPLICATE_GONE, record_id)


def encode_trim(sequence: int) -> bytes:
    return _NUMBER.pack(TRIM, sequence)


def encode_mark(number: int) -> bytes:
    return _NUMBER.pack(MARK, number)


def encode_branch(record: BranchRecord) -> bytes:
    acknowledged = [number for pair in record.acknowledged for number in pair]
    return b"".join(
        (
            bytes((BRANCH,)),
            _BRANCH.pack(record.branch_id, record.state, record.time_ms, record.format_id),
            _U32.pack(len(record.branch_qualifier)),
            record.branch_qualifier,
            _U32.pack(len(record.global_transaction_id)),
            record.global_transaction_id,
            _numbers(len(record.acknowledged), acknowledged),
            _numbers(len(record.duplicate_ids), record.duplicate_ids),
        )
    )


def encode_branch_ends(branch_id: int, committed: bool) -> bytes:
    return _BRANCH_ENDS.pack(BRANCH_ENDS, branch_id, committed)


def _numbers(count: int, numbers: Sequence[int]) -> bytes:
    return struct.pack(f">I{len(numbers)}q", count, *numbers)


def encode_id_limit(limit: int) -> bytes:
    return _NUMBER.pack(ID_LIMIT, limit)


def encode_binding(what: int, value: dict[str, JsonValue]) -> bytes:
    return _encode_json(BINDING, what, value)


def encode_binding_gone(what: int, key: dict[str, JsonValue]) -> bytes:
    return _encode_json(BINDING_GONE, what, key)


def _encode_json(kind: int, what: int, value: dict[str, JsonValue]) -> bytes:
    text = json.dumps(value, separators=(",", ":"), sort_keys=True).encode("ascii")
    return _BINDING.pack(kind, what, len(text)) + text


def decode_records(content: memoryview, decoder: RecordDecoder | None = None) -> Iterator[Record]:
    """The records of one frame, in order.  Raises :class:`StorageFormatError` at the first invalid record.

    ``decoder`` stands at the next record; a caller that decodes some records itself moves ``decoder`` on in between.
    """
    if decoder is None:
        decoder = RecordDecoder(content)
    size = len(content)
    while decoder.at < size:
        start = decoder.at
        kind = content[start]
        if kind == MESSAGE and start + SINGLE_REFERENCE.size <= size:
            _, flags, headers, length, count, queue_id = SINGLE_REFERENCE.unpack_from(content, start)
            end = start + SINGLE_REFERENCE.size + length
            if not flags and count == 1 and end <= size and headers + 8 <= length:
                buffer = bytes(content[end - length : end])
                decoder.at = end
                yield MessageRecord(_I64.unpack_from(buffer, headers)[0], headers, (queue_id,), buffer, None, None, 0, False)
                continue
        decoder.at += 1
        try:
            record = _decode(kind, decoder)
        except (struct.error, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise StorageFormatError(f"record of type {kind} at {start}: {error}") from error
        yield record


def _decode(kind: int, decoder: RecordDecoder) -> Record:
    if kind == MESSAGE:
        return _decode_message(decoder)
    if kind == ACKNOWLEDGE:
        return AcknowledgeRecord(*decoder.numbers(_TWO))
    if kind == DELIVERY_COUNT:
        return DeliveryCountRecord(*decoder.numbers(_REFERENCE_COUNT))
    if kind == SCHEDULE:
        return ScheduleRecord(*decoder.numbers(_REFERENCE_TIME))
    if kind == DUPLICATE_ID:
        record_id = decoder.numbers(_I64)[0]
        return DuplicateIdRecord(record_id, decoder.sized().decode("utf-8", "surrogatepass"), decoder.sized())
    if kind == DUPLICATE_IDS:
        record_id = decoder.numbers(_I64)[0]
        name, size, ids = decoder.sized().decode("utf-8", "surrogatepass"), decoder.numbers(_U32)[0], decoder.sized()
        if not size or len(ids) % size:
            raise StorageFormatError(f"{len(ids)} bytes of duplicate ids of {size} bytes")
        return DuplicateIdsRecord(record_id, name, size, ids)
    if kind == DUPLICATE_GONE:
        return DuplicateGoneRecord(decoder.numbers(_I64)[0])
    if kind == TRIM:
        return Trim(decoder.numbers(_I64)[0])
    if kind == MARK:
        return Mark(decoder.numbers(_I64)[0])
    if kind == BRANCH:
        branch_id, state, time_ms, format_id = decoder.numbers(_BRANCH)
        if state not in (BRANCH_PREPARED, BRANCH_COMMITTED, BRANCH_ROLLED_BACK):
            raise StorageFormatError(f"branch in state {state}")
        qualifier, transaction_id, pairs = decoder.sized(), decoder.sized(), decoder.row(2)
        acknowledged = tuple(zip(pairs[::2], pairs[1::2], strict=True))
        return BranchRecord(branch_id, state, time_ms, format_id, qualifier, transaction_id, acknowledged, decoder.row())
    if kind == BRANCH_ENDS:
        branch_id = decoder.numbers(_I64)[0]
        return BranchEndsRecord(branch_id, bool(decoder.take(1)[0]))
    if kind == ID_LIMIT:
        return IdLimit(decoder.numbers(_I64)[0])
    if kind in (BINDING, BINDING_GONE):
        start = decoder.at - 1
        what = decoder.take(1)[0]
        value = json.loads(decoder.sized())
        if not isinstance(value, dict) or what not in (ADDRESS_BINDING, QUEUE_BINDING, SETTING_BINDING):
            raise StorageFormatError(f"binding of kind {what}")
        if kind == BINDING_GONE:
            return BindingGoneRecord(what, value)
        return BindingRecord(what, value, bytes(decoder.data[start : decoder.at]))
    if kind in PAGE_KINDS and (record := decode_page_record(kind, decoder)) is not None:
        return record
    raise StorageFormatError(f"unknown record type {kind}")


def _decode_message(decoder: RecordDecoder) -> MessageRecord:
    flags = decoder.take(1)[0]
    headers, length, count = decoder.numbers(_MESSAGE_NUMBERS)
    queue_ids = struct.unpack(f">{count}q", decoder.take(8 * count))
    address = decoder.sized().decode("utf-8", "surrogatepass") if flags & FLAG_ADDRESS else None
    body_id, body_size = decoder.numbers(_TWO) if flags & FLAG_BODY else (None, 0)
    branch_id = decoder.numbers(_I64)[0] if flags & FLAG_BRANCH else 0
    buffer = decoder.take(length)
    if headers + 8 > length:
        raise StorageFormatError(f"message id at {headers} of {length} bytes")
    message_id = _I64.unpack_from(buffer, headers)[0]
    return MessageRecord(message_id, headers, queue_ids, buffer, address, body_id, body_size, bool(flags & FLAG_MOVED), branch_id)
