"""Blocks of messages without a broker, and messages to fill them with."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from mqclient.wire import properties as types
from mqclient.wire.message import CoreMessage
from mqclient.wire.properties import TypedValue


@dataclass
class FakeBlock:
    """What the answer to a READ holds."""

    count: int
    ids: memoryview
    delivery_counts: memoryview
    sizes: memoryview
    kinds: memoryview
    messages: memoryview


def block_of(encoded: Sequence[bytes], large: Sequence[bool] | None = None, first_id: int = 1001) -> FakeBlock:
    """The messages with ids from ``first_id`` on, each delivered as often as its number says."""
    count = len(encoded)
    return FakeBlock(
        count,
        memoryview(struct.pack(f">{count}q", *range(first_id, first_id + count))),
        memoryview(struct.pack(f">{count}i", *range(count))),
        memoryview(struct.pack(f">{count}i", *map(len, encoded))),
        memoryview(bytes(large or [0] * count)),
        memoryview(b"".join(encoded)),
    )


def _f32(value: float) -> float:
    rounded: float = struct.unpack(">f", struct.pack(">f", value))[0]
    return rounded


texts = st.text(max_size=8) | st.sampled_from(["", "\ud800", "\udc00", "é\ud83d", "😀", "x" * 63, "y" * 64, "ä" * 32, "long " * 40])
typed_values: st.SearchStrategy[TypedValue] = st.one_of(
    st.just((types.NULL, None)),
    st.tuples(st.just(types.BOOLEAN), st.booleans()),
    st.tuples(st.just(types.BYTE), st.integers(-(2**7), 2**7 - 1)),
    st.tuples(st.just(types.SHORT), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just(types.INT), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just(types.LONG), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(types.FLOAT), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just(types.DOUBLE), st.floats(allow_nan=False)),
    st.tuples(st.just(types.CHAR), st.integers(0, 0xFFFF)),
    st.tuples(st.just(types.STRING), texts),
    st.tuples(st.just(types.BYTES), st.binary(max_size=12)),
)
keys = st.sampled_from(
    ["JMSCorrelationID", "JMSReplyTo", "_AMQ_GROUP_ID", "_AMQ_DUPL_ID", "colour", "ключ", "_AMQ_LARGE_COMPRESSED_", "", "\udfff"]
) | st.text(max_size=6)
tables = st.dictionaries(keys, typed_values, max_size=6)
times = st.sampled_from([0, 1, 1_700_000_000_123, -1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
messages = st.builds(
    CoreMessage,
    message_id=st.integers(0, 2**63 - 1),
    address=st.none() | st.sampled_from(["orders", "ääh", "", "queue😀"]),
    user_id=st.none() | st.binary(min_size=16, max_size=16),
    type=st.sampled_from([0, 2, 4, 6, 7, 8]),
    durable=st.booleans(),
    expiration=times,
    timestamp=times,
    priority=st.integers(-128, 127),
    properties=tables,
    body=st.binary(max_size=40),
)
