"""Offsets as JSON, and how ranges are cut and limits shared."""

from __future__ import annotations

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqspark.errors import BadOptionError, MqsparkError
from mqspark.reading.offsets import PART_MESSAGES, PARTS_MAX, Offset, parts_of, share, split

positions = st.dictionaries(
    st.text(min_size=1, max_size=3), st.dictionaries(st.text(min_size=1, max_size=3), st.integers(-1, 2**63 - 1), max_size=3), max_size=3
)


class OffsetTests(SynchronousTestCase):
    @given(st.text(), positions, positions)
    def test_what_is_written_is_read(self, reader: str, nodes: dict[str, dict[str, int]], begins: dict[str, dict[str, int]]) -> None:
        parts = {node: {queue: [max(end, 0)] for queue, end in queues.items()} for node, queues in nodes.items()}
        offset = Offset(reader, nodes, begins, parts)
        self.assertEqual(Offset.parse(json.loads(json.dumps(offset.as_json()))), offset)

    def test_equal_offsets_have_equal_texts(self) -> None:
        one = Offset("r", {"a": {"x": 1, "y": 2}, "b": {"z": 3}})
        other = Offset("r", {"b": {"z": 3}, "a": {"y": 2, "x": 1}})
        self.assertEqual(json.dumps(one.as_json()), json.dumps(other.as_json()))

    def test_what_is_no_offset_is_named(self) -> None:
        for found in (None, [], {}, {"nodes": []}, {"nodes": {"a": 1}}, {"nodes": {"a": {"q": True}}}, {"nodes": {}, "reader": 1}):
            with self.assertRaisesRegex(MqsparkError, "of the checkpoint cannot be read"):
                Offset.parse(found)
        for parts in ([], {"a": 1}, {"a": {"q": 5}}, {"a": {"q": []}}, {"a": {"q": [5, 5]}}, {"a": {"q": ["x"]}}):
            with self.assertRaisesRegex(MqsparkError, "of the checkpoint cannot be read"):
                Offset.parse({"nodes": {}, "parts": parts})
        for text in ("{", '{"nodes":{"a":{"q":-2}}}', '{"version":3,"nodes":{}}'):
            with self.assertRaisesRegex(BadOptionError, "the option endingOffsets=.*expected"):
                Offset.from_option(text, "endingOffsets")


class PartsTests(SynchronousTestCase):
    @given(st.lists(st.integers(0, 1000), max_size=80), st.integers(1, 100))
    def test_split_keeps_the_end_and_the_order(self, ends: list[int], parts: int) -> None:
        ends = sorted(set(ends))
        found = split(ends, parts)
        self.assertEqual(len(found), min(parts, len(ends)))
        self.assertEqual(found, sorted(set(found)))
        self.assertEqual(found[-1:], ends[-1:])

    def test_parts(self) -> None:
        self.assertEqual(parts_of(10, 1000, 1), 1)
        self.assertEqual(parts_of(10, 1000, 4), 4)
        self.assertEqual(parts_of(3, 1000, 4), 3)
        self.assertEqual(parts_of(3 * PART_MESSAGES, 1000, 1), 3)
        self.assertEqual(parts_of(10, 100 << 20, 1), 4)
        self.assertEqual(parts_of(10**9, 1, 1), PARTS_MAX)
        self.assertEqual(parts_of(10**9, 1, 100), 100)

    @settings(max_examples=500)
    @example(3, [1, 1, 4])
    @given(st.integers(1, 1000), st.lists(st.integers(0, 500), min_size=1, max_size=6))
    def test_shares(self, total: int, amounts: list[int]) -> None:
        found = share(total, amounts)
        self.assertEqual(sum(found), min(total, sum(amounts)))
        self.assertTrue(all(0 <= each <= amount for each, amount in zip(found, amounts, strict=True)))
        if total >= len(amounts):
            self.assertTrue(all(each > 0 for each, amount in zip(found, amounts, strict=True) if amount))
