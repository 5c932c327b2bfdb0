"""Rows as encoded messages: the meaning of the columns, and the encoding of a whole Arrow batch at once.

A message is put together from pieces, one list of pieces for each place that differs from row to row; parts that are the same in all rows
of a batch are encoded once.  The encoded bytes are the first Python object of a row.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqclient.text import nearest_name
from mqclient.wire.message import (
    KEY_ACK_ROUTE_TO,
    KEY_BRIDGE_DUPLICATE_ID,
    KEY_CID,
    KEY_DUPLICATE_ID,
    KEY_GROUP_ID,
    KEY_LARGE_COMPRESSED,
    KEY_LARGE_SIZE,
    KEY_ROUTE_TO,
    KEY_ROUTING_TYPE,
    KEY_SCALEDOWN_TO,
    TYPE_BYTES,
    TYPE_DEFAULT,
    TYPE_MAP,
    TYPE_TEXT,
)
from mqclient.wire.properties import BYTE, BYTES, encode_value
from mqspark.columns import TYPE_NAMES
from mqspark.errors import SchemaError
from mqspark.messages import cells
from mqspark.messages.cells import Pieces, is_binary, is_text

KEY_CORRELATION_ID: Final = "JMSCorrelationID"
KEY_REPLY_TO: Final = "JMSReplyTo"

TYPES: Final[Mapping[str, int]] = {name: number for number, name in TYPE_NAMES.items()}
_TYPES_BY_TEXT: Final = {**{str(number): number for number in range(-128, 128)}, **TYPES}
"""Values of the column ``type``: a name, or the number of a type without a name."""

READ_ONLY: Final = frozenset(("message_id", "queue", "node_id", "delivery_count"))
"""Columns of the sources that come from the broker; they are ignored, so that rows that were read can be written."""

_PROPERTIES: Final = {
    "correlation_id": KEY_CORRELATION_ID,
    "reply_to": KEY_REPLY_TO,
    "group_id": KEY_GROUP_ID,
}
"""Columns that travel as a property of their own."""
_OURS: Final = frozenset(
    (KEY_ROUTE_TO, KEY_ACK_ROUTE_TO, KEY_SCALEDOWN_TO, KEY_BRIDGE_DUPLICATE_ID, KEY_CID, KEY_LARGE_SIZE, KEY_LARGE_COMPRESSED)
)
"""Properties that a map column cannot set: they are about the connection or the way that a message has come."""

_BODIES: Final = ("map_body", "text", "body")
"""The columns that hold bodies; of several the first that is not null counts."""
_FIXED = struct.Struct(">bBqqb")
_NO_MESSAGE_ID: Final = bytes(8)
SLICE_ROWS_MAX: Final = 1000
"""Rows that are encoded at once: so many messages exist twice, as Arrow cells and encoded."""
SLICE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of rows that are encoded at once, but for a single row that is greater."""


@dataclass(frozen=True, slots=True)
class RowSettings:
    """Settings for all rows of a task.

    ``address``: the address of all messages; None: the column ``address``.  ``routing_type``: 0 for topics, 1 for queues, None as the
    address has it.  ``time_to_live`` in ms, 0 = messages never expire; a column ``expiration`` wins.  ``id_prefix``: prefix and number of
    the row are its duplicate id; None: rows have only the ids of their column.  ``extra_properties``: unknown columns become properties.
    """

    address: str | None = None
    routing_type: int | None = None
    time_to_live: int = 0
    id_prefix: str | None = None
    extra_properties: bool = False


class _Accepted(NamedTuple):
    """The types that a column may have: the check of an Arrow type, and the text for an error."""

    fits: Callable[[Any], bool]
    expected: str


def _is_map(kind: Any) -> bool:
    return bool(pa.types.is_map(kind) and is_text(kind.key_type) and cells.can_be_value(kind.item_type))


def _is_struct(kind: Any) -> bool:
    return bool(pa.types.is_struct(kind) and all(cells.can_be_value(field.type) for field in kind))


def _is_text_or_binary(kind: Any) -> bool:
    return is_text(kind) or is_binary(kind)


