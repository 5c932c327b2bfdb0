"""Rows to messages: what is decoded again is what the row said."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from mqclient.wire.bodies import decode_map, decode_text
from mqclient.wire.message import TYPE_BYTES, TYPE_DEFAULT, TYPE_MAP, TYPE_TEXT, CoreMessage, decode_message
from mqclient.wire.properties import BOOLEAN, BYTE, BYTES, DOUBLE, FLOAT, INT, LONG, NULL, SHORT, STRING

try:
    import pyarrow as pa

    from mqspark.errors import SchemaError
    from mqspark.messages.rows import SLICE_ROWS_MAX, RowEncoder, RowSettings
except ImportError:
    pa = None

NOW = 1_700_000_000_000
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=6)


class RowsTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        if pa is None:
            raise SkipTest("pyarrow is not installed")

    def encoded(self, columns: dict[str, Any], first: int = 0, **chosen: Any) -> list[CoreMessage]:
        """The rows as messages that were decoded again."""
        batch = pa.record_batch(columns)
        chosen.setdefault("address", None if "address" in columns else "orders")
        encoder = RowEncoder(batch.schema, RowSettings(**chosen))
        found = encoder.encode(batch, first, NOW)
        messages = [decode_message(message) for message in found.messages]
        self.assertEqual(len(messages), batch.num_rows)
        if found.addresses is not None:
            self.assertEqual(found.addresses, [message.address for message in messages])
        return messages

    def refused(self, columns: dict[str, Any], **chosen: Any) -> str:
        with self.assertRaises(SchemaError) as caught:
            self.encoded(columns, **chosen)
        return str(caught.exception)


class BodyTests(RowsTestCase):
    @given(st.lists(st.none() | TEXTS, min_size=1, max_size=20), st.integers(0, 5), st.booleans())
    @settings(max_examples=60, deadline=None)
    def test_texts(self, texts: list[str | None], cut: int, large: bool) -> None:
        """Also of a slice, and of the type with long offsets."""
        column = pa.array(texts, pa.large_string() if large else pa.string()).slice(min(cut, len(texts) - 1))
        messages = self.encoded({"text": column})
        self.assertEqual([decode_text(message.body) for message in messages], column.to_pylist())
        self.assertEqual({message.type for message in messages}, {TYPE_TEXT})

    @given(st.lists(st.none() | st.binary(max_size=20), min_size=1, max_size=10))
    @settings(max_examples=30, deadline=None)
    def test_bytes(self, bodies: list[bytes | None]) -> None:
        messages = self.encoded({"body": pa.array(bodies, pa.binary())})
        self.assertEqual([message.body for message in messages], [body or b"" for body in bodies])
        self.assertEqual({message.type for message in messages}, {TYPE_BYTES})

    def test_a_body_of_text_makes_a_text_message(self) -> None:
        (message,) = self.encoded({"body": pa.array(["a"])})
        self.assertEqual((message.type, decode_text(message.body)), (TYPE_TEXT, "a"))

    @given(st.lists(st.dictionaries(NAMES, st.none() | st.integers(-(2**63), 2**63 - 1), max_size=4), min_size=1, max_size=8))
    @settings(max_examples=40, deadline=None)
    def test_maps(self, maps: list[dict[str, int | None]]) -> None:
        column = pa.array([list(each.items()) for each in maps], pa.map_(pa.string(), pa.int64()))
        messages = self.encoded({"map_body": column})
        expected = [{name: (NULL, None) if value is None else (LONG, value) for name, value in each.items()} for each in maps]
        self.assertEqual([decode_map(message.body) for message in messages], expected)
        self.assertEqual({message.type for message in messages}, {TYPE_MAP})

    def test_no_body(self) -> None:
        (message,) = self.encoded({"group_id": pa.array(["g"])})
        self.assertEqual((message.type, message.body), (TYPE_DEFAULT, b""))

    def test_of_several_columns_the_first_that_is_not_null_counts(self) -> None:
        text, body = pa.array(["a", None, None]), pa.array([b"x", b"y", None], pa.binary())
        messages = self.encoded({"text": text, "body": body})
        self.assertEqual([message.type for message in messages], [TYPE_TEXT, TYPE_BYTES, TYPE_DEFAULT])
        self.assertEqual([decode_text(messages[0].body), messages[1].body, messages[2].body], ["a", b"y", b""])

    def test_the_type_chooses_the_column(self) -> None:
        columns = {
            "type": pa.array(["bytes", "text", "text", "stream"]),
            "text": pa.array(["a", "b", None, None]),
            "body": pa.array([b"x", b"y", None, b"\x0a\x00"], pa.binary()),
        }
        messages = self.encoded(columns)
        self.assertEqual([message.type for message in messages], [TYPE_BYTES, TYPE_TEXT, TYPE_TEXT, 6])
        self.assertEqual([messages[0].body, decode_text(messages[1].body), decode_text(messages[2].body)], [b"x", "b", None])
        self.assertEqual(messages[3].body, b"\x0a\x00")

    def test_a_text_as_the_body_of_a_bytes_message_is_utf_8(self) -> None:
        """What was read with ``bodyFormat=text`` is written as it was."""
        kinds = ["bytes", "text", "default", "bytes", "text"]
        columns = {"type": pa.array(kinds), "body": pa.array(["ä€", "ä€", "x", None, None])}
        messages = self.encoded(columns)
        self.assertEqual([message.type for message in messages], [TYPE_BYTES, TYPE_TEXT, TYPE_DEFAULT, TYPE_BYTES, TYPE_TEXT])
        self.assertEqual([messages[0].body, messages[2].body, messages[3].body], ["ä€".encode(), b"x", b""])
        self.assertEqual([decode_text(messages[1].body), decode_text(messages[4].body)], ["ä€", None])

    def test_unknown_type(self) -> None:
        self.assertIn("'txt', expected one of default", self.refused({"type": pa.array(["text", "txt"]), "text": pa.array(["a", "b"])}))
        self.assertIn("type int64, expected a string", self.refused({"type": pa.array([99])}))
        self.assertEqual([message.type for message in self.encoded({"type": pa.array(["99", "embedded"])})], [99, 7])


class PropertyTests(RowsTestCase):
    @given(st.lists(st.none() | st.dictionaries(NAMES, st.none() | TEXTS, max_size=4), min_size=1, max_size=8), st.integers(0, 3))
    @settings(max_examples=60, deadline=None)
    def test_a_map_of_texts(self, maps: list[dict[str, str | None] | None], cut: int) -> None:
        items = [None if each is None else list(each.items()) for each in maps]
        column = pa.array(items, pa.map_(pa.string(), pa.string())).slice(min(cut, len(maps) - 1))
        messages = self.encoded({"properties": column})
        expected = [
            {name: (NULL, None) if value is None else (STRING, value) for name, value in (each or {}).items()}
            for each in maps[min(cut, len(maps) - 1) :]
        ]
        self.assertEqual([message.properties for message in messages], expected)

    def test_types_of_columns(self) -> None:
        columns = {
            "flag": pa.array([True, False]),
            "tiny": pa.array([-128, 1], pa.int8()),
            "short": pa.array([1, None], pa.int16()),
            "int": pa.array([1, 2], pa.int32()),
            "long": pa.array([2**62, 2], pa.int64()),
            "float": pa.array([0.5, 1], pa.float32()),
            "double": pa.array([0.25, None], pa.float64()),
            "raw": pa.array([b"x", b""], pa.binary()),
            "name": pa.array(["ä", ""]),
        }
        first, second = self.encoded(columns, extra_properties=True)
        self.assertEqual(
            first.properties,
            {
                "flag": (BOOLEAN, True),
                "tiny": (BYTE, -128),
                "short": (SHORT, 1),
                "int": (INT, 1),
                "long": (LONG, 2**62),
                "float": (FLOAT, 0.5),
                "double": (DOUBLE, 0.25),
                "raw": (BYTES, b"x"),
                "name": (STRING, "ä"),
            },
        )
        self.assertEqual(set(columns) - set(second.properties), {"short", "double"})

    def test_a_map_cannot_set_what_columns_and_the_sink_set(self) -> None:
        pairs = [("_AMQ_DUPL_ID", "x"), ("_AMQ_GROUP_ID", "y"), ("a", "z"), ("_AMQ_ROUTING_TYPE", "1")]
        column = pa.array([pairs, [], pairs[2:]], pa.map_(pa.string(), pa.string()))
        messages = self.encoded({"properties": column, "group_id": pa.array(["g", "g", None])}, id_prefix="q/", routing_type=0)
        group = {"_AMQ_ROUTING_TYPE": (BYTE, 0), "_AMQ_GROUP_ID": (STRING, "g")}
        self.assertEqual(messages[0].properties, {**group, "a": (STRING, "z"), "_AMQ_DUPL_ID": (STRING, "q/0")})
        self.assertEqual(messages[1].properties, {**group, "_AMQ_DUPL_ID": (STRING, "q/1")})
        self.assertEqual(messages[2].properties, {"_AMQ_ROUTING_TYPE": (BYTE, 0), "a": (STRING, "z"), "_AMQ_DUPL_ID": (STRING, "q/2")})

    def test_a_correlation_id_in_bytes_is_written_as_it_was_read(self) -> None:
        """The source has it among the properties alone, since the column has texts only."""
        kind = pa.map_(pa.string(), pa.binary())
        column = pa.array([[("JMSCorrelationID", b"\x01")], [("JMSCorrelationID", b"\x02")], [("a", b"")], None], kind)
        columns = {"correlation_id": pa.array([None, "c", None, None], pa.string()), "properties": column}
        first, second, third, fourth = self.encoded(columns)
        self.assertEqual(first.properties, {"JMSCorrelationID": (BYTES, b"\x01")})
        self.assertEqual(second.properties, {"JMSCorrelationID": (STRING, "c")})
        self.assertEqual((third.properties, fourth.properties), ({"a": (BYTES, b"")}, {}))

    def test_a_correlation_id_that_was_taken_out_does_not_come_back(self) -> None:
        column = pa.array([[("JMSCorrelationID", "c")]], pa.map_(pa.string(), pa.string()))
        (message,) = self.encoded({"correlation_id": pa.array([None], pa.string()), "properties": column})
        self.assertEqual(message.properties, {})

    def test_a_struct(self) -> None:
        kind = pa.struct([("price", pa.float64()), ("name", pa.string()), ("_AMQ_DUPL_ID", pa.string())])
        column = pa.array([{"price": 1.5, "name": "x", "_AMQ_DUPL_ID": "y"}, {"price": None, "name": "z"}, None], kind)
        first, second, third = self.encoded({"properties": column}, id_prefix="q/")
        self.assertEqual(first.properties, {"price": (DOUBLE, 1.5), "name": (STRING, "x"), "_AMQ_DUPL_ID": (STRING, "q/0")})
        self.assertEqual(set(second.properties), {"name", "_AMQ_DUPL_ID"})
        self.assertEqual(set(third.properties), {"_AMQ_DUPL_ID"})
        self.assertIn("expected a map", self.refused({"properties": pa.array([{"day": None}], pa.struct([("day", pa.date32())]))}))

    def test_ids_are_numbers_of_rows(self) -> None:
        for first in (0, 95, 999_990):
            messages = self.encoded({"text": pa.array(["a"] * 12)}, first=first, id_prefix="q/7/0/")
            expected = [(STRING, f"q/7/0/{row}") for row in range(first, first + 12)]
            self.assertEqual([message.properties["_AMQ_DUPL_ID"] for message in messages], expected)

    def test_an_id_column_wins(self) -> None:
        columns = {"duplicate_id": pa.array(["mine", None])}
        self.assertEqual(
            [message.properties for message in self.encoded(columns, id_prefix="q/")],
            [{"_AMQ_DUPL_ID": (STRING, "mine")}, {"_AMQ_DUPL_ID": (STRING, "q/1")}],
        )
        self.assertEqual([message.properties for message in self.encoded(columns)], [{"_AMQ_DUPL_ID": (STRING, "mine")}, {}])


class SchemaTests(RowsTestCase):
    def test_unknown_columns(self) -> None:
        self.assertIn("column Prioritty is not known; did you mean priority?", self.refused({"Prioritty": pa.array([1])}))
        self.assertIn("column colour is not known; there are: address,", self.refused({"colour": pa.array([1])}))
        self.assertIn("no property can hold", self.refused({"day": pa.array([1], pa.date32())}, extra_properties=True))

    def test_columns_of_the_sources_that_the_broker_gives_are_passed_over(self) -> None:
        columns = {"message_id": pa.array([1]), "node_id": pa.array(["n"]), "delivery_count": pa.array([1]), "text": pa.array(["a"])}
        (message,) = self.encoded(columns, extra_properties=True)
        self.assertEqual((message.message_id, message.properties), (0, {}))

    def test_types_that_do_not_fit(self) -> None:
        self.assertIn("column text has the type int64, expected a string", self.refused({"text": pa.array([1])}))
        self.assertIn("column TEXT has the type int64", self.refused({"TEXT": pa.array([1])}))
        self.assertIn("expected a map", self.refused({"properties": pa.array(["a"])}))
        self.assertIn("two columns", self.refused({"text": pa.array(["a"]), "Text": pa.array(["a"])}))

    def test_no_address(self) -> None:
        self.assertIn("nothing says where messages go", self.refused({"text": pa.array(["a"])}, address=None))


class SliceTests(RowsTestCase):
    def test_many_rows_and_great_ones_are_cut(self) -> None:
        small = pa.record_batch({"text": pa.array(["a"] * (2 * SLICE_ROWS_MAX + 1))})
        encoder = RowEncoder(small.schema, RowSettings(address="a"))
        self.assertEqual([part.num_rows for part in encoder.slices(small)], [SLICE_ROWS_MAX, SLICE_ROWS_MAX, 1])
        great = pa.record_batch({"text": pa.array(["a" * 3_000_000] * 3)})
        self.assertEqual([part.num_rows for part in encoder.slices(great)], [1, 1, 1])
        self.assertEqual(list(encoder.slices(small.slice(0, 0))), [])

    def test_quick_enough(self) -> None:
        """A row of three columns takes about 1.4 microseconds: work per cell in Python would take ten times as long."""
        count = 1000
        batch = pa.record_batch({"text": ["x" * 100] * count, "group_id": ["g"] * count, "priority": pa.array([3] * count, pa.int32())})
        encoder = RowEncoder(batch.schema, RowSettings(address="orders", id_prefix="q/1/2/"))
        best = 9.0
        for _ in range(30):
            began = time.process_time()
            encoder.encode(batch, 0, NOW)
            best = min(best, time.process_time() - began)
        self.assertLess(best / count, 20e-6)
