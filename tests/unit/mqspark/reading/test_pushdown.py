"""Filters that are pushed are true of the same messages on the broker as they are for Spark on what is read."""

from __future__ import annotations

import datetime
import importlib.util
import unittest
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.message.message import Message
from mqclient.wire import properties as types
from mqclient.wire.message import CoreMessage, encode_message, user_id_text
from mqclient.wire.properties import TypedValue
from mqspark.reading.pushdown import Pushed
from tests.unit.mqspark.blocks import block_of
from tests.unit.mqspark.messages.test_blocks import converter

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
USER_ID = bytes(range(16))
KEYS = ["JMSCorrelationID", "JMSReplyTo", "_AMQ_GROUP_ID"]
IDS = ["a", "b'c", "", "A", "é", "a%b_!", "ab\ud800", "7", "7.0", "true"]
NUMBERS = [0, 1, 3, 4, 5, 9]
TIMES = [0, 1, 999, 1000, 1001, 1_700_000_000_000, 2**63 - 1, -1, -(2**63)]

texts_or_else: st.SearchStrategy[TypedValue] = st.one_of(
    st.tuples(st.just(types.STRING), st.sampled_from(IDS)),
    st.just((types.INT, 7)),
    st.just((types.NULL, None)),
    st.just((types.BYTES, b"a")),
    st.just((types.CHAR, 97)),
    st.just((types.BOOLEAN, True)),
    st.just((types.DOUBLE, 7.0)),
)
messages = st.builds(
    CoreMessage,
    address=st.sampled_from(IDS),
    user_id=st.none() | st.just(USER_ID),
    durable=st.booleans(),
    priority=st.sampled_from(NUMBERS),
    timestamp=st.sampled_from(TIMES),
    expiration=st.sampled_from(TIMES),
    properties=st.dictionaries(st.sampled_from(KEYS), texts_or_else),
)
MICROS = [0, 1, 999, 999_000, 1_000_000, 1_000_500, 1_001_000, -1, -1000, -500, 1_700_000_000_000_000]
MOMENTS = [
    *(EPOCH + datetime.timedelta(microseconds=micros) for micros in MICROS),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=datetime.UTC),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC),
    datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 998_000, tzinfo=datetime.UTC),
]
moments = st.sampled_from(MOMENTS)
TEXTS = [*(each for each in IDS if "\ud800" not in each), "ab�", "ID:" + user_id_text(USER_ID)]
VALUES: dict[str, list[Any]] = {
    **dict.fromkeys(("address", "user_id", "correlation_id", "reply_to", "group_id", "type"), TEXTS),
    **dict.fromkeys(("timestamp", "expiration"), MOMENTS),
    "priority": [-1, *NUMBERS],
    "durable": [True, False],
    "message_id": [1000, 1001, 1002],
    "queue": ["orders", "others"],
    "node_id": ["node-1", "node-2"],
}
ids = st.sampled_from(TEXTS)
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "address": ids,
    "user_id": ids,
    "correlation_id": ids,
    "reply_to": ids,
    "group_id": ids,
    "priority": st.sampled_from([-1, *NUMBERS]),
    "durable": st.booleans(),
    "timestamp": moments,
    "expiration": moments,
    "message_id": st.integers(999, 1010),
    "queue": st.sampled_from(["orders", "others"]),
    "node_id": st.sampled_from(["node-1", "node-2"]),
    "type": ids,
    "delivery_count": st.integers(0, 3),
}


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(sorted(COLUMNS)))
    path = (column,)
    values = COLUMNS[column]
    kinds: list[Any] = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, In, IsNotNull, IsNull]
    if column in ("address", "user_id", "correlation_id", "reply_to", "group_id", "type", "queue"):
        kinds += [StringStartsWith, StringEndsWith, StringContains] * 2
    kind = draw(st.sampled_from(kinds))
    found: Filter
    if kind in (IsNotNull, IsNull):
        found = kind(path)
    elif kind is In:
        found = In(path, tuple(draw(st.lists(values, min_size=1, max_size=3))))
    else:
        found = kind(path, draw(values))
    return Not(found) if draw(st.booleans()) else found


