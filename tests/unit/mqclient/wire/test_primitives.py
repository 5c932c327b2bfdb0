"""Strings, nullables and compounds of the runtime against the grammar, and the reader's limits."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import MalformedPacketError
from mqclient.wire.packets import grammar_types
from mqclient.wire.primitives import Decoder, Encoder, Long, TransportConfiguration, decode_utf, encode_utf
from tests.unit.mqclient.wire.strategies import (
    REFUSED,
    TEXT,
    examples,
    transport_values,
)


def written(write: Callable[[Encoder, Any], None], value: Any) -> bytes:
    out = Encoder()
    write(out, value)
    return bytes(out.data)


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
            self.assertEqual(written(Encoder.string, text).hex(), raw)
        self.assertEqual(written(Encoder.string, "a" * 4094)[:6].hex(), "00000ffe0ffe")
        self.assertEqual(len(written(Encoder.string, "a" * 4094)), 4100)
        self.assertEqual(written(Encoder.string, "a" * 4095)[:10].hex(), "00000fff00001ffe6100")
        self.assertEqual(written(Encoder.simple_string, "aé😀").hex(), "000000086100e9003dd800de")

    def test_nul_of_old_peers(self) -> None:
        self.assertEqual(decode_utf(b"a\xc0\x80b"), "a\x00b")

    def test_four_byte_character_is_refused(self) -> None:
        self.assertRaises(ValueError, decode_utf, "😀".encode())


class LimitTests(SynchronousTestCase):
    def reader(self, data: bytes) -> Decoder:
        source = Decoder(data, "packet")
        source.field = "field"
        return source

    def test_lengths_outside_the_packet_are_refused(self) -> None:
        for length in (-0x80000000, -2, -1, 0x7FFFFFFE, 0x7FFFFFFF):
            data = struct.pack(">i", length) + b"abcd" * 4
            for kind in (Decoder.string, Decoder.simple_string, Decoder.xid, Decoder.transport):
                self.assertRaises(MalformedPacketError, kind, self.reader(data))
            self.assertRaises(MalformedPacketError, self.reader(data).raw, length)

    def test_counts_that_cannot_fit_are_refused_before_any_item_is_read(self) -> None:
        for count in (-1, 3, 0x7FFFFFFF):
            error = self.assertRaises(MalformedPacketError, self.reader(struct.pack(">i", count) + b"12345678").count, 4)
            self.assertEqual((error.packet, error.field), ("packet", "field"))

    def test_odd_length_of_a_simple_string_is_refused(self) -> None:
        self.assertRaises(MalformedPacketError, self.reader(b"\x00\x00\x00\x03abc").simple_string)

    def test_unknown_parameter_type_is_refused(self) -> None:
        raw = written(Encoder.transport, TransportConfiguration("n", "f", (("k", True),)))
        error = self.assertRaises(MalformedPacketError, self.reader(raw[:-2] + b"\x09\x00").transport)
        self.assertIn("9", error.reason)

    def test_reader_stops_at_its_end_not_at_that_of_the_data(self) -> None:
        source = Decoder(b"\x00\x00\x00\x02a\x00", "packet", 0, 4)
        self.assertRaises(MalformedPacketError, source.simple_string)

    def test_integer_parameter_is_long_where_it_must_be(self) -> None:
        configuration = TransportConfiguration("n", "f", (("a", 5), ("b", Long(5)), ("c", 1 << 40)))
        kinds = transport_values(self.reader(written(Encoder.transport, configuration)).transport())[2]
        self.assertEqual(kinds, (("a", 1, 5), ("b", 2, 5), ("c", 2, 1 << 40)))
