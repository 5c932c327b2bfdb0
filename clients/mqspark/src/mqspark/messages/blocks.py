"""Blocks of messages as Arrow record batches, with the wanted columns only.

Everything is computed for all messages of a block at once, with numpy and Arrow: there is no Python object for a message or a cell, except
for large and compressed bodies, and for texts that are not valid.
"""

from __future__ import annotations

import itertools
import logging
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mqclient.errors import MalformedPacketError
from mqclient.wire import message as wire
from mqclient.wire import properties as types
from mqspark.columns import CORRUPT, TYPE_NAMES, check_schema
from mqspark.errors import MessageFormatError
from mqspark.messages.headers import Headers
from mqspark.messages.json_bodies import check_json_schema, parse_bodies
from mqspark.messages.ranges import Ints, Mask, Source, binary_array, binary_parts, fixed_rows, spread, string_array, to_utf8, with_validity
from mqspark.messages.tables import Tables
from mqspark.messages.variants import variant_map

log: Final = logging.getLogger(__name__)

BATCH_BODIES_BYTES: Final = 64 << 20
"""Bytes: a batch ends when the large bodies in it are as much, so that many of them in a block do not have to be in memory together."""
BODY_BYTES_MAX: Final = (1 << 31) - (16 << 20)
"""Bytes: a column of a batch has at most 2 GiB, and the rest of the block needs room, too."""

TIME_MIN_MS: Final = -62_135_596_800_000
TIME_MAX_MS: Final = 253_402_300_799_999
"""ms since the epoch: the years 1 to 9999, which Spark and Python can show.  Later times are shown as the nearest of these."""

_LARGE: Final = 1
"""The kind of a message in a block whose body has to be fetched."""
_KEY_COMPRESSED: Final = wire.KEY_LARGE_COMPRESSED.encode("utf-16-le")[:-1]
"""Without the zero at its end: every second byte of a text is one, and finding the key would take twenty times as long."""
_TYPES: Final = string_array([TYPE_NAMES.get(number, str(number)) for number in range(256)])
_KNOWN_TYPES: Final = np.isin(np.arange(256), list(TYPE_NAMES))
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_WITH_BODY: Final = {"body", "text", "map_body", CORRUPT.name}


class Block(Protocol):
    """The answer to a READ; the numbers are big endian, as they travel."""

    count: int

    @property
    def ids(self) -> memoryview: ...
    @property
    def delivery_counts(self) -> memoryview: ...
    @property
    def sizes(self) -> memoryview: ...
    @property
    def kinds(self) -> memoryview: ...
    @property
    def messages(self) -> memoryview: ...


class MadeBlock:
    """Messages in the form of such an answer: their ids, delivery counts, kinds and bytes."""

    lost = False

    def __init__(
        self, ids: Sequence[int], counts: Sequence[int], messages: Sequence[bytes | memoryview], kinds: bytes | None = None
    ) -> None:
        size = self.count = len(ids)
        self.ids = memoryview(struct.pack(f">{size}q", *ids))
        self.delivery_counts = memoryview(struct.pack(f">{size}i", *counts))
        self.sizes = memoryview(struct.pack(f">{size}i", *map(len, messages)))
        self.kinds = memoryview(bytes(size) if kinds is None else kinds)
        self.messages = memoryview(b"".join(messages))


Fetch = Callable[[int, int], bytes]
"""Reads the body of a large message, given its id and the bytes of its body."""


