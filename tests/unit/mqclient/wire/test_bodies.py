"""Bodies of the runtime against the grammar."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import MalformedPacketError
from mqclient.wire import bodies
from mqclient.wire.packets import grammar_messages
from mqclient.wire.properties import (
    BYTES,
    FLOAT,
    INT,
    NULL,
    STRING,
)
from tests.unit.mqclient.wire.strategies import TEXT, damage, examples
from tests.unit.mqclient.wire.test_message import PROPERTIES, _typed, plain, plain_value, runtime_value, verdict

STREAM = st.lists(_typed(grammar_messages.STREAM_TYPES), max_size=8)


class BodyTests(SynchronousTestCase):
    @examples(60)
    @given(text=st.none() | TEXT)
    def test_text(self, text: str | None) -> None:
        body = bodies.encode_text(text)
        self.assertEqual(body, grammar_messages.TEXT_BODY.build(text))
        self.assertEqual(bodies.decode_text(body), text)

    @examples(60)
    @given(entries=PROPERTIES)
    def test_map(self, entries: dict[str, tuple[int, Any]]) -> None:
        body = bodies.encode_map({key: runtime_value(*typed) for key, typed in entries.items()})
        self.assertEqual(body, grammar_messages.MAP_BODY.build([(key, *typed) for key, typed in entries.items()]))
        self.assertEqual(plain(bodies.decode_map(body)), entries)

    @examples(150)
    @given(items=STREAM)
    def test_stream(self, items: list[tuple[int, Any]]) -> None:
        body = bodies.encode_stream([runtime_value(*item) for item in items])
        self.assertEqual(body, grammar_messages.STREAM_BODY.build(items))
        self.assertEqual([plain_value(*item) for item in bodies.decode_stream(body)], items)

    @examples(300)
    @given(data=st.data(), items=STREAM)
    def test_damaged_stream_is_refused_or_read_alike(self, data: st.DataObject, items: list[tuple[int, Any]]) -> None:
        damaged = data.draw(damage(grammar_messages.STREAM_BODY.build(items)))
        self.assertEqual(
            verdict(lambda raw: [plain_value(*item) for item in bodies.decode_stream(raw)], damaged),
            verdict(lambda raw: list(grammar_messages.STREAM_BODY.parse(raw)), damaged),
            damaged.hex(),
        )

    @examples(200)
    @given(data=st.data(), text=st.none() | TEXT)
    def test_damaged_text_is_refused_or_read_alike(self, data: st.DataObject, text: str | None) -> None:
        damaged = data.draw(damage(bodies.encode_text(text)))
        if damaged:
            self.assertEqual(verdict(bodies.decode_text, damaged), verdict(grammar_messages.TEXT_BODY.parse, damaged))

    @examples(100)
    @given(data=st.data(), serialised=st.binary(min_size=1, max_size=20))
    def test_object(self, data: st.DataObject, serialised: bytes) -> None:
        body = bodies.encode_object(serialised)
        self.assertEqual(body, grammar_messages.OBJECT_BODY.build(serialised))
        self.assertEqual(bodies.decode_object(body), serialised)
        damaged = data.draw(damage(body))
        if damaged:
            expected = verdict(grammar_messages.OBJECT_BODY.parse, damaged)
            self.assertEqual(verdict(bodies.decode_object, damaged), expected or None)

    def test_body_without_a_byte_is_the_empty_value(self) -> None:
        self.assertEqual(bodies.decode_text(b""), None)
        self.assertEqual(bodies.decode_map(b""), {})
        self.assertEqual(bodies.decode_stream(b""), [])
        self.assertEqual(bodies.decode_object(b""), None)
        self.assertEqual(bodies.encode_object(None), b"")

    def test_body_of_four_zeros_is_the_empty_value(self) -> None:
        """The broker makes messages with such a body."""
        self.assertEqual(bodies.decode_text(bytes(4)), None)
        self.assertEqual(bodies.decode_map(bytes(4)), {})
        self.assertEqual(bodies.decode_object(bytes(4)), None)

    def test_null_of_any_type_is_a_null_string_in_a_stream(self) -> None:
        self.assertEqual(bodies.encode_stream([(STRING, None), (NULL, None), (BYTES, None)]), b"\x0a\x00" * 3)

    def test_refusals_name_message_and_body(self) -> None:
        for decode, body in (
            (bodies.decode_text, b"\x01\x00\x00\x00\x03abc"),
            (bodies.decode_map, b"\x01\x7f\xff\xff\xff"),
            (bodies.decode_stream, b"\x01\x00"),
            (bodies.decode_stream, b"\x0a\x01\xff\xff\xff\xff"),
            (bodies.decode_object, b"\xff\xff\xff\xff"),
        ):
            error = self.assertRaises(MalformedPacketError, decode, body)
            self.assertEqual((error.packet, error.field), ("message", "body"))

    def test_wrong_values_are_refused_when_written(self) -> None:
        wrong: list[tuple[int, Any]] = [(INT, 1 << 31), (NULL, 5), (STRING, 5), (BYTES, "x"), (FLOAT, 1e39), (FLOAT, "x"), (99, 1)]
        for kind, value in wrong:
            self.assertRaises(ValueError, bodies.encode_stream, [(kind, value)])
