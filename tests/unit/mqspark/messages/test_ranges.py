"""Numbers and ranges at many places of one buffer."""

from __future__ import annotations

import importlib.util
import itertools
import struct
import unittest

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyarrow") is None:
    raise unittest.SkipTest("pyarrow is not installed")

import numpy as np
import pyarrow as pa

from mqspark.messages.ranges import Source, binary_parts, fixed_rows, spread, string_array, to_utf8


def at(*places: int) -> np.ndarray:
    return np.array(places, np.int64)


class SourceTests(SynchronousTestCase):
    def test_numbers_are_read_at_any_place_big_endian_and_with_their_sign(self) -> None:
        source = Source(b"x" + struct.pack(">iqB", -5, -(2**40), 200))
        self.assertEqual(source.i32(at(1)).tolist(), [-5])
        self.assertEqual(source.i64(at(5)).tolist(), [-(2**40)])
        self.assertEqual(source.u8(at(13, 0)).tolist(), [200, ord("x")])

    def test_a_number_behind_the_buffer_is_an_error(self) -> None:
        with self.assertRaises(IndexError):
            Source(bytes(100)).i32(at(97))

    @given(st.lists(st.binary(max_size=5), max_size=20), st.randoms(use_true_random=False))
    def test_ranges_in_any_order_and_with_nulls_are_the_pieces_of_the_buffer(self, pieces: list[bytes], random: object) -> None:
        ends = np.cumsum([len(piece) + 1 for piece in pieces]).astype(np.int64)
        starts = ends - np.array([len(piece) for piece in pieces], np.int64)
        order = list(range(len(pieces)))
        random.shuffle(order)  # type: ignore[attr-defined]
        valid = np.array([random.random() < 0.7 for _ in order], np.bool_)  # type: ignore[attr-defined]
        found = Source(b"".join(b"," + piece for piece in pieces)).ranges(starts[order], ends[order], valid)
        self.assertEqual(found.to_pylist(), [pieces[each] if kept else None for each, kept in zip(order, valid, strict=True)])

    def test_rows_of_a_matrix_become_fixed_texts(self) -> None:
        matrix = Source(b"abcdef").matrix(at(0, 3), 2)
        self.assertEqual(fixed_rows(matrix, pa.string()).to_pylist(), ["ab", "de"])


class ArrayTests(SynchronousTestCase):
    @given(st.lists(st.one_of(st.none(), st.text(max_size=6)), max_size=8))
    def test_utf_16_becomes_utf_8_and_nulls_stay(self, texts: list[str | None]) -> None:
        column = pa.array([None if text is None else text.encode("utf-16-le") for text in texts], pa.binary())
        self.assertEqual(to_utf8(column).to_pylist(), texts)

    def test_half_of_a_surrogate_pair_costs_only_itself(self) -> None:
        halves = [b"\x3d\xd8", b"a\x00\x3d\xd8", b"\x00\xde", "ok".encode("utf-16-le")]
        self.assertEqual(to_utf8(pa.array(halves, pa.binary())).to_pylist(), ["\ufffd", "a\ufffd", "\ufffd", "ok"])

    def test_rows_are_spread_and_the_others_are_null(self) -> None:
        self.assertEqual(spread(pa.array(["b", "a"]), at(3, 1), 5).to_pylist(), [None, "a", None, "b", None])
        self.assertEqual(spread(pa.array(["b", "a"]), at(1, 0), 2).to_pylist(), ["a", "b"])

    def test_parts_of_a_slice_are_those_of_the_slice(self) -> None:
        offsets, data = binary_parts(string_array(["a", "bcd", "", "ef"])[1:])
        self.assertEqual([bytes(data[start:end]) for start, end in itertools.pairwise(offsets)], [b"bcd", b"", b"ef"])
