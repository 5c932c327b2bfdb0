"""Columns as pieces of encoded messages: what is read again is what stood in the cell."""

from __future__ import annotations

import importlib.util
import unittest
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

import pyarrow as pa

from mqclient.wire.properties import BOOLEAN, BYTES, DOUBLE, INT, LONG, NULL, STRING, TypedValue, decode_properties
from mqspark.errors import SchemaError
from mqspark.messages.cells import can_be_value, entries, head, ids, key, map_entries, values, wide_texts


def properties_of(block: bytes) -> dict[str, TypedValue]:
    return decode_properties(block, 0, len(block))[0]


def read(pieces: list[bytes]) -> list[TypedValue]:
    return [properties_of(head(1) + key("k") + piece)["k"] for piece in pieces]


class ValueTests(SynchronousTestCase):
    def test_each_type_and_null(self) -> None:
        for kind, type_id, value in (
            (pa.int32(), INT, -5),
            (pa.int64(), LONG, 2**40),
            (pa.float64(), DOUBLE, 1.5),
            (pa.bool_(), BOOLEAN, True),
            (pa.string(), STRING, "ä€"),
            (pa.large_string(), STRING, "a"),
            (pa.binary(), BYTES, b"\x00\xff"),
        ):
            self.assertEqual(read(values(pa.array([value, None], kind), "c")), [(type_id, value), (NULL, None)])
            self.assertTrue(can_be_value(kind))

    def test_a_type_that_no_property_has_is_refused_with_the_name_of_its_column(self) -> None:
        column = pa.array([[1]], pa.list_(pa.int32()))
        self.assertFalse(can_be_value(column.type))
        self.assertIn("the column c has the type list", str(self.assertRaises(SchemaError, values, column, "c")))

    @given(st.lists(st.one_of(st.none(), st.text(max_size=8)), max_size=8), st.integers(0, 3))
    def test_texts_are_utf_16_also_in_a_slice(self, texts: list[str | None], start: int) -> None:
        column = pa.array(texts, pa.string())[start:]
        self.assertEqual(wide_texts(column), [(text or "").encode("utf-16-le") for text in texts[start:]])


class EntryTests(SynchronousTestCase):
    def block(self, pieces: Any, counts: Any) -> list[dict[str, TypedValue]]:
        return [properties_of(head(count) + piece) for piece, count in zip(pieces, counts.tolist(), strict=True)]

    def test_a_row_without_a_value_has_no_property(self) -> None:
        column = pa.array(["a", None])
        self.assertEqual(self.block(*entries(column, "c", key("c"))), [{"c": (STRING, "a")}, {}])

    def test_maps_become_properties_but_for_reserved_names(self) -> None:
        kind = pa.map_(pa.string(), pa.int32())
        column = pa.array([[("a", 1), ("no", 2), ("b", 3)], None, [], [("no", 1)]], kind)
        found = self.block(*map_entries(column, "c", frozenset({"no"})))
        self.assertEqual(found, [{"a": (INT, 1), "b": (INT, 3)}, {}, {}, {}])
        self.assertEqual(self.block(*map_entries(column[2:], "c", frozenset())), [{}, {"no": (INT, 1)}])

    def test_ids_count_on_over_numbers_of_more_digits(self) -> None:
        self.assertEqual([text for _, text in read(ids("p", 8, 95))], [f"p{row}" for row in range(8, 103)])
