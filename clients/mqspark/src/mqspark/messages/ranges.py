"""Many pieces of one buffer at once: numbers at many places, and byte ranges as Arrow arrays, without a Python object for each.

A *range* is a pair of offsets in a buffer.  Ranges of one call do not overlap.
"""

from __future__ import annotations

import itertools
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_SIZE_MIN: Final = 64
"""Bytes: a smaller buffer is filled up with zeros, so that a number can always be read at its first byte."""
_ARROW_BYTES_MAX: Final = 2**31 - 1
"""Bytes: the offsets of Spark's Arrow columns have 32 bits."""


class Source:
    """A buffer from which numbers (big endian) and ranges are read.

    The caller has compared positions with the end; a number beyond the buffer raises IndexError.
    """

    __slots__ = ("_i32", "_i64", "bytes", "size")

    def __init__(self, buffer: bytes | bytearray | memoryview) -> None:
        self.bytes = np.frombuffer(buffer, np.uint8)
        self.size = len(self.bytes)
        if self.size > _ARROW_BYTES_MAX:
            raise ValueError(f"{self.size} bytes in one batch; Spark takes {_ARROW_BYTES_MAX}")
        if self.size < _SIZE_MIN:
            self.bytes = np.concatenate((self.bytes, np.zeros(_SIZE_MIN, np.uint8)))
        count = len(self.bytes)
        # One number begins at every byte: the views overlap, and reading at many places is a single operation.
        self._i32 = np.ndarray((count - 3,), ">i4", self.bytes.data, 0, (1,))
        self._i64 = np.ndarray((count - 7,), ">i8", self.bytes.data, 0, (1,))

    def u8(self, at: Ints) -> Ints:
        return self.bytes[at].astype(np.int64)

    def i32(self, at: Ints) -> Ints:
        return self._i32[at].astype(np.int64)

    def i64(self, at: Ints) -> Ints:
        return self._i64[at].astype(np.int64)

    def matrix(self, at: Ints, width: int) -> npt.NDArray[np.uint8]:
        """``width`` bytes from each place, one row each."""
        taken: npt.NDArray[np.uint8] = self.bytes[at[:, None] + np.arange(width)]
        return taken

    def ranges(self, starts: Ints, ends: Ints, valid: Mask | None = None) -> pa.Array:
        """The ranges as a binary array; null where not ``valid``."""
        used = starts if valid is None else starts[valid]
        if len(used) < 2 or bool((used[:-1] <= used[1:]).all()):
            return self._ascending(starts, ends, valid)
        if valid is not None:
            starts, ends = np.where(valid, starts, 0), np.where(valid, ends, 0)
        order = np.lexsort((ends, starts))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return with_validity(self._ascending(starts[order], ends[order], None).take(pa.array(places)), valid)

    def _ascending(self, starts: Ints, ends: Ints, valid: Mask | None) -> pa.Array:
        count = len(starts)
        if not count:
            return pa.array([], pa.binary())
        if valid is not None:
            # An invalid range becomes an empty one at the end of the range before.
            ends = np.maximum.accumulate(np.where(valid, ends, 0))
            starts = np.where(valid, starts, ends)
        offsets = np.empty(2 * count, np.int32)
        offsets[0::2] = starts
        offsets[1::2] = ends
        # Ranges and the gaps between them, in turn; Arrow joins the chosen ones.
        both = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(self.bytes)])
        return with_validity(both.take(pa.array(np.arange(0, 2 * count, 2))), valid)


def with_validity(array: pa.Array, valid: Mask | None) -> pa.Array:
    """``array``, which begins at its buffers' begin, with nulls where not ``valid``."""
    if valid is None or bool(valid.all()):
        return array
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(array.type, len(array), [bits, *array.buffers()[1:]])


def binary_parts(array: pa.Array) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """(offsets, bytes) of a binary or string array."""
    _, offsets, data = array.buffers()
    found = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return found, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


def binary_array(offsets: Ints, data: npt.NDArray[np.uint8] | bytes, kind: pa.DataType, like: pa.Array | None = None) -> pa.Array:
    """A binary or string array of these parts; null where ``like`` is."""
    bits = None
    if like is not None and like.null_count:
        bits = pa.py_buffer(np.packbits(like.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    return pa.Array.from_buffers(kind, len(offsets) - 1, [bits, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)])


def string_array(texts: list[str]) -> pa.Array:
    """A string array, made without ``pyarrow.array``, whose first call imports pandas: too much for a process that only plans."""
    raw = [text.encode() for text in texts]
    return binary_array(np.cumsum([0, *map(len, raw)]).astype(np.int64), b"".join(raw), pa.string())


def fixed_rows(matrix: npt.NDArray[np.uint8], kind: pa.DataType) -> pa.Array:
    """The rows of a matrix of bytes as an array of binaries or strings."""
    count, width = matrix.shape
    return binary_array(np.arange(count + 1, dtype=np.int64) * width, np.ascontiguousarray(matrix).reshape(-1), kind)


def spread(array: pa.Array, rows: Ints, count: int) -> pa.Array:
    """An array of ``count`` with ``array[k]`` at ``rows[k]`` and null elsewhere."""
    if len(rows) == count:
        return array if len(rows) < 2 or bool((np.diff(rows) > 0).all()) else array.take(pa.array(np.argsort(rows)))
    places = np.zeros(count, np.int64)
    missing = np.ones(count, np.bool_)
    places[rows] = np.arange(len(rows))
    missing[rows] = False
    return array.take(pa.array(places, mask=missing))


def to_utf8(utf_16: pa.Array) -> pa.Array:
    """A binary array of UTF-16LE texts as strings.  Half of a surrogate pair that stands alone becomes U+FFFD: UTF-8 has no form for it."""
    count = len(utf_16)
    offsets, data = binary_parts(utf_16)
    data = data[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    if not len(data):
        return binary_array(np.zeros(count + 1, np.int64), b"", pa.string(), utf_16)
    units = np.ascontiguousarray(data).view("<u2")
    if int(units.max()) < 0x80:
        return binary_array(offsets >> 1, units.astype(np.uint8), pa.string(), utf_16)
    lasts = (offsets[1:] >> 1)[np.diff(offsets) > 0] - 1
    if bool(((units[lasts] & 0xFC00) == 0xD800).any()):
        return _to_utf8_one_by_one(offsets, data, utf_16)
    try:
        text = data.tobytes().decode("utf-16-le").encode()
    except UnicodeDecodeError:
        return _to_utf8_one_by_one(offsets, data, utf_16)
    widths = 1 + (units >= 0x80) + (units >= 0x800)
    widths[(units & 0xF800) == 0xD800] = 2
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(widths)))
    return binary_array(ends[offsets >> 1], text, pa.string(), utf_16)


def _to_utf8_one_by_one(offsets: Ints, data: npt.NDArray[np.uint8], like: pa.Array) -> pa.Array:
    raw = data.tobytes()
    places = offsets.tolist()
    texts = [raw[start:end].decode("utf-16-le", "replace").encode() for start, end in itertools.pairwise(places)]
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    return binary_array(np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))), b"".join(texts), pa.string(), like)
