"""Strings, nullables and compounds of the runtime against the grammar, and the reader's limits."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import construct
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import MalformedPacketError
from mqclient.wire import grammar_types
from mqclient.wire.primitives import Long, Reader, TransportConfiguration, Writer, Xid, decode_utf, encode_utf
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

LONG_TEXT = st.tuples(CHARACTERS, st.sampled_from((8, 9, 10, 4094, 4095, 4096)), TEXT).map(
    lambda parts: paired((parts[2] + parts[0] * parts[1])[: parts[1]])
)

KINDS: dict[str, tuple[Any, Callable[[Writer, Any], None], Callable[[Reader], Any]]] = {
    "i8": (grammar_types.I8, Writer.i8, Reader.i8),
    "i32": (grammar_types.I32, Writer.i32, Reader.i32),
    "i64": (grammar_types.I64, Writer.i64, Reader.i64),
    "bool": (grammar_types.BOOL, Writer.boolean, Reader.boolean),
    "Str": (grammar_types.STR, Writer.string, Reader.string),
    "NStr": (grammar_types.NSTR, Writer.nullable_string, Reader.nullable_string),
    "SStr": (grammar_types.SSTR, Writer.simple_string, Reader.simple_string),
    "NSStr": (grammar_types.NSSTR, Writer.nullable_simple_string, Reader.nullable_simple_string),
    "NBool": (grammar_types.NBOOL, Writer.nullable_bool, Reader.nullable_bool),
    "NInt": (grammar_types.NINT, Writer.nullable_int, Reader.nullable_int),
    "NLong": (grammar_types.NLONG, Writer.nullable_long, Reader.nullable_long),
}


def written(write: Callable[[Writer, Any], None], value: Any) -> bytes:
    out = Writer()
    write(out, value)
    return bytes(out.data)


def read(kind: Callable[[Reader], Any], data: bytes) -> Any:
    """(value, bytes taken), or REFUSED."""
    source = Reader(data, "packet")
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
        raw = written(Writer.xid, Xid(*value))
        self.assertEqual(raw, grammar_types.XID.build(value))
        damaged = data.draw(st.just(raw) | damage(raw))
        self.assertEqual(read(Reader.xid, damaged), parsed(grammar_types.XID, damaged))

    @examples(150)
    @given(data=st.data(), value=TRANSPORT)
    def test_connector(self, data: st.DataObject, value: tuple[Any, ...]) -> None:
        raw = written(Writer.transport, transport_object(value))
        self.assertEqual(raw, grammar_types.TRANSPORT.build(value))

        def reader(source: Reader) -> tuple[Any, ...]:
            return transport_values(source.transport())

        damaged = data.draw(st.just(raw) | damage(raw))
        self.assertEqual(read(reader, damaged), parsed(grammar_types.TRANSPORT, damaged))


class UtfTests(SynchronousTestCase):
    """The UTF form, which Python's own codec knows only in part."""

    @examples(300)
    @given(text=TEXT)
    def test_written_as_the_grammar_does(self, text: str) -> None:
        self.assertEqual(encode_utf(text), grammar_types.utf_form(text))
        self.assertEqual(decode_utf(encode_utf(text)), text)

    @examples(800)
    @given(data=st.lists(st.sampled_from(b"a\x00\x80\xbf\xc0\xc1\xc3\xdf\xe0\xa0\x9f\xed\xb0\xef\xf0\xff"), max_size=7).map(bytes))
    def test_any_bytes_are_refused_or_read_alike(self, data: bytes) -> None:
        def verdict(decode: Callable[[bytes], str]) -> str:
            try:
                return decode(data)
            except ValueError:
                return REFUSED

        self.assertEqual(verdict(decode_utf), verdict(grammar_types.read_utf_form))

    def test_known_forms(self) -> None:
        for text, raw in (
            ("", "00000000"),
            ("ab", "0000000200610062"),
            ("ABCDEFGH", "0000000800410042004300440045004600470048"),
            ("ABCDEFGHI", "000000090009414243444546474849"),
            ("é€😀12345", "000000090010c3a9e282aceda0bdedb8803132333435"),
        ):
            self.assertEqual(written(Writer.string, text).hex(), raw)
        self.assertEqual(written(Writer.string, "a" * 4094)[:6].hex(), "00000ffe0ffe")
        self.assertEqual(len(written(Writer.string, "a" * 4094)), 4100)
        self.assertEqual(written(Writer.string, "a" * 4095)[:10].hex(), "00000fff00001ffe6100")
        self.assertEqual(written(Writer.simple_string, "aé😀").hex(), "000000086100e9003dd800de")

    def test_nul_of_old_peers(self) -> None:
        self.assertEqual(decode_utf(b"a\xc0\x80b"), "a\x00b")

    def test_four_byte_character_is_refused(self) -> None:
        self.assertRaises(ValueError, decode_utf, "😀".encode())


class LimitTests(SynchronousTestCase):
    def reader(self, data: bytes) -> Reader:
        source = Reader(data, "packet")
        source.field = "field"
        return source

    def test_lengths_outside_the_packet_are_refused(self) -> None:
        for length in (-0x80000000, -2, -1, 0x7FFFFFFE, 0x7FFFFFFF):
            data = struct.pack(">i", length) + b"abcd" * 4
            for kind in (Reader.string, Reader.simple_string, Reader.xid, Reader.transport):
                self.assertRaises(MalformedPacketError, kind, self.reader(data))
            self.assertRaises(MalformedPacketError, self.reader(data).raw, length)

    def test_counts_that_cannot_fit_are_refused_before_any_item_is_read(self) -> None:
        for count in (-1, 3, 0x7FFFFFFF):
            error = self.assertRaises(MalformedPacketError, self.reader(struct.pack(">i", count) + b"12345678").count, 4)
            self.assertEqual((error.packet, error.field), ("packet", "field"))

    def test_odd_length_of_a_simple_string_is_refused(self) -> None:
        self.assertRaises(MalformedPacketError, self.reader(b"\x00\x00\x00\x03abc").simple_string)

    def test_unknown_parameter_type_is_refused(self) -> None:
        raw = written(Writer.transport, TransportConfiguration("n", "f", (("k", True),)))
        error = self.assertRaises(MalformedPacketError, self.reader(raw[:-2] + b"\x09\x00").transport)
        self.assertIn("9", error.reason)

    def test_reader_stops_at_its_end_not_at_that_of_the_data(self) -> None:
        source = Reader(b"\x00\x00\x00\x02a\x00", "packet", 0, 4)
        self.assertRaises(MalformedPacketError, source.simple_string)

    def test_integer_parameter_is_long_where_it_must_be(self) -> None:
        configuration = TransportConfiguration("n", "f", (("a", 5), ("b", Long(5)), ("c", 1 << 40)))
        kinds = transport_values(self.reader(written(Writer.transport, configuration)).transport())[2]
        self.assertEqual(kinds, (("a", 1, 5), ("b", 2, 5), ("c", 2, 1 << 40)))
