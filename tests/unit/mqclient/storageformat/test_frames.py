"""Segments and frames: what is read back is what was written, and nothing else is taken for it."""

from __future__ import annotations

from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mqclient.storageformat.frames import (
    FORMAT_VERSION,
    FRAME_HEADER_SIZE,
    HEADER_SIZE,
    KIND_BINDINGS,
    KIND_MESSAGES,
    SegmentHeader,
    StorageFormatError,
    decode_segment_header,
    encode_frame,
    find_frames,
    frame_at,
    read_frames,
)

NODE = bytes(range(16))
HEADER = SegmentHeader(KIND_MESSAGES, 7, NODE, 0x1122334455667788, 3, 4096, 5)

headers = st.builds(
    SegmentHeader,
    kind=st.sampled_from((KIND_MESSAGES, KIND_BINDINGS)),
    sequence=st.integers(1, 2**63),
    node_id=st.binary(min_size=16, max_size=16),
    salt=st.integers(0, 2**64 - 1),
    first=st.integers(1, 2**63),
    previous_end=st.integers(0, 2**40),
    mark=st.integers(0, 2**63),
)


def segment(contents: list[bytes], header: SegmentHeader = HEADER) -> bytearray:
    """A segment's bytes with a frame for each content; each frame takes all before it for durable."""
    data = bytearray(header.encode())
    for content in contents:
        data += encode_frame([content], header.seed, len(data), len(data))
    return data


class SegmentHeaderTests(TestCase):
    @given(headers)
    def test_round_trip(self, header: SegmentHeader) -> None:
        data = header.encode()
        self.assertEqual(len(data), HEADER_SIZE)
        self.assertEqual(decode_segment_header(data + b"frames"), header)

    @given(st.integers(0, HEADER_SIZE * 8 - 1))
    def test_any_flipped_bit_is_noticed(self, bit: int) -> None:
        data = bytearray(HEADER.encode())
        data[bit // 8] ^= 1 << bit % 8
        self.assertRaises(StorageFormatError, decode_segment_header, bytes(data))

    def test_another_version_is_named(self) -> None:
        data = bytearray(HEADER.encode())
        data[9] = FORMAT_VERSION + 1
        with self.assertRaisesRegex(StorageFormatError, f"journal format {FORMAT_VERSION + 1}"):
            decode_segment_header(bytes(data))

    def test_a_short_one_is_refused(self) -> None:
        for size in range(HEADER_SIZE):
            self.assertRaises(StorageFormatError, decode_segment_header, HEADER.encode()[:size])


class FrameTests(TestCase):
    @given(st.lists(st.binary(max_size=200), max_size=8), st.binary(max_size=40))
    def test_frames_come_back_in_order(self, contents: list[bytes], rest: bytes) -> None:
        """What stands behind the last frame is not read."""
        data = bytes(segment(contents)) + rest
        found = list(read_frames(memoryview(data), HEADER.seed))
        self.assertEqual([bytes(frame.content) for frame in found], contents)

    @given(st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.data())
    def test_a_flipped_bit_ends_the_walk_there(self, contents: list[bytes], data: st.DataObject) -> None:
        raw = segment(contents)
        frames = list(read_frames(memoryview(bytes(raw)), HEADER.seed))
        damaged = data.draw(st.integers(0, len(frames) - 1))
        frame = frames[damaged]
        bit = data.draw(st.integers(frame.offset * 8, frame.end * 8 - 1))
        raw[bit // 8] ^= 1 << bit % 8
        self.assertEqual(len(list(read_frames(memoryview(bytes(raw)), HEADER.seed))), damaged)

    @given(st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.data())
    def test_a_cut_segment_keeps_what_is_before_the_cut(self, contents: list[bytes], data: st.DataObject) -> None:
        raw = bytes(segment(contents))
        ends = [frame.end for frame in read_frames(memoryview(raw), HEADER.seed)]
        cut = data.draw(st.integers(HEADER_SIZE, len(raw)))
        found = list(read_frames(memoryview(raw[:cut]), HEADER.seed))
        self.assertEqual(len(found), sum(end <= cut for end in ends))

    def test_a_frame_counts_only_where_it_was_written(self) -> None:
        """The same bytes at another offset, in another segment, or of another node are not a frame."""
        frame = bytes(encode_frame([b"content"], HEADER.seed, HEADER_SIZE, HEADER_SIZE))
        there = memoryview(HEADER.encode() + frame)
        self.assertIsNotNone(frame_at(there, HEADER_SIZE, HEADER.seed))
        self.assertIsNone(frame_at(memoryview(HEADER.encode() + b"\0" + frame), HEADER_SIZE + 1, HEADER.seed))
        for other in (
            SegmentHeader(KIND_MESSAGES, 8, NODE, HEADER.salt, 3, 4096, 5),
            SegmentHeader(KIND_MESSAGES, 7, NODE[::-1], HEADER.salt, 3, 4096, 5),
            SegmentHeader(KIND_MESSAGES, 7, NODE, HEADER.salt + 1, 3, 4096, 5),
        ):
            self.assertIsNone(frame_at(there, HEADER_SIZE, other.seed))

    def test_a_frame_inside_a_message_is_not_found(self) -> None:
        """Somebody sends a message that contains a frame as this program writes them; without the salt its checksum is wrong."""
        guessed = SegmentHeader(KIND_MESSAGES, 7, NODE, 0, 3, 4096, 5)
        inner_offset = HEADER_SIZE + FRAME_HEADER_SIZE
        forged = bytes(encode_frame([b"forged"], guessed.seed, inner_offset, 1 << 20))
        raw = segment([forged])
        raw[HEADER_SIZE] ^= 1
        self.assertEqual(list(find_frames(bytes(raw), HEADER.seed, HEADER_SIZE)), [])

    def test_frames_behind_damage_are_found(self) -> None:
        raw = segment([b"one", b"two", b"three"])
        frames = list(read_frames(memoryview(bytes(raw)), HEADER.seed))
        raw[frames[1].offset + 8] ^= 0x40
        found = list(find_frames(bytes(raw), HEADER.seed, frames[0].end))
        self.assertEqual([bytes(frame.content) for frame in found], [b"three"])
        self.assertGreater(found[0].durable, frames[1].offset)
