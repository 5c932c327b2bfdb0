"""Blocks become batches: what a column holds is what the message says when it is decoded alone."""

from __future__ import annotations

import importlib.util
import unittest
import zlib
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
    VariantVal,
)

from mqclient.wire import bodies
from mqclient.wire import message as wire
from mqclient.wire import properties as types
from mqclient.wire.message import CoreMessage, encode_headers, encode_message
from mqclient.wire.properties import TypedValue
from mqspark.columns import COLUMNS
from mqspark.errors import MessageFormatError
from mqspark.messages.blocks import BlockConverter
from tests.unit.mqspark.blocks import block_of

SPARK: dict[str, DataType] = {
    "bigint": LongType(),
    "string": StringType(),
    "timestamp": TimestampType(),
    "int": IntegerType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    "map<string,variant>": MapType(StringType(), VariantType()),
}


def schema_of(*names: str) -> StructType:
    schema = StructType()
    for column in COLUMNS:
        if not names or column.name in names:
            schema.add(column.name, SPARK[column.type])
    return schema


def no_fetch(message_id: int, size: int) -> bytes:
    raise AssertionError("nothing is to be fetched")


def converter(
    schema: StructType | None = None, fail_fast: bool = False, body_format: str = "binary", fetch: Any = no_fetch
) -> BlockConverter:
    return BlockConverter(
        schema or schema_of(), body_format=body_format, fail_fast=fail_fast, queue="orders", node_id="node-1", fetch=fetch
    )


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def convert(encoded: list[bytes], large: list[bool] | None = None, **chosen: Any) -> list[dict[str, Any]]:
    return rows_of(list(converter(**chosen).batches(block_of(encoded, large))))


def typed_of(raw: dict[str, bytes]) -> TypedValue:
    """What a variant says, by its first byte; the two of a string of one character are told apart as the manual says."""
    data = raw["value"]
    value = VariantVal(data, raw["metadata"]).toPython()
    kind = {0: types.NULL, 4: types.BOOLEAN, 8: types.BOOLEAN, 12: types.BYTE, 16: types.SHORT, 20: types.INT, 24: types.LONG}.get(data[0])
    kind = kind if kind is not None else {28: types.DOUBLE, 56: types.FLOAT, 60: types.BYTES}.get(data[0])
    if kind is None:
        short = data[0] & 3 == 1
        kind = types.STRING if short or len(data) - 5 > 63 else types.CHAR
    return kind, value


class ShapeTests(SynchronousTestCase):
    def test_only_wanted_columns_are_made_in_the_order_of_the_schema(self) -> None:
        schema = StructType().add("body", BinaryType()).add("message_id", LongType())
        (row,) = convert([encode_message(CoreMessage(body=b"abc"))], schema=schema)
        self.assertEqual(list(row.items()), [("body", b"abc"), ("message_id", 1001)])

    def test_what_no_wanted_column_needs_is_not_looked_at(self) -> None:
        """A damaged property table does no harm to a query for the bodies, even when it is to fail."""
        damaged = encode_message(CoreMessage(body=b"abc"))[:-1] + b"\x01\xff"
        self.assertEqual(convert([damaged], schema=schema_of("body"), fail_fast=True), [{"body": b"abc"}])

    def test_no_messages(self) -> None:
        (batch,) = converter().batches(block_of([]))
        self.assertEqual(batch.num_rows, 0)


