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
from mqclient.wire import bodies, grammar_messages
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
from mqclient.wire.primitives import decode_f32, encode_f32
from mqclient.wire.properties import (
    BOOLEAN,
    BYTE,
    BYTES,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NULL,
    SHORT,
    STRING,
    TypedValue,
    check_block,
    decode_properties,
    decode_value,
    encode_properties,
    encode_value,
    find_prefix,
    find_property,
    walk,
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
STREAM = st.lists(_typed(grammar_messages.STREAM_TYPES), max_size=8)
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
    @given(values=HEADERS, body=BINARY)
    def test_message_has_the_bytes_and_values_of_the_grammar(self, values: dict[str, Any], body: bytes) -> None:
        message = message_of(values, body)
        data = encode_message(message)
        self.assertEqual(data, grammar_messages.MESSAGE.build({**grammar_headers(values), "body": body}))
        self.assertEqual(message_values(decode_message(data)), {**values, "body": body})
        self.assertEqual(encode_message(decode_message(data)), data)

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


class PropertyTests(SynchronousTestCase):
    @examples(150)
    @given(entries=PROPERTIES, before=BINARY, after=BINARY)
    def test_block_has_the_bytes_of_the_grammar(self, entries: dict[str, tuple[int, Any]], before: bytes, after: bytes) -> None:
        properties = {key: runtime_value(*typed) for key, typed in entries.items()}
        block = encode_properties(properties)
        self.assertEqual(block, grammar_messages.PROPERTIES.build([(key, *typed) for key, typed in entries.items()]))
        data = before + block + after
        found, end = decode_properties(data, len(before), len(data))
        self.assertEqual((plain(found), list(found), end), (entries, list(properties), len(before) + len(block)))
        walked = {
            data[key_start:key_end].decode("utf-16-le", "surrogatepass"): plain_value(kind, decode_value(data, kind, start, stop))
            for key_start, key_end, kind, start, stop in walk(data, len(before), len(data))
        }
        self.assertEqual(walked, entries)

    @examples(500)
    @given(data=st.data(), entries=PROPERTIES)
    def test_damaged_block_is_refused_or_read_alike(self, data: st.DataObject, entries: dict[str, tuple[int, Any]]) -> None:
        block = grammar_messages.PROPERTIES.build([(key, *typed) for key, typed in entries.items()])
        damaged = data.draw(damage(block))
        self.assertEqual(
            verdict(lambda raw: plain(decode_properties(raw, 0, len(raw))[0]), damaged),
            verdict(lambda raw: {key: (kind, value) for key, kind, value in grammar_messages.PROPERTIES.parse(raw)}, damaged),
            damaged.hex(),
        )
        self.assertEqual(
            verdict(lambda raw: decode_properties(raw, 0, len(raw)) and None, damaged),
            verdict(lambda raw: check_block(raw, 0, len(raw)), damaged),
            damaged.hex(),
        )

    @examples(200)
    @given(entries=PROPERTIES, other=TEXT, before=BINARY)
    def test_one_property_is_found_as_by_a_walk(self, entries: dict[str, tuple[int, Any]], other: str, before: bytes) -> None:
        data = before + grammar_messages.PROPERTIES.build([(key, *typed) for key, typed in entries.items()])
        for key in (*entries, other):
            raw = key.encode("utf-16-le", "surrogatepass")
            walked = [
                (kind, start, end)
                for key_start, key_end, kind, start, end in walk(data, len(before), len(data))
                if data[key_start:key_end] == raw
            ]
            self.assertEqual(find_property(data, len(before), len(data), raw), walked[0] if walked else None)

    @examples(200)
    @given(entries=PROPERTIES, prefixes=st.lists(TEXT.map(lambda text: text[:2]), max_size=3), before=BINARY)
    def test_keys_that_begin_alike_are_found_as_by_a_walk(
        self, entries: dict[str, tuple[int, Any]], prefixes: list[str], before: bytes
    ) -> None:
        data = before + grammar_messages.PROPERTIES.build([(key, *typed) for key, typed in entries.items()])
        for prefix in (*prefixes, *(key[:1] for key in entries), *entries):
            raw = prefix.encode("utf-16-le", "surrogatepass")
            walked = [entry for entry in walk(data, len(before), len(data)) if data[entry[0] : entry[1]].startswith(raw)]
            self.assertEqual(find_prefix(data, len(before), len(data), raw), walked)

    def test_key_inside_another_entry_is_not_a_key(self) -> None:
        inner = encode_properties({"key": (INT, 1)})
        raw = "key".encode("utf-16-le")
        hiding: dict[str, TypedValue] = {"a": (BYTES, inner), "monkey": (STRING, "key"), "keys": (NULL, None)}
        block = encode_properties(hiding)
        self.assertEqual(find_property(block, 0, len(block), raw), None)
        block = encode_properties({**hiding, "key": (INT, 7), "z": (NULL, None)})
        found = find_property(block, 0, len(block), raw)
        assert found is not None
        self.assertEqual(decode_value(block, *found), 7)

    @examples(300)
    @given(data=st.data(), entries=PROPERTIES.filter(bool))
    def test_search_in_a_damaged_block_finds_what_a_walk_finds_or_refuses(
        self, data: st.DataObject, entries: dict[str, tuple[int, Any]]
    ) -> None:
        damaged = data.draw(damage(grammar_messages.PROPERTIES.build([(key, *typed) for key, typed in entries.items()])))
        raw = data.draw(st.sampled_from(sorted(entries))).encode("utf-16-le", "surrogatepass")

        def walked(block: bytes) -> Any:
            for key_start, key_end, kind, start, end in walk(block, 0, len(block)):
                if block[key_start:key_end] == raw:
                    return kind, start, end
            return None

        expected = verdict(walked, damaged)
        found = verdict(lambda block: find_property(block, 0, len(block), raw), damaged)
        if expected == REFUSED:
            self.assertIn(found, (None, REFUSED))  # without the key's bytes the block is not looked at
        else:
            self.assertEqual(found, expected)

    def test_wrong_values_are_refused_when_written(self) -> None:
        wrong: list[tuple[int, Any]] = [
            (BYTE, 128),
            (SHORT, -32769),
            (INT, 1 << 31),
            (LONG, 1 << 63),
            (CHAR, -1),
            (FLOAT, 1e39),
            (FLOAT, "x"),
            (DOUBLE, None),
            (STRING, 5),
            (BYTES, "x"),
            (BYTES, 5),
            (1, 0),
            (12, 0),
            (INT, 1.5),
        ]
        for kind, value in wrong:
            self.assertRaises(ValueError, encode_value, kind, value)

    def test_count_that_cannot_fit_is_refused_before_an_entry_is_read(self) -> None:
        for count in (-1, 3, 0x7FFFFFFF):
            block = struct.pack(">Bi", 1, count) + encode_properties({"k": (INT, 1)})[5:]
            error = self.assertRaises(MalformedPacketError, next, walk(block, 0, len(block), "SESS_SEND"))
            self.assertEqual((error.packet, error.field), ("SESS_SEND", "properties"))

    def test_duplicate_key_keeps_the_last_value(self) -> None:
        entry = encode_properties({"k": (INT, 1)})[5:]
        other = encode_properties({"k": (INT, 2)})[5:]
        data = struct.pack(">Bi", 1, 2) + entry + other
        self.assertEqual(decode_properties(data, 0, len(data))[0], {"k": (INT, 2)})

    def test_every_nan_keeps_its_bits(self) -> None:
        for pattern in (0x7FC00000, 0x7F800001, 0xFFC12345, 0xFFBFFFFF, 0x7FFFFFFF, 0xFF800001):
            data = pattern.to_bytes(4, "big")
            self.assertEqual(encode_f32(decode_f32(data, 0)), data)
        for bits in (0x7FF8000000000000, 0x7FF0000000000001, 0xFFF7FFFFFFFFFFFF):
            block = encode_properties({"k": (DOUBLE, 0.0)})[:-8] + bits.to_bytes(8, "big")
            self.assertEqual(encode_properties(decode_properties(block, 0, len(block))[0]), block)

    def test_nan_of_python_is_a_nan_of_32_bits(self) -> None:
        self.assertEqual(encode_f32(math.nan), bytes.fromhex("7fc00000"))
        special = struct.unpack(">d", bytes.fromhex("7ff0000000000001"))[0]
        self.assertTrue(math.isnan(decode_f32(encode_f32(special), 0)))


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
