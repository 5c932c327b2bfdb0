"""Bodies in JSON as structs."""

from __future__ import annotations

import datetime
import importlib.util
import unittest

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    LongType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from mqspark.errors import MessageFormatError, SchemaError
from tests.unit.mqspark.messages.test_blocks import FormatCase, convert, converter


class JsonTests(FormatCase):
    def test_json(self) -> None:
        texts: list[str | bytes] = [
            '{"id":1,"name":"é\\n"}',
            b'{"name":"b",\r\n "more":[1,{"x":2}]}',
            '{"id":"1"}',
            "",
            '{"id":1}{"id":2}',
            '{"id":1}}\n{"i":6,"v":{"id":2}',
            "null",
            "[1]",
            '{"id":3',
            b"\xff",
            '{"id":4}',
        ]
        found = convert(self.encoded(*texts), schema=self.json_schema(), body_format="json")
        self.assertEqual(
            [row["body"] for row in found],
            [{"id": 1, "name": "é\n"}, {"id": None, "name": "b"}, None, None, None, None, None, None, None, None, {"id": 4, "name": None}],
        )
        self.assertEqual([number for number, row in enumerate(found) if row["_corrupt_record"] is not None], [2, 3, 4, 5, 7, 8])
        self.assertEqual(found[2]["_corrupt_record"], '{"id":"1"}')
        with self.assertRaisesRegex(MessageFormatError, "message 1003 .* not of the schema"):
            convert(self.encoded(*texts), schema=self.json_schema(), body_format="json", fail_fast=True)

    def test_dates_in_json(self) -> None:
        line = StructType().add("due", DateType())
        order = StructType().add("day", DateType()).add("lines", ArrayType(line)).add("at", TimestampType())
        texts: list[str | bytes] = [
            '{"day":"2026-11-21","lines":[{"due":"2027-01-31"},null],"at":"2026-11-21T08:30:00+01:00"}',
            '{"day":null}',
            '{"day":"21.11.2026"}',
            '{"day":20000}',
        ]
        found = convert(self.encoded(*texts), schema=StructType().add("body", order), body_format="json")
        at = datetime.datetime(2026, 11, 21, 7, 30, tzinfo=datetime.UTC)
        self.assertEqual(
            [row["body"] for row in found],
            [
                {"day": datetime.date(2026, 11, 21), "lines": [{"due": datetime.date(2027, 1, 31)}, None], "at": at},
                {"day": None, "lines": None, "at": None},
                None,
                None,
            ],
        )

    def test_a_schema_that_does_not_match(self) -> None:
        for schema, body_format, expected in (
            (StructType().add("mesage_id", LongType()), "binary", "there is no column mesage_id; did you mean message_id"),
            (StructType().add("message_id", StringType()), "binary", "the column message_id has the type string; expected bigint"),
            (StructType().add("body", StringType()), "binary", "the column body has the type string; expected binary"),
            (StructType().add("body", BinaryType()), "text", "the column body has the type binary; expected string"),
            (StructType().add("body", StringType()), "json", "the column body has the type string; with bodyFormat=json expected a struct"),
            (StructType().add("body", StructType().add("a", LongType())), "binary", "bodyFormat=json makes it a struct"),
            (StructType().add("body", StructType().add("a", VariantType())), "json", "cannot be read"),
            (StructType().add("_corrupt_record", StringType()), "binary", "there is no column _corrupt_record"),
        ):
            with self.assertRaisesRegex(SchemaError, expected):
                converter(schema, body_format=body_format)