class BlockConverter:
    """Turns the blocks of one queue of one node into batches of a schema.

    With ``fail_fast`` a message that cannot be decoded raises MessageFormatError.  Without, the parts that cannot be read are null, and the
    first one is logged: then a query does not stop for good at one bad message.
    """

    def __init__(self, schema: StructType, *, body_format: str, fail_fast: bool, queue: str, node_id: str, fetch: Fetch) -> None:
        """Raises SchemaError when a column is none or has another type."""
        check_schema(schema, body_format)
        self.arrow = to_arrow_schema(schema, timezone="UTC")
        self.body_format = body_format
        self.queue = queue
        self.node_id = node_id
        self.fetch = fetch
        self._fail_fast = fail_fast
        self._warned = False
        self.wants_bodies = not _WITH_BODY.isdisjoint(schema.names)
        if body_format == "json" and "body" in schema.names:
            check_json_schema(self.arrow.field("body").type)

    def batches(self, block: Block) -> Iterator[pa.RecordBatch]:
        """The messages of ``block``, in their order."""
        sizes = np.frombuffer(block.sizes, ">i4").astype(np.int64)
        ends = np.cumsum(sizes)
        large = np.frombuffer(block.kinds, np.int8) == _LARGE
        rows = _Rows(self, Source(block.messages), ends - sizes, ends, large)
        rows.ids = np.frombuffer(block.ids, ">i8").astype(np.int64)
        rows.delivery_counts = np.frombuffer(block.delivery_counts, ">i4").astype(np.int32)
        if not self.wants_bodies or not large.any():
            yield self._batch(rows)
            return
        stored = np.cumsum(rows.headers.large_sizes) // BATCH_BODIES_BYTES
        cuts = [0, *(np.flatnonzero(np.diff(stored)) + 1).tolist(), block.count]
        for first, last in itertools.pairwise(cuts):
            yield self._batch(rows.part(first, last))

    def _batch(self, rows: _Rows) -> pa.RecordBatch:
        arrays = [rows.column(field) for field in self.arrow]
        rows.report()
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def report(self, message_id: int, count: int, reason: str) -> None:
        """``count`` messages, this one first, cannot be decoded."""
        text = f"message {message_id} of queue {self.queue} on node {self.node_id} cannot be decoded: {reason}"
        if self._fail_fast:
            raise MessageFormatError(f"{text}; with mode=PERMISSIVE the parts that cannot be read are null")
        if not self._warned:
            self._warned = True
            log.warning(
                "%s; %s more in this block; values that cannot be read are null. Further ones of this task are not logged", text, count - 1
            )


