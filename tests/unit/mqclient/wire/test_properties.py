"""Properties of the runtime against the grammar."""

from __future__ import annotations

import math
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import MalformedPacketError
from mqclient.wire.packets import grammar_messages
from mqclient.wire.primitives import decode_f32, encode_f32
from mqclient.wire.properties import (
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
    string_property,
    walk,
)
from tests.unit.mqclient.wire.strategies import BINARY, REFUSED, TEXT, damage, examples
from tests.unit.mqclient.wire.test_message import PROPERTIES, plain, plain_value, runtime_value, verdict


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

    def test_an_entry_that_is_encoded_already_is_the_last(self) -> None:
        for entries in ({}, {"k": (INT, 1), "other": (STRING, "é")}):
            block = encode_properties(entries, string_property("last", "ü"))
            self.assertEqual(block, encode_properties({**entries, "last": (STRING, "ü")}))

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
