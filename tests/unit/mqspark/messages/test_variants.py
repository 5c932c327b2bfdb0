"""Variants in rows."""

from __future__ import annotations

from typing import Any

from mqclient.wire.bodies import decode_map
from mqclient.wire.properties import BOOLEAN, BYTE, BYTES, CHAR, DOUBLE, FLOAT, INT, LONG, NULL, SHORT, STRING
from tests.unit.mqspark.messages.test_rows import RowsTestCase

try:
    import pyarrow as pa
except ImportError:
    pa = None


class VariantCase(RowsTestCase):
    VALUES = (
        (b"\x00", (NULL, None)),
        (b"\x04", (BOOLEAN, True)),
        (b"\x08", (BOOLEAN, False)),
        (b"\x0c\xff", (BYTE, -1)),
        (b"\x10\x00\x80", (SHORT, -(2**15))),
        (b"\x14\x01\x00\x00\x00", (INT, 1)),
        (b"\x18\x02" + bytes(7), (LONG, 2)),
        (b"\x1c" + bytes(6) + b"\xf0\x3f", (DOUBLE, 1.0)),
        (b"\x38\x00\x00\x00\x3f", (FLOAT, 0.5)),
        (b"\x3c\x02\x00\x00\x00xy", (BYTES, b"xy")),
        (b"\x0dabc", (STRING, "abc")),
        (b"\x01", (STRING, "")),
        (b"\x40\x40\x00\x00\x00" + b"q" * 64, (STRING, "q" * 64)),
        (b"\x40\x02\x00\x00\x00\xc3\xa4", (CHAR, 0xE4)),
        (b"\x20\x02\x96\x00\x00\x00", (DOUBLE, 1.5)),
    )
    """The first binary of a variant, as the Parquet project describes it, and the value it is."""

    def column(self, *raw: bytes | None) -> Any:
        kind = pa.map_(pa.string(), pa.struct([("value", pa.binary()), ("metadata", pa.binary())]))
        rows = [[("k", None if each is None else {"value": each, "metadata": b"\x01\x00\x00"})] for each in raw]
        return pa.array(rows, kind)


class VariantTests(VariantCase):
    def test_each_type(self) -> None:
        messages = self.encoded({"properties": self.column(*(raw for raw, _ in self.VALUES), None)})
        self.assertEqual([message.properties["k"] for message in messages], [*(value for _, value in self.VALUES), (NULL, None)])
        messages = self.encoded({"map_body": self.column(*(raw for raw, _ in self.VALUES))})
        self.assertEqual([decode_map(message.body)["k"] for message in messages], [value for _, value in self.VALUES])
