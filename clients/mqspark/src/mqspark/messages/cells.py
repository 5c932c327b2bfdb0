"""Arrow columns as pieces of encoded messages: one ``bytes`` for each row, made with as little work for a single cell as there can be.

Text is the case that counts: Arrow holds UTF-8, the wire wants UTF-16.  A column of plain ASCII is widened at once, by numpy, and cut.

Source: ``protocol-spec/``, chapter "Message encoding".
"""

from __future__ import annotations

import struct
from codecs import utf_16_le_encode
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqclient.wire.primitives import encode_f32, encode_simple_string
from mqclient.wire.properties import BOOLEAN, BYTE, BYTES, DOUBLE, FLOAT, INT, LONG, NULL, SHORT, STRING, encode_value
from mqspark.errors import SchemaError
from mqspark.messages.variant_values import is_variant, variant_values

Pieces = list[bytes]
"""The piece of each row at one place of its message."""

KEYS_MAX: Final = 1000
"""Property names that are remembered encoded, for each encoder."""
_I32 = struct.Struct(">i")
_BODY_BYTES = struct.Struct(">i")
_BODY_TEXT = struct.Struct(">iBi")
_STRING = struct.Struct(">Bi")
_HEAD = struct.Struct(">Bi")
_BODY_EXTRA: Final = 13
"""The difference between the field "end of body" and the length of the body."""
_TEXT_EXTRA: Final = _BODY_EXTRA + 5
EMPTY_BODY: Final = _I32.pack(_BODY_EXTRA)
NULL_TEXT_BODY: Final = _I32.pack(_BODY_EXTRA + 1) + b"\x00"

_NUMBERS: Final[dict[Any, tuple[int, struct.Struct]]] = {
    pa.int8(): (BYTE, struct.Struct(">Bb")),
    pa.int16(): (SHORT, struct.Struct(">Bh")),
    pa.int32(): (INT, struct.Struct(">Bi")),
    pa.int64(): (LONG, struct.Struct(">Bq")),
    pa.float64(): (DOUBLE, struct.Struct(">Bd")),
}
"""Arrow types of plain numbers: the type id and form of a property."""


def is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_binary(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def wide_texts(column: Any) -> Pieces:
    """The cells of a text column in UTF-16LE; of a null nothing."""
    if not len(column):
        return []
    if pa.types.is_string(column.type):
        _, offsets, data = column.buffers()
        cuts = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
        raw = b"" if data is None else memoryview(data)[cuts[0] : cuts[-1]]
        narrow = bytes(raw)
        if narrow.isascii():
            wide = np.frombuffer(narrow, np.uint8).astype("<u2").tobytes()
            return [wide[start:end] for start, end in pairwise(((cuts - cuts[0]) * 2).tolist())]
    return [b"" if text is None else utf_16_le_encode(text, "surrogatepass")[0] for text in column.to_pylist()]


def text_bodies(column: Any) -> Pieces:
    """Bodies of text messages, with the field "end of body" before them."""
    pack = _BODY_TEXT.pack
    found = [pack(len(wide) + _TEXT_EXTRA, 1, len(wide)) + wide for wide in wide_texts(column)]
    return _with_nulls(column, found, NULL_TEXT_BODY)


def binary_bodies(column: Any) -> Pieces:
    """Bodies of bytes messages, with the field "end of body" before them; a null is an empty body."""
    pack = _BODY_BYTES.pack
    return [EMPTY_BODY if body is None else pack(len(body) + _BODY_EXTRA) + body for body in column.to_pylist()]


def _with_nulls(column: Any, pieces: Pieces, null: bytes) -> Pieces:
    if column.null_count:
        for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            pieces[row] = null
    return pieces


def values(column: Any, name: str) -> Pieces:
    """The cells as typed values of properties, each with its type id; a null is the value null.  Raises SchemaError for another type."""
    kind = column.type
    if is_variant(kind):
        return variant_values(column, name)
    if is_text(kind):
        pack = _STRING.pack
        found = [pack(STRING, len(wide)) + wide for wide in wide_texts(column)]
        return _with_nulls(column, found, bytes((NULL,)))
    number = _NUMBERS.get(kind)
    if number is not None:
        type_id, form = number
        return _with_nulls(column, [form.pack(type_id, value) for value in pc.fill_null(column, 0).to_pylist()], bytes((NULL,)))
    encode = _single_encoder(kind)
    if encode is None:
        raise SchemaError(
            f"the column {name} has the type {kind}: a property holds a boolean, byte, short, int, long, float, double, string or binary"
        )
    return [bytes((NULL,)) if value is None else encode(value) for value in column.to_pylist()]


def _single_encoder(kind: Any) -> Callable[[Any], bytes] | None:
    if pa.types.is_boolean(kind):
        return (bytes((BOOLEAN, 0)), bytes((BOOLEAN, 1))).__getitem__
    if pa.types.is_float32(kind):
        return lambda value: bytes((FLOAT,)) + encode_f32(value)
    if is_binary(kind):
        return lambda value: encode_value(BYTES, value)
    return None


def can_be_value(kind: Any) -> bool:
    """Can a property hold this Arrow type?"""
    return is_variant(kind) or is_text(kind) or kind in _NUMBERS or _single_encoder(kind) is not None


@lru_cache(maxsize=KEYS_MAX)
def key(name: str) -> bytes:
    return encode_simple_string(name)


@lru_cache(maxsize=KEYS_MAX)
def head(count: int) -> bytes:
    """How a block of properties begins."""
    return _HEAD.pack(1, count) if count else b"\x00"


def entries(column: Any, name: str, present: bytes) -> tuple[Pieces, Any]:
    """A column as one property ``present`` (its encoded key) of each row, and how many of it each row has (0 for a null)."""
    found = [present + value for value in values(column, name)]
    counts = np.ones(len(column), np.int32)
    if column.null_count:
        counts[np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))] = 0
        _with_nulls(column, found, b"")
    return found, counts