def holds(condition: Filter, row: dict[str, Any]) -> bool | None:
    """SQL's three truth values."""
    if isinstance(condition, Not):
        inner = holds(condition.child, row)
        return None if inner is None else not inner
    value = row[condition.attribute[0]]  # type: ignore[attr-defined]
    if isinstance(condition, IsNull):
        return value is None
    if isinstance(condition, IsNotNull):
        return value is not None
    if isinstance(condition, EqualNullSafe):
        return bool(value == condition.value)
    if value is None:
        return None
    given_value = condition.value  # type: ignore[attr-defined]
    answers = {
        EqualTo: lambda: value == given_value,
        GreaterThan: lambda: value > given_value,
        GreaterThanOrEqual: lambda: value >= given_value,
        LessThan: lambda: value < given_value,
        LessThanOrEqual: lambda: value <= given_value,
        In: lambda: value in given_value,
        StringStartsWith: lambda: value.startswith(given_value),
        StringEndsWith: lambda: value.endswith(given_value),
        StringContains: lambda: given_value in value,
    }
    return bool(answers[type(condition)]())


def row_of(message: CoreMessage) -> dict[str, Any]:
    (batch,) = converter().batches(block_of([encode_message(message)]))
    row: dict[str, Any] = batch.drop_columns(["timestamp", "expiration", "properties", "map_body"]).to_pylist()[0]
    for name in ("timestamp", "expiration"):
        micros = batch.column(name).cast(pa.int64()).to_pylist()[0]
        row[name] = None if micros is None else EPOCH + datetime.timedelta(microseconds=micros)
    return row


class AgreementTests(SynchronousTestCase):
    @settings(max_examples=200, deadline=None)
    @given(messages, st.lists(filters(), min_size=1, max_size=3))
    def test_both_sides_agree(self, message: CoreMessage, given_filters: list[Filter]) -> None:
        row = row_of(message)
        pushed = Pushed()
        rest = list(pushed.push(given_filters))
        self.assertTrue(all(any(each is given for given in given_filters) for each in rest))
        taken = [each for each in given_filters if not any(each is left for left in rest)]
        expected = all(holds(each, row) is True for each in taken)
        selector = parse_filter(pushed.selector(None))
        found = (
            (selector is None or selector.matches(Message.of(message)))
            and pushed.after < row["message_id"] <= pushed.until
            and pushed.includes(row["node_id"], row["queue"])
        )
        self.assertEqual(found, expected, f"{taken} as {pushed}")

    def test_every_filter_on_one_column_agrees_on_every_message(self) -> None:
        """All kinds of filters with all values above, each against messages that have every value of its column."""
        rows = [(Message.of(message), row_of(message)) for message in every_message()]
        pushed_filters = 0
        for condition in every_filter():
            pushed = Pushed()
            if list(pushed.push([condition])):
                continue
            pushed_filters += 1
            selector = parse_filter(pushed.selector(None))
            for message, row in rows:
                found = (
                    (selector is None or selector.matches(message))
                    and pushed.after < row["message_id"] <= pushed.until
                    and pushed.includes(row["node_id"], row["queue"])
                )
                self.assertEqual(found, holds(condition, row) is True, f"{condition} as {pushed} on {row}")
        self.assertGreater(pushed_filters, 400)


def every_message() -> list[CoreMessage]:
    """For each property every kind of value, for each header every value."""
    entries: list[TypedValue] = [(types.STRING, each) for each in IDS]
    entries += [(types.INT, 7), (types.NULL, None), (types.BYTES, b"a"), (types.CHAR, 97), (types.BOOLEAN, True), (types.DOUBLE, 7.0)]
    found = [CoreMessage(address="a", properties=dict.fromkeys(KEYS, entry)) for entry in entries]
    found += [CoreMessage(address=each) for each in IDS]
    found += [CoreMessage(address="a", priority=each, durable=bool(each & 1)) for each in NUMBERS]
    found += [CoreMessage(address="a", timestamp=each, expiration=each) for each in TIMES]
    return [*found, CoreMessage(address="a", user_id=USER_ID)]


