"""Cutting the byte stream into frames."""

from __future__ import annotations

import itertools
import struct

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import FrameTooLargeError, MalformedPacketError
from mqclient.wire.frames import FRAME_SIZE_BEFORE_SESSION, HEADER, FrameSplitter, frame
from tests.unit.mqclient.wire.strategies import I64, examples

FRAMES = st.lists(st.builds(frame, st.integers(-128, 127), I64, st.binary(max_size=40)), max_size=8)
BAD_LENGTH = st.sampled_from((-0x80000000, -1, 0, 8, 1000, 0x7FFFFFFB)).map(lambda length: struct.pack(">i", length))
LIMIT = 64


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    """``data`` cut at these places."""
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


class SplitterTests(SynchronousTestCase):
    @examples(300)
    @given(frames=FRAMES, cuts=st.lists(st.integers(0, 450), max_size=12))
    def test_frames_do_not_depend_on_how_the_bytes_arrive(self, frames: list[bytes], cuts: list[int]) -> None:
        splitter = FrameSplitter(LIMIT)
        found = [one for chunk in chunks(b"".join(frames), cuts) for one in splitter.feed(chunk)]
        self.assertEqual((found, splitter.error, splitter.buffered), (frames, None, 0))

    @examples(100)
    @given(frames=FRAMES)
    def test_byte_by_byte(self, frames: list[bytes]) -> None:
        splitter = FrameSplitter(LIMIT)
        data = b"".join(frames)
        self.assertEqual([one for i in range(len(data)) for one in splitter.feed(data[i : i + 1])], frames)

    @examples(300)
    @given(frames=FRAMES, bad=BAD_LENGTH, after=st.binary(max_size=80), cuts=st.lists(st.integers(0, 500), max_size=8))
    def test_frames_before_a_violation_are_not_lost(self, frames: list[bytes], bad: bytes, after: bytes, cuts: list[int]) -> None:
        splitter = FrameSplitter(LIMIT)
        found = [one for chunk in chunks(b"".join(frames) + bad + after, cuts) for one in splitter.feed(chunk)]
        self.assertEqual(found, frames)
        self.assertIsInstance(splitter.error, (FrameTooLargeError, MalformedPacketError))
        self.assertEqual((splitter.feed(frame(10, 0, b"")), splitter.buffered), ([], 0))

    @examples(200)
    @given(frames=FRAMES, cut=st.integers(1, 60), cuts=st.lists(st.integers(0, 450), max_size=8))
    def test_incomplete_frame_is_held_and_nothing_more(self, frames: list[bytes], cut: int, cuts: list[int]) -> None:
        whole = [*frames, frame(1, 2, bytes(47))]
        data = b"".join(whole)
        kept = data[: len(data) - min(cut, 59)]
        splitter = FrameSplitter(LIMIT)
        found = [one for chunk in chunks(kept, cuts) for one in splitter.feed(chunk)]
        self.assertEqual((found, splitter.buffered), (frames, len(kept) - len(b"".join(frames))))
        self.assertEqual(splitter.feed(data[len(kept) :]), whole[-1:])

    def test_greatest_frame_is_taken_and_one_byte_more_refused(self) -> None:
        splitter = FrameSplitter(LIMIT)
        greatest = frame(10, 0, bytes(LIMIT - 13))
        self.assertEqual(splitter.feed(greatest), [greatest])
        self.assertEqual(splitter.feed(frame(10, 0, bytes(LIMIT - 12))[:4]), [])
        self.assertIsInstance(splitter.error, FrameTooLargeError)

    def test_too_short_frame_names_frame_and_length(self) -> None:
        splitter = FrameSplitter()
        splitter.feed(b"\x00\x00\x00\x08")
        assert isinstance(splitter.error, MalformedPacketError)
        self.assertEqual((splitter.error.packet, splitter.error.field), ("frame", "length"))

    def test_limit_before_a_session_refuses_by_the_length_alone(self) -> None:
        splitter = FrameSplitter()
        self.assertEqual(splitter.feed(struct.pack(">i", FRAME_SIZE_BEFORE_SESSION - 3)), [])
        self.assertIsInstance(splitter.error, FrameTooLargeError)

    def test_limit_can_be_raised_between_frames(self) -> None:
        splitter = FrameSplitter(20)
        splitter.limit = LIMIT
        big = frame(10, 0, bytes(30))
        self.assertEqual(splitter.feed(big), [big])

    def test_frame_is_length_type_channel_body(self) -> None:
        data = frame(-18, 1, b"xyz")
        self.assertEqual((HEADER.unpack_from(data), data[13:]), ((12, -18, 1), b"xyz"))