def map_entries(column: Any, name: str, reserved: frozenset[str]) -> tuple[Pieces, Any]:
    """A map column as a run of properties for each row, and their number.  Names in ``reserved`` are left out."""
    length = len(column)
    if not length:
        return [], np.zeros(0, np.int32)
    cuts = column.offsets.to_numpy()
    first, last = int(cuts[0]), int(cuts[-1])
    keys, items = column.keys.slice(first, last - first), column.items.slice(first, last - first)
    names = keys.dictionary_encode()
    heads = [None if text in reserved else key(text) for text in names.dictionary.to_pylist()]
    made = values(items, name)
    which = names.indices.to_numpy(zero_copy_only=False)
    cuts = cuts - first
    if any(each is None for each in heads):
        kept = np.fromiter((each is not None for each in heads), bool, len(heads))[which]
        pieces = [b"" if heads[at] is None else heads[at] + value for at, value in zip(which.tolist(), made, strict=True)]
        sums = np.concatenate((np.zeros(1, np.int32), np.cumsum(kept, dtype=np.int32)))
        counts = sums[cuts[1:]] - sums[cuts[:-1]]
    else:
        pieces = [heads[at] + value for at, value in zip(which.tolist(), made, strict=True)]
        counts = np.diff(cuts)
    join = b"".join
    runs = [join(pieces[start:end]) for start, end in pairwise(cuts.tolist())]
    if column.null_count:
        counts[np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))] = 0
        _with_nulls(column, runs, b"")
    return runs, counts


def ids(prefix: str, first: int, count: int) -> Pieces:
    """``count`` duplicate ids ``<prefix><row>`` as string properties without their key, from the row ``first`` on."""
    lead = utf_16_le_encode(prefix)[0]
    found: Pieces = []
    row, end = first, first + count
    while row < end:
        digits = len(str(row))
        stop = min(end, 10**digits)
        wide = utf_16_le_encode("".join(map(str, range(row, stop))))[0]
        size = 2 * digits
        before = _STRING.pack(STRING, len(lead) + size) + lead
        found += [before + wide[at : at + size] for at in range(0, len(wide), size)]
        row = stop
    return found


def map_bodies(column: Any) -> Pieces:
    """Bodies of map messages, with the field "end of body" before them; a null is an empty map."""
    runs, counts = map_entries(column, "map_body", frozenset())
    heads = map(head, counts.tolist())
    pack = _BODY_BYTES.pack
    return [pack(len(first) + len(run) + _BODY_EXTRA) + first + run for first, run in zip(heads, runs, strict=True)]
