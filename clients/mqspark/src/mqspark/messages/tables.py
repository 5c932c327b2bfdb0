"""Property tables of many messages, walked together: the first entries of all, then the second ones, and so on.

A table is laid out as :mod:`mqclient.wire.properties` says; it holds the properties of a message or the body of a map message.  The walk
costs about twenty numpy operations for each place in the tables, however many messages there are.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqclient.errors import MalformedPacketError
from mqclient.wire import properties as types
from mqclient.wire.primitives import decode_utf_16
from mqspark.messages.ranges import Ints, Mask, Source, to_utf8

_TOGETHER_MIN: Final = 8
"""Tables: fewer are walked one by one, so that a message with thousands of entries does not cost thousands of vector operations."""

_UNKNOWN: Final = -2
_LENGTHS: Final = np.full(256, _UNKNOWN, np.int64)
"""Bytes of a value by type id; -1: its length stands before it."""
for _kind, _length in (
    (types.NULL, 0),
    (types.BOOLEAN, 1),
    (types.BYTE, 1),
    (types.SHORT, 2),
    (types.INT, 4),
    (types.LONG, 8),
    (types.FLOAT, 4),
    (types.DOUBLE, 8),
    (types.CHAR, 2),
    (types.STRING, -1),
    (types.BYTES, -1),
):
    _LENGTHS[_kind] = _length


class Tables:
    """The entries of the tables of ``count`` rows, row after row, in the order of the tables.

    ``row``, ``kind``, ``value_start`` and ``value_end`` (with the length of a string or byte string) are given for each entry, ``counts``
    for each row.  ``bad``: rows whose table is damaged; they have no entries.
    """

    __slots__ = ("_key_ends", "_key_starts", "_source", "bad", "counts", "key", "keys", "kind", "row", "value_end", "value_start")

    keys: list[str]
    """The different keys."""
    key: Ints
    """For each entry its place in ``keys``."""

    def __init__(self, source: Source, starts: Ints, ends: Ints, there: Mask) -> None:
        """Walk ``source`` from ``starts`` to at most ``ends`` in the rows that are ``there``."""
        self._source = source
        count = len(starts)
        self.bad = np.zeros(count, np.bool_)
        self.counts = np.zeros(count, np.int64)
        rows = self._open(np.flatnonzero(there), starts, ends)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.counts)))
        total = int(offsets[-1])
        self.row = np.repeat(np.arange(count), self.counts)
        self.kind, self.value_start, self.value_end = (np.zeros(total, np.int64) for _ in range(3))
        self._key_starts, self._key_ends = np.zeros(total, np.int64), np.zeros(total, np.int64)
        self._walk(rows, starts[rows] + 5, ends[rows], offsets[rows])
        if self.bad.any():
            self._keep(~self.bad[self.row])
            self.counts[self.bad] = 0
        self._name_keys()
        self._last_of_a_key_wins()

    def _open(self, rows: Ints, starts: Ints, ends: Ints) -> Ints:
        """Rows with entries; the number of entries is no greater than the bytes allow."""
        source, bad = self._source, self.bad
        bad[rows[starts[rows] >= ends[rows]]] = True
        rows = rows[~bad[rows]]
        rows = rows[source.u8(starts[rows]) != 0]
        bad[rows[starts[rows] + 5 > ends[rows]]] = True
        rows = rows[~bad[rows]]
        counts = source.i32(starts[rows] + 1)
        wrong = (counts < 0) | (counts * types.ENTRY_SIZE_MIN > ends[rows] - starts[rows] - 5)
        bad[rows[wrong]] = True
        rows, counts = rows[~wrong], counts[~wrong]
        self.counts[rows] = counts
        return rows[counts > 0]

    def _walk(self, rows: Ints, positions: Ints, limits: Ints, places: Ints) -> None:
        """``places``: where the entries of each row begin."""
        source = self._source
        left = self.counts[rows]
        while len(rows) >= _TOGETHER_MIN:
            fine = positions + 5 <= limits
            at = np.where(fine, positions, 0)
            sizes = source.i32(at)
            fine &= (sizes >= 0) & (sizes & 1 == 0) & (sizes <= limits - at - 5)
            ends = at + 4 + np.where(fine, sizes, 0)
            kinds = source.u8(ends)
            lengths = _LENGTHS[kinds]
            fine &= lengths != _UNKNOWN
            variable = fine & (lengths == -1)
            if variable.any():
                fine &= ~variable | (ends + 5 <= limits)
                found = source.i32(np.where(variable & fine, ends + 1, 0))
                fine &= ~variable | ((found >= 0) & ((found & 1 == 0) | (kinds != types.STRING)))
                lengths = np.where(variable, found + 4, lengths)
            after = ends + 1 + lengths
            fine &= after <= limits
            self._key_starts[places], self._key_ends[places] = at + 4, ends
            self.kind[places], self.value_start[places], self.value_end[places] = kinds, ends + 1, after
            self.bad[rows[~fine]] = True
            left -= 1
            going = fine & (left > 0)
            if going.all():
                positions, places = after, places + 1
            else:
                rows, positions, limits, places, left = rows[going], after[going], limits[going], places[going] + 1, left[going]
        data = source.bytes.data
        for row, position, limit, place, count in zip(*(each.tolist() for each in (rows, positions, limits, places, left)), strict=True):
            self._walk_one(data, row, position, limit, place, count)

    def _walk_one(self, data: memoryview, row: int, position: int, limit: int, place: int, count: int) -> None:
        """The rest of one table."""
        block = b"\x01" + count.to_bytes(4, "big") + data[position:limit].tobytes()
        shift = position - 5
        try:
            for key_start, key_end, kind, start, end in types.walk(block, 0, len(block)):
                self._key_starts[place], self._key_ends[place] = key_start + shift, key_end + shift
                self.kind[place], self.value_start[place], self.value_end[place] = kind, start + shift, end + shift
                place += 1
        except MalformedPacketError:
            self.bad[row] = True

    def _keep(self, kept: Mask) -> None:
        for name in ("row", "kind", "value_start", "value_end", "_key_starts", "_key_ends"):
            setattr(self, name, getattr(self, name)[kept])

    def _name_keys(self) -> None:
        found = self._source.ranges(self._key_starts, self._key_ends).dictionary_encode()
        self.keys = [decode_utf_16(raw) for raw in found.dictionary.to_pylist()]
        self.key = found.indices.to_numpy().astype(np.int64)

    def _last_of_a_key_wins(self) -> None:
        """As in a Java map, an entry replaces an earlier one with the same key, at its place."""
        if int(self.counts.max(initial=0)) < 2:
            return
        names = self.row * len(self.keys) + self.key
        if len(self.keys) <= 31 and len(names):
            begins = np.cumsum(self.counts) - self.counts
            begins = begins[self.counts > 0]
            bits = np.int64(1) << self.key
            if bool((np.add.reduceat(bits, begins) == np.bitwise_or.reduceat(bits, begins)).all()):
                return
        _, firsts, places = np.unique(names, return_index=True, return_inverse=True)
        if len(firsts) == len(names):
            return
        lasts = np.zeros(len(firsts), np.int64)
        np.maximum.at(lasts, places, np.arange(len(names)))
        for name in ("kind", "value_start", "value_end"):
            getattr(self, name)[firsts] = getattr(self, name)[lasts]
        kept = np.zeros(len(names), np.bool_)
        kept[firsts] = True
        self._keep(kept)
        self.key = self.key[kept]
        self.counts = np.bincount(self.row, minlength=len(self.counts)).astype(np.int64)

    def named(self, name: str) -> Ints:
        """The entries with this key."""
        try:
            return np.flatnonzero(self.key == self.keys.index(name))
        except ValueError:
            return np.zeros(0, np.int64)

    def texts(self, entries: Ints) -> pa.Array:
        """The values of entries that are strings."""
        return to_utf8(self.binaries(entries))

    def binaries(self, entries: Ints) -> pa.Array:
        """The values of entries that are byte strings; of strings their UTF-16LE."""
        return self._source.ranges(self.value_start[entries] + 4, self.value_end[entries])

    def values(self, entries: Ints, width: int) -> npt.NDArray[np.uint8]:
        """The values of entries with ``width`` bytes each, a row for each."""
        return self._source.matrix(self.value_start[entries], width)