class _Rows:
    """Messages of a block, with the columns computed so far."""

    ids: Ints
    delivery_counts: np.ndarray

    def __init__(self, converter: BlockConverter, source: Source, starts: Ints, ends: Ints, large: Mask) -> None:
        self._converter = converter
        self._source = source
        self._starts = starts
        self._ends = ends
        self._large = large
        self._count = len(starts)
        self._unreadable = np.zeros(self._count, np.bool_)

    def part(self, first: int, last: int) -> _Rows:
        rows = _Rows(self._converter, self._source, self._starts[first:last], self._ends[first:last], self._large[first:last])
        rows.ids, rows.delivery_counts = self.ids[first:last], self.delivery_counts[first:last]
        return rows

    def column(self, field: pa.Field) -> pa.Array:
        return _COLUMNS[field.name](self, field.type)

    def report(self) -> None:
        """Tell of the messages that are bad in a way that the wanted columns have shown."""
        bad = self._unreadable.copy()
        for name in ("headers", "tables", "_map_tables"):
            if name in self.__dict__:
                bad |= self.__dict__[name].bad
        if "headers" in self.__dict__ and "types" in self.headers.__dict__:
            bad |= ~_KNOWN_TYPES[self.headers.types]
        if not bad.any():
            return
        rows = np.flatnonzero(bad)
        self._converter.report(int(self.ids[rows[0]]), len(rows), self._reason(int(rows[0])))

    def _reason(self, row: int) -> str:
        data = self._source.bytes[self._starts[row] : self._ends[row]].tobytes()
        try:
            message = wire.decode_headers(data, 8) if self._large[row] else wire.decode_message(data)
        except (MalformedPacketError, IndexError) as error:
            return str(error)
        if message.type not in TYPE_NAMES:
            return f"its type is {message.type}, which is unknown"
        return f"its body is not what a message of type {TYPE_NAMES[message.type]} has, or not of the schema"

    @cached_property
    def headers(self) -> Headers:
        return Headers(self._source, self._starts, self._ends, self._large)

    @cached_property
    def tables(self) -> Tables:
        headers = self.headers
        starts = headers.properties
        return Tables(self._source, starts, headers.ends, ~headers.bad)

    # --- headers ------------------------------------------------------------------------------------------------------

    def _addresses(self) -> pa.Array:
        starts, ends, there = self.headers.addresses
        found = self._source.ranges(starts, ends, there).dictionary_encode()
        return to_utf8(found.dictionary).take(found.indices)

    def _time(self, milliseconds: Ints, kind: pa.DataType) -> pa.Array:
        missing = (milliseconds == 0) | self.headers.bad
        return pa.array(np.clip(milliseconds, TIME_MIN_MS, TIME_MAX_MS) * 1000, pa.int64(), mask=missing).view(kind)

    def _user_ids(self) -> pa.Array:
        at, there = self.headers.user_ids
        rows = np.flatnonzero(there)
        raw = self._source.matrix(at[rows], 16)
        # The form of a version 1 UUID, even if the bytes have another version, as the Java library prints it.
        raw[:, 6] = raw[:, 6] & 0x0F | 0x10
        raw[:, 8] = raw[:, 8] & 0x3F | 0x80
        digits = np.empty((len(rows), 32), np.uint8)
        digits[:, 0::2], digits[:, 1::2] = _HEX[raw >> 4], _HEX[raw & 15]
        text = np.insert(digits, (8, 12, 16, 20), ord("-"), axis=1)
        prefix = np.broadcast_to(np.frombuffer(b"ID:", np.uint8), (len(rows), 3))
        return spread(fixed_rows(np.concatenate((prefix, text), axis=1), pa.string()), rows, self._count)

    # --- properties ---------------------------------------------------------------------------------------------------

    def _text_property(self, name: str) -> pa.Array:
        tables = self.tables
        entries = tables.named(name)
        entries = entries[tables.kind[entries] == types.STRING]
        return spread(tables.texts(entries), tables.row[entries], self._count)

    def _duplicate_ids(self) -> pa.Array:
        tables = self.tables
        entries = tables.named(wire.KEY_DUPLICATE_ID)
        texts = entries[tables.kind[entries] == types.STRING]
        binaries = entries[tables.kind[entries] == types.BYTES]
        both = pa.concat_arrays([tables.texts(texts), _shown(tables.binaries(binaries))])
        return spread(both, tables.row[np.concatenate((texts, binaries))], self._count)

    # --- bodies -------------------------------------------------------------------------------------------------------

    @cached_property
    def _bodies(self) -> tuple[Source, Ints, Ints, Mask]:
        """(a buffer with all bodies, decompressed; their starts and ends in it; which can be read)."""
        headers = self.headers
        starts, ends = headers.body_starts, headers.begins
        special = np.flatnonzero((self._large | self._compressed) & ~headers.bad)
        readable = ~headers.bad
        if not len(special):
            return self._source, starts, ends, readable
        parts = [self._source.bytes.data]
        position = len(parts[0])
        stored, compressed = headers.large_sizes.tolist(), self._compressed.tolist()
        starts, ends = starts.copy(), ends.copy()
        for row in special.tolist():
            if self._large[row]:
                self._check_size(row, stored[row])
                body = self._converter.fetch(int(self.ids[row]), stored[row])
            else:
                body = self._source.bytes[starts[row] : ends[row]].tobytes()
            if compressed[row]:
                plain = self._decompressed(row, body)
                if plain is None:
                    readable[row] = False
                    self._unreadable[row] = True
                body = plain or b""
            self._check_size(row, position + len(body))
            parts.append(memoryview(body))
            starts[row], ends[row] = position, position + len(body)
            position += len(body)
        return Source(b"".join(parts)), starts, ends, readable

    @cached_property
    def _compressed(self) -> Mask:
        """The rows with a compressed body: a property says so, whose key occurs in nearly no block."""
        found = np.zeros(self._count, np.bool_)
        if self._source.bytes.tobytes().find(_KEY_COMPRESSED) >= 0:
            tables = self.tables
            entries = tables.named(wire.KEY_LARGE_COMPRESSED)
            entries = entries[tables.kind[entries] == types.BOOLEAN]
            found[tables.row[entries]] = tables.values(entries, 1)[:, 0] != 0
        return found

    def _check_size(self, row: int, size: int) -> None:
        if size > BODY_BYTES_MAX:
            raise MessageFormatError(
                f"the body of message {self.ids[row]} of queue {self._converter.queue} on node {self._converter.node_id} makes a batch "
                f"of {size} bytes, and Spark takes {BODY_BYTES_MAX}: read without the columns body, text and map_body, or leave the "
                "message out with a selector"
            )

    def _decompressed(self, row: int, body: bytes) -> bytes | None:
        inflater = zlib.decompressobj()
        try:
            plain = inflater.decompress(body, BODY_BYTES_MAX + 1)
        except zlib.error:
            return None
        self._check_size(row, len(plain))
        return plain if inflater.eof else None

    def _body(self) -> pa.Array:
        if self._converter.body_format == "json":
            return self._json[0]
        if self._converter.body_format == "text":
            return self._body_text
        source, starts, ends, readable = self._bodies
        return source.ranges(starts, ends, readable)

    @cached_property
    def _texts(self) -> pa.Array:
        """The texts of text messages: a byte that says whether there is one, its length, UTF-16LE."""
        source, starts, ends, readable = self._bodies
        there = readable & (self.headers.types == wire.TYPE_TEXT) & (ends > starts)
        there &= source.bytes[np.where(there, starts, 0)] != 0
        fine = there & (ends - starts >= 5)
        sizes = source.i32(np.where(fine, starts + 1, 0))
        fine &= (sizes >= 0) & (sizes & 1 == 0) & (sizes <= ends - starts - 5)
        self._unreadable |= there & ~fine
        starts = starts + 5
        return to_utf8(source.ranges(starts, np.where(fine, starts + sizes, 0), fine))

    @cached_property
    def _body_text(self) -> pa.Array:
        """The bodies of text messages, and the bodies of bytes messages (and of messages without a type) as UTF-8; null for others."""
        texts = self._texts
        source, starts, ends, readable = self._bodies
        kinds = self.headers.types
        rows = np.flatnonzero(readable & ((kinds == wire.TYPE_BYTES) | (kinds == wire.TYPE_DEFAULT)))
        if not len(rows):
            return texts
        raw = source.ranges(starts[rows], ends[rows])
        fine = _valid_utf8(raw)
        self._unreadable[rows[~fine]] = True
        offsets, data = binary_parts(raw)
        decoded = with_validity(binary_array(offsets, data, pa.string()), fine)
        places = np.arange(self._count)
        places[rows] = self._count + np.arange(len(rows))
        return pa.concat_arrays([texts, decoded]).take(pa.array(places))

    @cached_property
    def _json(self) -> tuple[pa.Array, Mask]:
        found, bad = parse_bodies(self._body_text, self._converter.arrow.field("body").type)
        self._unreadable |= bad
        return found, bad

    @property
    def _maps(self) -> Mask:
        maps: Mask = self._bodies[3] & (self.headers.types == wire.TYPE_MAP)
        return maps

    @cached_property
    def _map_tables(self) -> Tables:
        source, starts, ends, _ = self._bodies
        return Tables(source, starts, ends, self._maps & (ends > starts))