class BodyTests(SynchronousTestCase):
    def test_large_and_compressed_bodies(self) -> None:
        plain = b"0123456789" * 1000
        compressed: dict[str, TypedValue] = {wire.KEY_LARGE_COMPRESSED: (types.BOOLEAN, True)}
        stored = {1002: plain, 1003: zlib.compress(plain)}
        fetched: list[tuple[int, int]] = []

        def fetch(message_id: int, size: int) -> bytes:
            fetched.append((message_id, size))
            return stored[message_id]

        def large(body: bytes, properties: dict[str, TypedValue]) -> bytes:
            return len(body).to_bytes(8, "big") + encode_headers(CoreMessage(type=wire.TYPE_BYTES, properties=properties))

        encoded = [
            encode_message(CoreMessage(body=b"small")),
            large(plain, {}),
            large(stored[1003], compressed),
            encode_message(CoreMessage(body=zlib.compress(b"not so large"), properties=compressed)),
            encode_message(CoreMessage(body=b"last", properties={wire.KEY_LARGE_COMPRESSED: (types.BOOLEAN, False)})),
        ]
        found = convert(encoded, [False, True, True, False, False], fetch=fetch)
        self.assertEqual([row["body"] for row in found], [b"small", plain, plain, b"not so large", b"last"])
        self.assertEqual(fetched, [(1002, len(plain)), (1003, len(stored[1003]))])
        self.assertEqual([row["type"] for row in found], ["default", "bytes", "bytes", "default", "default"])
        without = convert(encoded, [False, True, True, False, False], schema=schema_of("message_id", "type"))
        self.assertEqual([row["type"] for row in without], ["default", "bytes", "bytes", "default", "default"])

    def test_many_large_bodies_are_not_in_memory_together(self) -> None:
        size = 40 << 20
        encoded = [size.to_bytes(8, "big") + encode_headers(CoreMessage())] * 4
        made = converter(schema_of("message_id", "body"), fetch=lambda message_id, size: b"x")
        found = [batch.num_rows for batch in made.batches(block_of(encoded, [True] * 4))]
        self.assertEqual(sum(found), 4)
        self.assertGreater(len(found), 1)

    def test_a_body_that_no_batch_can_hold_is_refused_and_not_fetched(self) -> None:
        encoded = [(3 << 30).to_bytes(8, "big") + encode_headers(CoreMessage())]
        with self.assertRaisesRegex(MessageFormatError, "message 1001 of queue orders"):
            convert(encoded, [True], schema=schema_of("body"))

    def test_a_compressed_body_that_cannot_be_read(self) -> None:
        encoded = [encode_message(CoreMessage(body=b"junk", properties={wire.KEY_LARGE_COMPRESSED: (types.BOOLEAN, True)}))]
        self.assertEqual(convert(encoded, schema=schema_of("body")), [{"body": None}])
        with self.assertRaisesRegex(MessageFormatError, "its body is not"):
            convert(encoded, schema=schema_of("body"), fail_fast=True)

    def test_an_unknown_type_is_a_row_with_its_number_or_an_error(self) -> None:
        encoded = [encode_message(CoreMessage(type=42, body=b"abc"))]
        (row,) = convert(encoded)
        self.assertEqual((row["type"], row["body"], row["text"]), ("42", b"abc", None))
        with self.assertRaisesRegex(MessageFormatError, "its type is 42, which is unknown"):
            convert(encoded, fail_fast=True)


class FormatCase(SynchronousTestCase):
    def encoded(self, *texts: str | bytes) -> list[bytes]:
        return [
            encode_message(
                CoreMessage(type=wire.TYPE_BYTES, body=text)
                if isinstance(text, bytes)
                else CoreMessage(type=wire.TYPE_TEXT, body=bodies.encode_text(text))
            )
            for text in texts
        ]

    def json_schema(self) -> StructType:
        order = StructType().add("id", LongType()).add("name", StringType())
        return StructType().add("message_id", LongType()).add("body", order).add("_corrupt_record", StringType())


class FormatTests(FormatCase):
    def test_text(self) -> None:
        schema = StructType().add("body", StringType())
        encoded = [*self.encoded("é", "é".encode(), b"\xff", ""), encode_message(CoreMessage(type=wire.TYPE_OBJECT, body=b"xx"))]
        self.assertEqual([row["body"] for row in convert(encoded, schema=schema, body_format="text")], ["é", "é", None, "", None])
        with self.assertRaises(MessageFormatError):
            convert(encoded, schema=schema, body_format="text", fail_fast=True)
