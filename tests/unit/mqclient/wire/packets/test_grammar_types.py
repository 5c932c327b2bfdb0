"""The types of the grammar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import construct
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import MalformedPacketError
from mqclient.wire.packets import grammar_types
from mqclient.wire.primitives import Decoder, Encoder, Xid
from tests.unit.mqclient.wire.strategies import (
    BINARY,
    BY_LABEL,
    CHARACTERS,
    REFUSED,
    TEXT,
    TRANSPORT,
    XID,
    damage,
    examples,
    paired,
    transport_object,
    transport_values,
)
from tests.unit.mqclient.wire.test_primitives import written

LONG_TEXT = st.tuples(CHARACTERS, st.sampled_from((8, 9, 10, 4094, 4095, 4096)), TEXT).map(
    lambda parts: paired((parts[2] + parts[0] * parts[1])[: parts[1]])
)


KINDS: dict[str, tuple[Any, Callable[[Encoder, Any], None], Callable[[Decoder], Any]]] = {
    "i8": (grammar_types.I8, Encoder.i8, Decoder.i8),
    "i32": (grammar_types.I32, Encoder.i32, Decoder.i32),
    "i64": (grammar_types.I64, Encoder.i64, Decoder.i64),
    "bool": (grammar_types.BOOL, Encoder.boolean, Decoder.boolean),
    "Str": (grammar_types.STR, Encoder.string, Decoder.string),
    "NStr": (grammar_types.NSTR, Encoder.nullable_string, Decoder.nullable_string),
    "SStr": (grammar_types.SSTR, Encoder.simple_string, Decoder.simple_string),
    "NSStr": (grammar_types.NSSTR, Encoder.nullable_simple_string, Decoder.nullable_simple_string),
    "NBool": (grammar_types.NBOOL, Encoder.nullable_bool, Decoder.nullable_bool),
    "NInt": (grammar_types.NINT, Encoder.nullable_int, Decoder.nullable_int),
    "NLong": (grammar_types.NLONG, Encoder.nullable_long, Decoder.nullable_long),
}


def read(kind: Callable[[Decoder], Any], data: bytes) -> Any:
    """(value, bytes taken), or REFUSED."""
    source = Decoder(data, "packet")
    source.field = "field"
    try:
        return kind(source), source.position
    except MalformedPacketError as error:
        assert (error.packet, error.field) == ("packet", "field")
        return REFUSED


def parsed(kind: Any, data: bytes) -> Any:
    stream = construct.io.BytesIO(data)
    try:
        return kind.parse_stream(stream), stream.tell()
    except construct.ConstructError:
        return REFUSED


class KindTests(SynchronousTestCase):
    @examples(300)
    @given(data=st.data(), name=st.sampled_from(sorted(KINDS)), after=BINARY)
    def test_bytes_and_values_are_those_of_the_grammar(self, data: st.DataObject, name: str, after: bytes) -> None:
        description, write, reader = KINDS[name]
        value = data.draw(BY_LABEL[name])
        raw = written(write, value)
        self.assertEqual(raw, description.build(value))
        self.assertEqual(read(reader, raw + after), (value, len(raw)))
        damaged = data.draw(damage(raw))
        self.assertEqual(read(reader, damaged), parsed(description, damaged), damaged.hex())

    @examples(60)
    @given(text=LONG_TEXT)
    def test_strings_of_all_three_forms(self, text: str) -> None:
        for name in ("Str", "NStr", "SStr", "NSStr"):
            description, write, reader = KINDS[name]
            raw = written(write, text)
            self.assertEqual(raw, description.build(text))
            self.assertEqual(read(reader, raw), (text, len(raw)))

    @examples(100)
    @given(data=st.data(), value=XID)
    def test_xid(self, data: st.DataObject, value: tuple[int, bytes, bytes]) -> None:
        raw = written(Encoder.xid, Xid(*value))
        self.assertEqual(raw, grammar_types.XID.build(value))
        damaged = data.draw(st.just(raw) | damage(raw))
        self.assertEqual(read(Decoder.xid, damaged), parsed(grammar_types.XID, damaged))

    @examples(150)
    @given(data=st.data(), value=TRANSPORT)
    def test_connector(self, data: st.DataObject, value: tuple[Any, ...]) -> None:
        raw = written(Encoder.transport, transport_object(value))
        self.assertEqual(raw, grammar_types.TRANSPORT.build(value))

        def reader(source: Decoder) -> tuple[Any, ...]:
            return transport_values(source.transport())

        damaged = data.draw(st.just(raw) | damage(raw))
        self.assertEqual(read(reader, damaged), parsed(grammar_types.TRANSPORT, damaged))