_VALUES: Final = "of booleans, whole numbers of 8 to 64 bits, floats, doubles, strings, binaries or variants"
_TEXT: Final = _Accepted(is_text, "a string")
_TIME: Final = _Accepted(lambda kind: pa.types.is_integer(kind) or pa.types.is_timestamp(kind), "a long (ms since 1970) or a timestamp")
_EXPECTED: Final[Mapping[str, _Accepted]] = {
    **dict.fromkeys(("address", "reply_to", "group_id", "text", "type"), _TEXT),
    **dict.fromkeys(("correlation_id", "duplicate_id", "body"), _Accepted(_is_text_or_binary, "a string or binary")),
    **dict.fromkeys(("expiration", "timestamp"), _TIME),
    "user_id": _Accepted(_is_text_or_binary, "a string (a UUID) or binary (16 bytes)"),
    "priority": _Accepted(pa.types.is_integer, "an int from 0 to 9"),
    "durable": _Accepted(pa.types.is_boolean, "a boolean"),
    "map_body": _Accepted(_is_map, f"a map with strings as keys, {_VALUES}"),
    "properties": _Accepted(lambda kind: _is_map(kind) or _is_struct(kind), f"a map with strings as keys, or a struct, {_VALUES}"),
}
"""The columns that a row may have, and their types."""


def check_schema(schema: Any, settings: RowSettings) -> None:
    """Raises SchemaError when rows of this Arrow schema cannot be sent."""
    names = [field.name.lower() for field in schema]
    for name, field in zip(names, schema, strict=True):
        if names.count(name) > 1:
            raise SchemaError(f"there are two columns {field.name}")
        if name in READ_ONLY:
            continue
        if name in _EXPECTED:
            accepted = _EXPECTED[name]
            if not accepted.fits(field.type):
                raise SchemaError(f"the column {field.name} has the type {field.type}, expected {accepted.expected}")
        elif not settings.extra_properties:
            nearest = nearest_name(name, list(_EXPECTED))
            hint = f"; did you mean {nearest}?" if nearest else f"; there are: {', '.join(sorted(_EXPECTED))}"
            raise SchemaError(f"the column {field.name} is not known{hint} (unknownColumns=properties sends such columns as properties)")
        elif not cells.can_be_value(field.type):
            raise SchemaError(f"the column {field.name} has the type {field.type}, which no property can hold")
    if settings.address is None and "address" not in names:
        raise SchemaError("nothing says where messages go: expected an option queue, topic or address, or a column address")


@dataclass(slots=True)
class EncodedRows:
    """Messages in the order of their rows.  ``addresses``: where each goes, None when all go to the address of the settings."""

    messages: Pieces
    addresses: list[str] | None

    def __len__(self) -> int:
        return len(self.messages)


