"""Columns of properties."""

from __future__ import annotations

import importlib.util
import unittest

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import bodies
from mqclient.wire import message as wire
from mqclient.wire import properties as types
from mqclient.wire.message import CoreMessage, decode_message, encode_message, user_id_text
from mqclient.wire.properties import TypedValue
from mqspark.columns import TYPE_NAMES
from mqspark.errors import MessageFormatError
from mqspark.messages.blocks import TIME_MAX_MS, TIME_MIN_MS
from tests.unit.mqspark import blocks
from tests.unit.mqspark.blocks import block_of
from tests.unit.mqspark.messages.test_blocks import convert, converter, schema_of, typed_of

INFINITE = CoreMessage(properties={"a": (types.FLOAT, float("inf"))})
"""Its last bytes are the infinity, of which a wrong bit makes a NaN."""


def shown(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clamped(milliseconds: int) -> int | None:
    return None if milliseconds == 0 else min(max(milliseconds, TIME_MIN_MS), TIME_MAX_MS) * 1000


def expected_value(entry: TypedValue) -> TypedValue:
    kind, value = entry
    if kind == types.CHAR:
        assert isinstance(value, int)
        return kind, shown(chr(value))
    return kind, shown(value) if isinstance(value, str) else value


def comparable(entries: list[tuple[str, TypedValue]]) -> list[tuple[str, TypedValue]]:
    """``entries`` with a text for each NaN, which is not equal to itself: damage can make one of an infinity."""
    return [(key, (kind, "NaN" if value != value else value)) for key, (kind, value) in entries]


def expected_map(entries: dict[str, TypedValue]) -> list[tuple[str, TypedValue]]:
    return [(shown(key), expected_value(entry)) for key, entry in entries.items()]


def text_of(message: CoreMessage, key: str) -> str | None:
    value = message.get(key)
    return shown(value) if isinstance(value, str) else None


def duplicate_of(message: CoreMessage) -> str | None:
    value = message.get(wire.KEY_DUPLICATE_ID)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    return shown(value) if isinstance(value, str) else None


class PropertyTests(SynchronousTestCase):
    @settings(max_examples=150, deadline=None)
    @given(st.lists(blocks.messages, min_size=1, max_size=24))
    def test_every_column_is_what_the_decoder_says(self, messages: list[CoreMessage]) -> None:
        encoded = [encode_message(message) for message in messages]
        schema = schema_of()
        found = list(converter(schema).batches(block_of(encoded)))
        self.assertEqual(len(found), 1)
        found[0].validate(full=True)
        times = {name: found[0].column(name).cast(pa.int64()).to_pylist() for name in ("timestamp", "expiration")}
        for number, row in enumerate(found[0].drop_columns(["timestamp", "expiration"]).to_pylist()):
            message = decode_message(encoded[number])
            properties = row.pop("properties")
            self.assertEqual([(key, typed_of(value)) for key, value in properties], expected_map(message.properties))
            self.assertEqual(times["timestamp"][number], clamped(message.timestamp))
            self.assertEqual(times["expiration"][number], clamped(message.expiration))
            self.assertEqual(
                row,
                {
                    "message_id": 1001 + number,
                    "address": None if message.address is None else shown(message.address),
                    "queue": "orders",
                    "node_id": "node-1",
                    "type": TYPE_NAMES[message.type],
                    "priority": message.priority,
                    "durable": message.durable,
                    "correlation_id": text_of(message, "JMSCorrelationID"),
                    "reply_to": text_of(message, "JMSReplyTo"),
                    "group_id": text_of(message, wire.KEY_GROUP_ID),
                    "delivery_count": number,
                    "user_id": None if message.user_id is None else "ID:" + user_id_text(message.user_id),
                    "duplicate_id": duplicate_of(message),
                    "body": message.body,
                    "text": None,
                    "map_body": None,
                },
            )

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.none() | blocks.texts, min_size=1, max_size=20))
    def test_texts(self, texts: list[str | None]) -> None:
        encoded = [encode_message(CoreMessage(type=wire.TYPE_TEXT, body=bodies.encode_text(text))) for text in texts]
        found = convert(encoded, schema=schema_of("text"))
        self.assertEqual([row["text"] for row in found], [None if text is None else shown(text) for text in texts])

    @settings(max_examples=60, deadline=None)
    @given(st.lists(blocks.tables, min_size=1, max_size=20))
    def test_maps(self, maps: list[dict[str, TypedValue]]) -> None:
        encoded = [encode_message(CoreMessage(type=wire.TYPE_MAP, body=bodies.encode_map(entries))) for entries in maps]
        found = convert(encoded, schema=schema_of("map_body"))
        for row, entries in zip(found, maps, strict=True):
            self.assertEqual([(key, typed_of(value)) for key, value in row["map_body"]], expected_map(entries))

    @settings(max_examples=200, deadline=None)
    @given(blocks.messages, st.integers(0, 200), st.binary(max_size=5), st.integers(0, 5), st.sampled_from([3, 5, 0]))
    @example(INFINITE, len(encode_message(INFINITE)) - 1, b"\x01", 1, 0)
    def test_damage_is_found_where_the_decoder_finds_it_and_the_neighbours_stay(
        self, message: CoreMessage, at: int, junk: bytes, cut: int, kind: int
    ) -> None:
        message.type = kind
        whole = encode_message(message)
        damaged = whole[:at] + junk + whole[at + cut :]
        neighbour = encode_message(CoreMessage(type=wire.TYPE_TEXT, body=bodies.encode_text("near"), properties={"a": (types.INT, 7)}))
        first, found, last = convert([neighbour, damaged, neighbour])
        for near in (first, last):
            self.assertEqual((near["text"], [key for key, _ in near["properties"]]), ("near", ["a"]))
        try:
            decoded = decode_message(damaged)
        except Exception:
            self.assertIsNone(found["properties"])
            with self.assertRaisesRegex(MessageFormatError, "message 1002 of queue orders on node node-1 cannot be decoded"):
                convert([neighbour, damaged, neighbour], fail_fast=True)
        else:
            properties = [(key, typed_of(value)) for key, value in found["properties"]]
            self.assertEqual(comparable(properties), comparable(expected_map(decoded.properties)))
            self.assertEqual(found["priority"], decoded.priority)