def every_filter() -> list[Filter]:
    found: list[Filter] = []
    for column, values in VALUES.items():
        path = (column,)
        found += [IsNotNull(path), IsNull(path), In(path, tuple(values[:3])), EqualNullSafe(path, None)]
        for value in values:
            kinds: tuple[Any, ...] = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
            found += [kind(path, value) for kind in kinds]
            if isinstance(value, str):
                found += [kind(path, value) for kind in (StringStartsWith, StringEndsWith, StringContains)]
    return found + [Not(each) for each in found]


class WhatIsPushedTests(SynchronousTestCase):
    def push(self, *given_filters: Filter) -> tuple[str | None, list[Filter]]:
        pushed = Pushed()
        rest = list(pushed.push(given_filters))
        return pushed.selector(None), rest

    def test_the_usual_ones_are(self) -> None:
        moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        for condition, expected in (
            (EqualTo(("priority",), 4), "AMQPriority = 4"),
            (Not(EqualTo(("priority",), 4)), "AMQPriority <> 4"),
            (In(("priority",), (4, 5)), "(AMQPriority = 4 OR AMQPriority = 5)"),
            (EqualTo(("durable",), True), "AMQDurable = 'DURABLE'"),
            (GreaterThan(("timestamp",), moment), "AMQTimestamp > 1767225600000 AND AMQTimestamp <> 0"),
            (EqualTo(("correlation_id",), "it's"), "JMSCorrelationID IN ('it''s')"),
            (Not(In(("group_id",), ("a", "b"))), "_AMQ_GROUP_ID NOT IN ('a', 'b')"),
            (StringStartsWith(("address",), "a_%"), "AMQAddress LIKE 'a!_!%%' ESCAPE '!'"),
            (IsNotNull(("reply_to",)), "JMSReplyTo LIKE '%'"),
        ):
            self.assertEqual(self.push(condition), (expected, []))

    def test_others_stay_with_spark(self) -> None:
        for condition in (
            EqualTo(("body",), b"x"),
            EqualTo(("properties", "a"), 1),
            IsNull(("timestamp",)),
            GreaterThan(("address",), "a"),
            Not(StringContains(("address",), "a")),
            EqualTo(("address",), "a�"),
            EqualTo(("timestamp",), datetime.datetime(2026, 1, 1)),
            EqualNullSafe(("group_id",), None),
            In(("address",), tuple(f"address{number}" for number in range(5000))),
            StringContains(("address",), "x" * 2000),
        ):
            self.assertEqual(self.push(condition), (None, [condition]))

    def test_ids_become_a_range_and_nodes_a_choice(self) -> None:
        pushed = Pushed()
        rest = pushed.push(
            [
                GreaterThan(("message_id",), 5),
                LessThanOrEqual(("message_id",), 9),
                GreaterThan(("message_id",), 2),
                EqualTo(("node_id",), "a"),
            ]
        )
        self.assertEqual((list(rest), pushed.after, pushed.until, pushed.selector(None)), ([], 5, 9, None))
        self.assertEqual((pushed.includes("a", "q"), pushed.includes("b", "q")), (True, False))

    def test_the_selector_of_the_options_stays(self) -> None:
        pushed = Pushed()
        self.assertEqual(pushed.selector("a = 1 OR b = 2"), "a = 1 OR b = 2")
        pushed.push([EqualTo(("priority",), 4)])
        self.assertEqual(pushed.selector("a = 1 OR b = 2"), "(a = 1 OR b = 2) AND AMQPriority = 4")
