"""Values with their types as Spark's variants, and maps of such values, for the columns ``properties`` and ``map_body``.

A variant is a pair of binaries; the first is one byte with the type, and the value in little endian.  The types of a message and those of a
variant correspond one to one:

=========  ============  =====================================================
message    variant       remark
=========  ============  =====================================================
BOOLEAN    true, false
BYTE       int8          ``schema_of_variant`` calls all whole numbers BIGINT
SHORT      int16
INT        int32
LONG       int64
FLOAT      float
DOUBLE     double
STRING     string        the short form up to 63 bytes, the long one above
CHAR       string        always the long form, by which a writer knows it
BYTES      binary
NULL       null
=========  ============  =====================================================

Source: the Parquet project's description of the variant encoding; the functions of Spark read it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from mqclient.wire import properties as types
from mqspark.messages.ranges import Ints, Mask, binary_array, binary_parts, fixed_rows, to_utf8
from mqspark.messages.tables import Tables

METADATA: Final = b"\x01\x00\x00"
"""Version 1, and no names: only objects have some."""

NULL: Final = 0 << 2
TRUE: Final = 1 << 2
FALSE: Final = 2 << 2
INT8: Final = 3 << 2
INT16: Final = 4 << 2
INT32: Final = 5 << 2
INT64: Final = 6 << 2
DOUBLE: Final = 7 << 2
FLOAT: Final = 14 << 2
BINARY: Final = 15 << 2
LONG_STRING: Final = 16 << 2
SHORT_STRING: Final = 1
"""The two lowest bits; the others are the number of bytes."""
SHORT_STRING_SIZE_MAX: Final = 63

_NUMBERS: Final = {
    types.BYTE: (INT8, 1),
    types.SHORT: (INT16, 2),
    types.INT: (INT32, 4),
    types.LONG: (INT64, 8),
    types.FLOAT: (FLOAT, 4),
    types.DOUBLE: (DOUBLE, 8),
}
"""Type id to the first byte of the variant and the bytes of the value."""

_SHORT: Final = [bytes((size << 2 | SHORT_STRING,)) for size in range(SHORT_STRING_SIZE_MAX + 1)]
_LITERALS: Final = [b"", bytes((NULL,)), bytes((TRUE,)), bytes((FALSE,)), *_SHORT]
_EMPTY, _NULL, _TRUE, _FALSE, _SHORT_HEADS = range(5)
"""The places of these among the literals; the last is the first place of short strings."""


def value_binaries(tables: Tables) -> pa.Array:
    """The first binary of the variant of each entry."""
    pieces = _Pieces(len(tables.kind))
    for kind in np.unique(tables.kind).tolist():
        entries = np.flatnonzero(tables.kind == kind)
        if kind in _NUMBERS:
            head, width = _NUMBERS[kind]
            matrix = np.empty((len(entries), width + 1), np.uint8)
            matrix[:, 0] = head
            matrix[:, 1:] = tables.values(entries, width)[:, ::-1]
            pieces.heads[entries] = pieces.add(fixed_rows(matrix, pa.binary()))
        elif kind == types.STRING:
            pieces.texts(entries, tables.texts(entries), short=True)
        elif kind == types.CHAR:
            units = fixed_rows(tables.values(entries, 2)[:, ::-1], pa.binary())
            pieces.texts(entries, to_utf8(units), short=False)
        elif kind == types.BYTES:
            pieces.sized(entries, BINARY, tables.binaries(entries))
        elif kind == types.BOOLEAN:
            pieces.heads[entries] = np.where(tables.values(entries, 1)[:, 0] != 0, _TRUE, _FALSE)
        else:
            pieces.heads[entries] = _NULL
    return pieces.joined()


class _Pieces:
    """Every value is two pieces behind each other, the second one often empty; all are taken from one array of pieces at the end."""

    __slots__ = ("_arrays", "_size", "bodies", "heads")

    def __init__(self, count: int) -> None:
        self._arrays = [pa.array(_LITERALS, pa.binary())]
        self._size = len(_LITERALS)
        self.heads = np.full(count, _EMPTY, np.int64)
        self.bodies = np.full(count, _EMPTY, np.int64)

    def add(self, array: pa.Array) -> Ints:
        """The places of the elements of ``array``."""
        places = self._size + np.arange(len(array))
        self._arrays.append(array)
        self._size += len(array)
        return places

    def texts(self, entries: Ints, values: pa.Array, *, short: bool) -> None:
        offsets, data = binary_parts(values)
        values = binary_array(offsets, data, pa.binary())
        sizes = np.diff(offsets)
        longer = sizes > (SHORT_STRING_SIZE_MAX if short else -1)
        self.bodies[entries] = self.add(values)
        self.heads[entries] = _SHORT_HEADS + np.where(longer, 0, sizes)
        self._sizes(entries[longer], LONG_STRING, sizes[longer])

    def sized(self, entries: Ints, head: int, values: pa.Array) -> None:
        self.bodies[entries] = self.add(values)
        self._sizes(entries, head, np.diff(binary_parts(values)[0]))

    def _sizes(self, entries: Ints, head: int, sizes: Ints) -> None:
        if len(entries):
            matrix = np.empty((len(entries), 5), np.uint8)
            matrix[:, 0] = head
            matrix[:, 1:] = sizes.astype("<u4").view(np.uint8).reshape(-1, 4)
            self.heads[entries] = self.add(fixed_rows(matrix, pa.binary()))

    def joined(self) -> pa.Array:
        count = len(self.heads)
        places = np.empty(2 * count, np.int64)
        places[0::2], places[1::2] = self.heads, self.bodies
        offsets, data = binary_parts(pa.concat_arrays(self._arrays).take(pa.array(places)))
        return binary_array(offsets[0::2], data, pa.binary())


def variant_map(tables: Tables, kind: pa.MapType, there: Mask) -> pa.Array:
    """The entries of each row as a map of the Arrow type ``kind``; null in rows that are not ``there``."""
    count = len(tables.kind)
    values = value_binaries(tables)
    metadata = binary_array(np.arange(count + 1, dtype=np.int64) * len(METADATA), METADATA * count, pa.binary())
    names = pa.array([name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") for name in tables.keys], pa.string())
    keys = names.take(pa.array(tables.key))
    item = kind.item_type
    parts = {"value": values, "metadata": metadata}
    items = pa.StructArray.from_arrays([parts[field.name] for field in item], fields=list(item))
    offsets = np.concatenate((np.zeros(1, np.int32), np.cumsum(tables.counts))).astype(np.int32)
    entry = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    bits = None if bool(there.all()) else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(kind, len(there), [bits, pa.py_buffer(offsets)], children=[entry])