class RowEncoder:
    """Encodes the rows of one task.  Raises SchemaError for columns and for values that no message can hold."""

    def __init__(self, schema: Any, settings: RowSettings) -> None:
        check_schema(schema, settings)
        self._settings = settings
        self._at = {field.name.lower(): number for number, field in enumerate(schema)}
        self._extra = [
            (number, field.name)
            for number, field in enumerate(schema)
            if field.name.lower() not in _EXPECTED and field.name.lower() not in READ_ONLY
        ]
        self._reserved = _OURS | {text for name, text in _PROPERTIES.items() if name in self._at} | {name for _, name in self._extra}
        if settings.routing_type is not None:
            self._reserved |= {KEY_ROUTING_TYPE}
        if settings.id_prefix is not None or "duplicate_id" in self._at:
            self._reserved |= {KEY_DUPLICATE_ID}
        static = ((KEY_ROUTING_TYPE, settings.routing_type),) if settings.routing_type is not None else ()
        self._static = b"".join(cells.key(name) + encode_value(BYTE, value) for name, value in static)
        self._static_count = len(static)

    def slices(self, batch: Any) -> Iterator[Any]:
        """A batch in pieces that are small enough to be encoded at once."""
        if not batch.num_rows:
            return
        size = max(1, min(SLICE_ROWS_MAX, SLICE_BYTES_MAX * batch.num_rows // max(1, batch.nbytes)))
        for start in range(0, batch.num_rows, size):
            yield batch.slice(start, size)

    def encode(self, batch: Any, first_row: int, now: int) -> EncodedRows:
        """The messages of ``batch``, whose first row has the number ``first_row``.  ``now`` in ms since 1970."""
        count = batch.num_rows
        types, bodies = self._bodies(batch, count)
        addresses, address_piece = self._address(batch)
        parts: list[bytes | Pieces] = [
            bodies,
            _NO_MESSAGE_ID,
            address_piece,
            self._user_ids(batch),
            self._fixed(batch, types, count, now),
            *self._entries(batch, first_row, count),
        ]
        return EncodedRows([b"".join(pieces) for pieces in zip(*_columns(parts, count), strict=False)], addresses)

    def _column(self, batch: Any, name: str) -> Any:
        at = self._at.get(name)
        return None if at is None else batch.column(at)

    # --- bodies

    def _bodies(self, batch: Any, count: int) -> tuple[int | list[int], bytes | Pieces]:
        given = [(name, batch.column(self._at[name])) for name in _BODIES if name in self._at]
        kinds = self._column(batch, "type")
        if not given:
            types = TYPE_DEFAULT if kinds is None else self._types(kinds)
            return types, cells.EMPTY_BODY
        if kinds is not None:
            return self._typed_bodies(given, self._types(kinds))
        encoded = [_encode_bodies(name, column) for name, column in given]
        if len(given) == 1:
            return encoded[0]
        which = np.full(count, len(given))
        for number in reversed(range(len(given))):
            column = given[number][1]
            which[np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))] = number
        encoded.append((TYPE_DEFAULT, [cells.EMPTY_BODY] * count))
        chosen = which.tolist()
        return [encoded[at][0] for at in chosen], [encoded[at][1][row] for row, at in enumerate(chosen)]

    def _types(self, column: Any) -> list[int]:
        try:
            return [_TYPES_BY_TEXT[text] for text in column.to_pylist()]
        except KeyError as error:
            raise SchemaError(f"the column type holds {error.args[0]!r}, expected one of {', '.join(TYPES)}") from None

    def _typed_bodies(self, given: Sequence[tuple[str, Any]], types: list[int]) -> tuple[list[int], Pieces]:
        """Each row's body from the column that its type asks for; without that column, or where it is null, from ``body`` as it is.

        A ``body`` of texts is the text of a text message, and UTF-8 in all others.
        """
        known = {name: (column, _encode_bodies(name, column)[1]) for name, column in given}
        as_text = as_bytes = known.get("body")
        if as_bytes is not None and is_text(as_bytes[0].type):
            as_bytes = as_bytes[0], cells.binary_bodies(as_bytes[0].cast(pa.large_binary()))
        ways = {TYPE_TEXT: (known.get("text"), as_text), TYPE_MAP: (known.get("map_body"), as_bytes)}
        bodies: Pieces = []
        for row, kind in enumerate(types):
            found = next((way for way in ways.get(kind, (as_bytes,)) if way is not None and way[0][row].is_valid), None)
            if found is not None:
                bodies.append(found[1][row])
            else:
                bodies.append(cells.NULL_TEXT_BODY if kind == TYPE_TEXT else cells.EMPTY_BODY)
        return types, bodies

    # --- headers

    def _address(self, batch: Any) -> tuple[list[str] | None, bytes | Pieces]:
        settings = self._settings
        if settings.address is not None:
            return None, b"\x01" + cells.key(settings.address)
        column = self._column(batch, "address").dictionary_encode()
        if column.null_count:
            raise SchemaError("the column address is null in a row: nothing says where its message goes")
        names = column.dictionary.to_pylist()
        encoded = [b"\x01" + cells.key(name) for name in names]
        which = column.indices.to_pylist()
        return [names[at] for at in which], [encoded[at] for at in which]

    def _user_ids(self, batch: Any) -> bytes | Pieces:
        column = self._column(batch, "user_id")
        if column is None:
            return b"\x00"
        try:
            return [b"\x00" if value is None else b"\x01" + _user_id(value) for value in column.to_pylist()]
        except ValueError as error:
            raise SchemaError(f"the column user_id: {error}") from None

    def _fixed(self, batch: Any, types: int | list[int], count: int, now: int) -> bytes | Pieces:
        expires = now + self._settings.time_to_live if self._settings.time_to_live else 0
        expirations = self._numbers(batch, "expiration", expires)
        timestamps = self._numbers(batch, "timestamp", now)
        priorities = self._numbers(batch, "priority", 4)
        durables = self._numbers(batch, "durable", 1)
        if not isinstance(priorities, int) and not all(0 <= priority <= 9 for priority in set(priorities)):
            wrong = next(priority for priority in priorities if not 0 <= priority <= 9)
            raise SchemaError(f"the column priority holds {wrong}, expected 0 to 9")
        every = (types, durables, expirations, timestamps, priorities)
        if all(isinstance(each, int) for each in every):
            return _FIXED.pack(*every)
        return list(map(_FIXED.pack, *(repeat(each, count) if isinstance(each, int) else each for each in every)))

    def _numbers(self, batch: Any, name: str, missing: int) -> int | list[int]:
        column = self._column(batch, name)
        if column is None:
            return missing
        if pa.types.is_timestamp(column.type):
            # In UTC, because Arrow cannot convert one hour of the year in the zone of the session.
            column = column.view(pa.timestamp(column.type.unit, "UTC"))
            column = pc.cast(pc.floor_temporal(column, unit="millisecond"), pa.timestamp("ms", "UTC")).cast(pa.int64())
        numbers: list[int] = pc.fill_null(column.cast(pa.int64()), missing).to_pylist()
        return numbers

    # --- properties

    def _entries(self, batch: Any, first_row: int, count: int) -> list[bytes | Pieces]:
        """The block of properties: its beginning, the entries of all rows, and the entries of each row."""
        number = self._static_count
        counts = np.full(count, number, np.int32)
        runs: list[Pieces] = []
        given = self._column(batch, "duplicate_id")
        prefix = self._settings.id_prefix
        if prefix is not None or given is not None:
            # First of all, where the broker finds it without a walk through the others.
            pieces, present = self._ids(given, prefix, first_row, count)
            runs.append(pieces)
            counts += present
        for at, encoded in self._single(batch):
            pieces, present = cells.entries(batch.column(at), batch.schema.field(at).name, encoded)
            runs.append(pieces)
            counts += present
        properties = self._column(batch, "properties")
        if properties is not None:
            for pieces, present in (*self._properties(properties), *self._correlation_ids_in_bytes(batch, properties)):
                runs.append(pieces)
                counts += present
        if count and (counts == counts[0]).all():
            return [cells.head(int(counts[0])) + self._static, *runs]
        return [list(map(cells.head, counts.tolist())), self._static, *runs]

    def _properties(self, column: Any) -> Iterator[tuple[Pieces, Any]]:
        if pa.types.is_map(column.type):
            yield cells.map_entries(column, "properties", self._reserved)
            return
        for at, field in enumerate(column.type):
            if field.name not in self._reserved:
                yield cells.entries(pc.struct_field(column, at), f"properties.{field.name}", cells.key(field.name))

    def _correlation_ids_in_bytes(self, batch: Any, properties: Any) -> Iterator[tuple[Pieces, Any]]:
        """JMSCorrelationID of rows that have it in bytes: in no column of texts, and so among the properties alone."""
        column = self._column(batch, "correlation_id")
        if column is None or not column.null_count or not pa.types.is_map(properties.type):
            return
        found = pc.map_lookup(properties, KEY_CORRELATION_ID, "first")
        if found.null_count == len(found):
            return
        lead = cells.key(KEY_CORRELATION_ID)
        rows = zip(column.is_null().to_pylist(), cells.values(found, "properties"), strict=True)
        pieces = [lead + value if missing and value[0] == BYTES else b"" for missing, value in rows]
        yield pieces, np.fromiter(map(bool, pieces), np.int32, len(pieces))

    def _single(self, batch: Any) -> Iterator[tuple[int, bytes]]:
        for name, text in _PROPERTIES.items():
            if name in self._at:
                yield self._at[name], cells.key(text)
        for at, text in self._extra:
            yield at, cells.key(text)

    def _ids(self, given: Any, prefix: str | None, first_row: int, count: int) -> tuple[Pieces, Any]:
        lead = cells.key(KEY_DUPLICATE_ID)
        if given is None:
            assert prefix is not None
            return [lead + value for value in cells.ids(prefix, first_row, count)], 1
        pieces, counts = cells.entries(given, "duplicate_id", lead)
        if prefix is not None and given.null_count:
            made = cells.ids(prefix, first_row, count)
            pieces = [piece or lead + made[row] for row, piece in enumerate(pieces)]
            counts = 1
        return pieces, counts


def _encode_bodies(name: str, column: Any) -> tuple[int, Pieces]:
    if name == "map_body":
        return TYPE_MAP, cells.map_bodies(column)
    if is_text(column.type):
        return TYPE_TEXT, cells.text_bodies(column)
    return TYPE_BYTES, cells.binary_bodies(column)


def _user_id(value: str | bytes) -> bytes:
    found = uuid.UUID(value.removeprefix("ID:")).bytes if isinstance(value, str) else value
    if len(found) != 16:
        raise ValueError(f"{len(found)} bytes, expected 16")
    return found


def _columns(parts: Sequence[bytes | Pieces], count: int) -> list[Any]:
    """``parts`` as iterables of pieces; neighbouring parts that are the same in all rows are joined."""
    merged: list[bytes | Pieces] = []
    for part in parts:
        if isinstance(part, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += part
        else:
            merged.append(part)
    return [repeat(part, count) if isinstance(part, bytes) else part for part in merged]