_COLUMNS: Final[dict[str, Callable[[_Rows, Any], pa.Array]]] = {
    "message_id": lambda rows, kind: pa.array(rows.ids, kind),
    "address": lambda rows, _: rows._addresses(),
    "queue": lambda rows, kind: pa.repeat(pa.scalar(rows._converter.queue, kind), rows._count),
    "node_id": lambda rows, kind: pa.repeat(pa.scalar(rows._converter.node_id, kind), rows._count),
    "type": lambda rows, _: _TYPES.take(pa.array(rows.headers.types, mask=rows.headers.bad)),
    "timestamp": lambda rows, kind: rows._time(rows.headers.timestamps, kind),
    "expiration": lambda rows, kind: rows._time(rows.headers.expirations, kind),
    "priority": lambda rows, kind: pa.array(rows.headers.priorities.astype(np.int32), kind, mask=rows.headers.bad),
    "durable": lambda rows, kind: pa.array(rows.headers.durable, kind, mask=rows.headers.bad),
    "correlation_id": lambda rows, _: rows._text_property("JMSCorrelationID"),
    "reply_to": lambda rows, _: rows._text_property("JMSReplyTo"),
    "group_id": lambda rows, _: rows._text_property(wire.KEY_GROUP_ID),
    "delivery_count": lambda rows, kind: pa.array(rows.delivery_counts, kind),
    "user_id": lambda rows, _: rows._user_ids(),
    "duplicate_id": lambda rows, _: rows._duplicate_ids(),
    "properties": lambda rows, kind: variant_map(rows.tables, kind, ~(rows.headers.bad | rows.tables.bad)),
    "body": lambda rows, _: rows._body(),
    "text": lambda rows, _: rows._texts,
    "map_body": lambda rows, kind: variant_map(rows._map_tables, kind, rows._maps & ~rows._map_tables.bad),
    CORRUPT.name: lambda rows, _: rows._body_text.take(pa.array(np.arange(rows._count), mask=~rows._json[1])),
}
"""How each column is made of some messages and its Arrow type."""


def _valid_utf8(raw: pa.Array) -> Mask:
    offsets, data = binary_parts(raw)
    used = data[offsets[0] : offsets[-1]]
    if not len(used) or int(used.max()) < 0x80:
        return np.ones(len(raw), np.bool_)
    return np.fromiter((_decoded(each) is not None for each in raw.to_pylist()), np.bool_, len(raw))


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _shown(raw: pa.Array) -> pa.Array:
    """Bytes as text: UTF-8, or hexadecimal where they are not that."""
    offsets, data = binary_parts(raw)
    if bool(_valid_utf8(raw).all()):
        return binary_array(offsets, data, pa.string())
    return pa.array([each.hex() if _decoded(each) is None else each.decode() for each in raw.to_pylist()], pa.string())
