"""Messages, headers, properties and bodies of the runtime against the grammar."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import construct
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import MalformedPacketError
from mqclient.wire import bodies
from mqclient.wire.bodies import BytesReader, BytesWriter, EndOfBodyError
from mqclient.wire.message import (
    CoreMessage,
    body_end,
    decode_headers,
    decode_message,
    encode_headers,
    encode_message,
    scan_headers,
    user_id_text,
)
from mqclient.wire.packets import grammar_messages
from mqclient.wire.primitives import decode_f32, encode_f32
from mqclient.wire.properties import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    TypedValue,
    decode_properties,
    encode_value,
)
from tests.unit.mqclient.wire.strategies import BINARY, BY_LABEL, I8, I64, REFUSED, TEXT, damage, examples

Entry = tuple[str, int, Any]


def _typed(types: dict[int, tuple[str, Any]]) -> st.SearchStrategy[tuple[int, Any]]:
    """Type ids with values as the grammar has them: floats as their bits."""
    return st.one_of(
        [st.tuples(st.just(kind), BY_LABEL[subcon.label] if name != "NULL" else st.none()) for kind, (name, subcon) in types.items()]
    )


def float_of(kind: int, bits: int) -> float:
    """The float with these IEEE 754 bits."""
    if kind == DOUBLE:
        value: float = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
        return value
    return decode_f32(bits.to_bytes(4, "big"), 0)


def bits_of(kind: int, value: float) -> int:
    """The IEEE 754 bits of a float, by the standard library alone unless it is a NaN."""
    if kind == DOUBLE:
        return int.from_bytes(struct.pack(">d", value), "big")
    return int.from_bytes(encode_f32(value) if math.isnan(value) else struct.pack(">f", value), "big")


def runtime_value(kind: int, value: Any) -> TypedValue:
    return (kind, float_of(kind, value)) if kind in (FLOAT, DOUBLE) else (kind, value)


def plain(entries: dict[str, TypedValue]) -> dict[str, tuple[int, Any]]:
    """Runtime properties with floats as bits, to be compared."""
    return {key: plain_value(kind, value) for key, (kind, value) in entries.items()}


def plain_value(kind: int, value: Any) -> tuple[int, Any]:
    return (kind, bits_of(kind, value)) if kind in (FLOAT, DOUBLE) else (kind, value)


PROPERTIES = st.dictionaries(TEXT, _typed(grammar_messages.PROPERTY_TYPES), max_size=6)
HEADERS = st.fixed_dictionaries(
    {
        "message_id": I64,
        "address": st.none() | TEXT,
        "user_id": st.none() | st.binary(min_size=16, max_size=16),
        "type": I8,
        "durable": st.booleans(),
        "expiration": I64,
        "timestamp": I64,
        "priority": I8,
        "properties": PROPERTIES,
    }
)


def grammar_headers(values: dict[str, Any]) -> dict[str, Any]:
    return {**values, "properties": [(key, kind, value) for key, (kind, value) in values["properties"].items()]}


def message_of(values: dict[str, Any], body: bytes = b"") -> CoreMessage:
    properties = {key: runtime_value(*typed) for key, typed in values["properties"].items()}
    return CoreMessage(**{**values, "properties": properties, "body": body})


def message_values(message: CoreMessage) -> dict[str, Any]:
    names = ("message_id", "address", "user_id", "type", "durable", "expiration", "timestamp", "priority", "body")
    return {**{name: getattr(message, name) for name in names}, "properties": plain(message.properties)}


def found_values(found: Any, body: bytes) -> dict[str, Any]:
    names = ("message_id", "address", "user_id", "type", "durable", "expiration", "timestamp", "priority")
    values = {name: found[name] for name in names}
    return {**values, "properties": {key: (kind, value) for key, kind, value in found.properties}, "body": body}


def verdict(decode: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return decode(data)
    except (construct.ConstructError, MalformedPacketError):
        return REFUSED


class MessageTests(SynchronousTestCase):
    @examples(100)
    @given(values=HEADERS, before=BINARY)
    def test_headers_are_found_at_any_offset(self, values: dict[str, Any], before: bytes) -> None:
        message = message_of(values)
        block = encode_headers(message)
        self.assertEqual(block, grammar_messages.HEADERS.build(grammar_headers(values)))
        self.assertEqual(message_values(decode_headers(before + block, len(before))), {**values, "body": b""})
        found = scan_headers(before + block, len(before))
        self.assertEqual(
            (found.type, found.durable, found.expiration, found.timestamp, found.priority),
            (message.type, message.durable, message.expiration, message.timestamp, message.priority),
        )
        address = None if found.address is None else found.address[4:].decode("utf-16-le", "surrogatepass")
        self.assertEqual(address, message.address)
        properties, end = decode_properties(before + block, found.properties, len(before + block))
        self.assertEqual((plain(properties), end), (values["properties"], len(before + block)))

    @examples(400)
    @given(data=st.data(), values=HEADERS, body=BINARY)
    def test_damaged_messages_are_refused_or_read_alike(self, data: st.DataObject, values: dict[str, Any], body: bytes) -> None:
        damaged = data.draw(damage(encode_message(message_of(values, body))))

        def by_grammar(raw: bytes) -> dict[str, Any]:
            found = grammar_messages.MESSAGE.parse(raw)
            return found_values(found, found.body)

        self.assertEqual(verdict(lambda raw: message_values(decode_message(raw)), damaged), verdict(by_grammar, damaged), damaged.hex())

    @examples(300)
    @given(data=st.data(), values=HEADERS)
    def test_damaged_headers_are_refused_or_read_alike(self, data: st.DataObject, values: dict[str, Any]) -> None:
        damaged = data.draw(damage(encode_headers(message_of(values))))
        self.assertEqual(
            verdict(lambda raw: message_values(decode_headers(raw)), damaged),
            verdict(lambda raw: found_values(grammar_messages.HEADERS.parse(raw), b""), damaged),
            damaged.hex(),
        )

    def test_every_cut_names_the_field_it_falls_into(self) -> None:
        block = encode_headers(CoreMessage(address="a", user_id=bytes(16), properties={"k": (INT, 1)}))
        ends = [8, 9, 15, 32, 33, 34, 42, 50, 51]
        names = ["message_id", "message_id", "address", "user_id", "type", "durable", "expiration", "timestamp", "priority"]
        for size in range(len(block)):
            error = self.assertRaises(MalformedPacketError, decode_headers, block[:size], 0, "SESS_SEND_LARGE")
            expected = next((name for name, end in zip(names, ends, strict=True) if size < end), "properties")
            self.assertEqual((error.packet, error.field), ("SESS_SEND_LARGE", expected), str(size))

    def test_body_that_ends_outside_the_message_is_refused(self) -> None:
        data = encode_message(CoreMessage(body=b"abc"))
        for end in (-0x80000000, -1, 0, 12, 17, 0x7FFFFFFF):
            error = self.assertRaises(MalformedPacketError, body_end, struct.pack(">i", end) + data[4:])
            self.assertEqual(error.field, "end_of_body")

    def test_values_that_fit_no_field_are_refused_when_written(self) -> None:
        for message in (CoreMessage(priority=300), CoreMessage(message_id=1 << 63), CoreMessage(user_id=b"short")):
            self.assertRaises(ValueError, encode_message, message)

    def test_user_id_is_shown_as_a_version_1_uuid(self) -> None:
        self.assertEqual(
            user_id_text(bytes.fromhex("112233445566778819aabbccddeeff00")),
            "11223344-5566-1788-99aa-bbccddeeff00",
        )


class BytesTests(SynchronousTestCase):
    def test_known_body(self) -> None:
        out = BytesWriter()
        out.write_boolean(True)
        out.write_int(5)
        out.write_utf("añb")
        out.write_bytes(b"\x01\x02\x03")
        self.assertEqual(out.data.hex(), "ff00000005000461c3b162010203")

    def test_all_values_come_back(self) -> None:
        out = BytesWriter()
        out.write_boolean(False)
        out.write_byte(-2)
        out.write_byte(-2)
        out.write_short(-300)
        out.write_short(-300)
        out.write_char(0xD83D)
        out.write_int(-70000)
        out.write_long(-(1 << 40))
        out.write_float(1.5)
        out.write_double(-2.25)
        out.write_utf("\x00😀")
        out.write_bytes(b"rest")
        source = BytesReader(bytes(out.data))
        self.assertEqual((source.read_boolean(), source.read_byte(), source.read_unsigned_byte()), (False, -2, 254))
        self.assertEqual((source.read_short(), source.read_unsigned_short(), source.read_char()), (-300, 65236, 0xD83D))
        self.assertEqual((source.read_int(), source.read_long()), (-70000, -(1 << 40)))
        self.assertEqual((source.read_float(), source.read_double(), source.read_utf()), (1.5, -2.25, "\x00😀"))
        self.assertEqual(source.read_bytes(source.remaining), b"rest")

    def test_end_of_body_leaves_the_position(self) -> None:
        for read, size in (
            (BytesReader.read_boolean, 1),
            (BytesReader.read_byte, 1),
            (BytesReader.read_unsigned_byte, 1),
            (BytesReader.read_short, 2),
            (BytesReader.read_unsigned_short, 2),
            (BytesReader.read_char, 2),
            (BytesReader.read_int, 4),
            (BytesReader.read_long, 8),
            (BytesReader.read_float, 4),
            (BytesReader.read_double, 8),
        ):
            source = BytesReader(bytes(size - 1))
            self.assertRaises(EndOfBodyError, read, source)
            self.assertEqual(source.position, 0)

    def test_cut_string_leaves_the_position(self) -> None:
        for body in (b"\x00", b"\x00\x03ab"):
            source = BytesReader(body)
            self.assertRaises(EndOfBodyError, source.read_utf)
            self.assertEqual(source.position, 0)

    def test_bad_string_is_malformed_and_leaves_the_position(self) -> None:
        source = BytesReader(b"\x00\x01\xff")
        error = self.assertRaises(MalformedPacketError, source.read_utf)
        self.assertNotIsInstance(error, EndOfBodyError)
        self.assertEqual(source.position, 0)

    def test_negative_count_is_refused(self) -> None:
        self.assertRaises(ValueError, BytesReader(b"abc").read_bytes, -1)

    def test_values_that_do_not_fit_are_refused_and_nothing_is_written(self) -> None:
        out = BytesWriter()
        for write, value in (
            (out.write_byte, 128),
            (out.write_short, 40000),
            (out.write_char, -1),
            (out.write_int, 1 << 31),
            (out.write_long, 1 << 63),
            (out.write_float, 1e39),
            (out.write_utf, "x" * 65536),
        ):
            self.assertRaises(ValueError, write, value)  # type: ignore[arg-type]
        self.assertEqual(out.data, b"")

    def test_longest_string_fits(self) -> None:
        out = BytesWriter()
        out.write_utf("x" * 65535)
        self.assertEqual(BytesReader(bytes(out.data)).read_utf(), "x" * 65535)

    def test_boolean_properties_and_streams_differ(self) -> None:
        """True is 01 in a property table and FF in a stream."""
        self.assertEqual(encode_value(BOOLEAN, True), b"\x02\x01")
        self.assertEqual(bodies.encode_stream([(BOOLEAN, True)]), b"\x02\xff")
