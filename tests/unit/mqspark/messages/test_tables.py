"""Tables of properties in columns."""

from __future__ import annotations

import importlib.util
import unittest

from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from mqclient.wire import properties as types
from mqclient.wire.message import CoreMessage, encode_message
from mqclient.wire.properties import TypedValue
from tests.unit.mqspark.messages.test_blocks import convert, schema_of, typed_of


class TableTests(SynchronousTestCase):
    def test_a_table_with_thousands_of_entries_among_small_ones(self) -> None:
        many: dict[str, TypedValue] = {f"key{number}": (types.INT, number) for number in range(5000)}
        messages = [CoreMessage(properties={"a": (types.INT, 1)})] * 10
        messages.insert(5, CoreMessage(properties=many))
        found = convert([encode_message(message) for message in messages], schema=schema_of("properties"))
        self.assertEqual([len(row["properties"]) for row in found], [1] * 5 + [5000] + [1] * 5)
        self.assertEqual([(key, typed_of(value)) for key, value in found[5]["properties"]], list(many.items()))

    def test_of_entries_with_one_key_the_last_counts(self) -> None:
        entry = encode_message(CoreMessage(properties={"a": (types.INT, 1)}))[-9 - 2 :]
        table = b"\x01\x00\x00\x00\x03" + b"".join(
            b"\x00\x00\x00\x02" + key + b"\x00\x06" + bytes((0, 0, 0, value)) for key, value in ((b"a", 1), (b"b", 2), (b"a", 3))
        )
        self.assertTrue(entry)
        encoded = encode_message(CoreMessage())[:-1] + table
        (row,) = convert([encoded], schema=schema_of("properties"))
        self.assertEqual([(key, typed_of(value)[1]) for key, value in row["properties"]], [("a", 3), ("b", 2)])
