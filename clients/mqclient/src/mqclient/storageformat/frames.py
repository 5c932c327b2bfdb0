"""Segments and frames: the outer form of a journal (decision 4).  Pure: bytes in, bytes out.

A journal is a row of segment files with ascending sequence numbers.  A segment is one header and then frames without gaps; bytes after the
last frame mean nothing (zeros of a preallocated file, or the rest of a write that a crash has torn).

Segment header, ``HEADER_SIZE`` bytes, big-endian::

    magic "mqbJRNL\\n", u16 format version, u8 kind (1 messages, 2 bindings, 3 page), u8 zero, u32 zero, u64 sequence, 16 bytes node id,
    u64 salt, u64 first, u64 previous end, u64 mark, u32 CRC-32 of all before

``first`` is the oldest sequence still needed when the segment was begun; older files are dead even if a crash has brought them back.
``previous end`` is where the frames of the preceding segment end: a whole segment is known to be whole.  ``mark`` is the highest mark
(see ``records.Mark``) written before this segment.

A frame becomes durable as a whole or not at all::

    magic "mqFR", u32 checksum, u32 length of the content, u32 durable, content (records)

The checksum is CRC-32 over length, durable and content, begun with a seed of salt, sequence and node id, mixed with the frame's offset: a
frame that was copied elsewhere or survives in a recycled file never counts, and a sender that does not know the salt cannot forge a frame
inside a message.  ``durable`` is the offset up to which the segment was synced before this frame was written.  This offset tells a torn
write (no later work was ever acknowledged) from damage in the middle (a later frame has a ``durable`` beyond the place).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FORMAT_VERSION = 3
"""The version that is written; versions from 1 on are read.  2 came with the branches of XA transactions, 3 with pages."""

KIND_MESSAGES = 1
KIND_BINDINGS = 2
KIND_PAGE = 3

SEGMENT_MAGIC = b"mqbJRNL\n"
FRAME_MAGIC = b"mqFR"

_HEADER = struct.Struct(">8sHBBIQ16sQQQQ")
_SEED = struct.Struct(">QQ16s")
_U32 = struct.Struct(">I")
_FRAME = struct.Struct(">4sIII")
HEADER_SIZE = _HEADER.size + 4
FRAME_HEADER_SIZE = _FRAME.size
_NO_HEADER_YET = bytes(FRAME_HEADER_SIZE)
SEGMENT_SIZE_MAX = 1 << 30
"""Bytes of a journal file: offsets and lengths in a frame are 32 bits wide, and one frame may stand beyond the size of its segment."""


class StorageFormatError(ValueError):
    """Bytes that are not of this format; the text names the expected form."""


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The beginning of a segment file; the fields are described at the top of the module."""

    kind: int
    sequence: int
    node_id: bytes
    salt: int
    first: int
    previous_end: int
    mark: int

    def encode(self) -> bytes:
        data = _HEADER.pack(
            SEGMENT_MAGIC,
            FORMAT_VERSION,
            self.kind,
            0,
            0,
            self.sequence,
            self.node_id,
            self.salt,
            self.first,
            self.previous_end,
            self.mark,
        )
        return data + _U32.pack(zlib.crc32(data))

    @property
    def seed(self) -> int:
        """The start value for checksums of this segment's frames, before the offset is mixed in."""
        return zlib.crc32(_SEED.pack(self.salt, self.sequence, self.node_id))


def decode_segment_header(data: bytes, lenient: bool = False) -> SegmentHeader:
    """Read the header at the start of ``data``.

    ``lenient`` accepts a wrong checksum (for salvage).  Raises :class:`StorageFormatError`.
    """
    if len(data) < HEADER_SIZE:
        raise StorageFormatError(f"segment header cut off after {len(data)} of {HEADER_SIZE} bytes")
    magic, version, kind, _, _, sequence, node_id, salt, first, previous_end, mark = _HEADER.unpack_from(data)
    whole = zlib.crc32(data[: _HEADER.size]) == _U32.unpack_from(data, _HEADER.size)[0]
    if not lenient:
        if magic != SEGMENT_MAGIC:
            raise StorageFormatError("not a journal segment of mqbroker")
        if not 1 <= version <= FORMAT_VERSION:
            raise StorageFormatError(f"journal format {version}; this version reads formats 1 to {FORMAT_VERSION}")
        if not whole:
            raise StorageFormatError("checksum of the segment header is wrong")
    return SegmentHeader(kind, sequence, node_id, salt, first, previous_end, mark)


def encode_frame(parts: Sequence[bytes], seed: int, offset: int, durable: int) -> bytearray:
    """The frame for ``offset`` of the segment with this ``seed``; ``parts`` together are its content."""
    frame = bytearray().join((_NO_HEADER_YET, *parts))
    _FRAME.pack_into(frame, 0, FRAME_MAGIC, 0, len(frame) - FRAME_HEADER_SIZE, durable)
    with memoryview(frame) as view:
        checksum = zlib.crc32(view[8:], seed ^ offset)
    _U32.pack_into(frame, 4, checksum)
    return frame


@dataclass(slots=True)
class Frame:
    """A frame whose checksum is right, from ``offset`` to before ``end``; ``durable`` as described above."""

    offset: int
    end: int
    durable: int
    content: memoryview


def frame_at(data: memoryview, offset: int, seed: int, base: int = 0) -> Frame | None:
    """The frame at ``offset`` of a segment's bytes, which begin at offset ``base`` of it; None when there is no valid one."""
    if offset + FRAME_HEADER_SIZE > len(data):
        return None
    magic, checksum, length, durable = _FRAME.unpack_from(data, offset)
    end = offset + FRAME_HEADER_SIZE + length
    if magic != FRAME_MAGIC or end > len(data) or zlib.crc32(data[offset + 8 : end], seed ^ (base + offset)) != checksum:
        return None
    return Frame(offset, end, durable, data[offset + FRAME_HEADER_SIZE : end])


def frame_end(data: bytes | memoryview) -> int:
    """The end of the frame at the beginning of ``data``, as its header says; not checked."""
    return FRAME_HEADER_SIZE + int(_FRAME.unpack_from(data)[2]) if len(data) >= FRAME_HEADER_SIZE else FRAME_HEADER_SIZE


def read_frames(data: memoryview, seed: int, start: int = HEADER_SIZE, end: int | None = None) -> Iterator[Frame]:
    """Frame after frame from ``start``, up to ``end`` or the first place without a valid frame."""
    limit = len(data) if end is None else end
    while start < limit:
        frame = frame_at(data, start, seed)
        if frame is None or frame.end > limit:
            return
        yield frame
        start = frame.end


def find_frames(data: bytes, seed: int, start: int) -> Iterator[Frame]:
    """All valid frames from ``start`` on, with any bytes between them: for reading behind a damaged place."""
    view = memoryview(data)
    while (at := data.find(FRAME_MAGIC, start)) >= 0:
        frame = frame_at(view, at, seed)
        if frame is None:
            start = at + 1
        else:
            yield frame
            start = frame.end


def claimed_content(data: memoryview, offset: int) -> memoryview:
    """The bytes that the damaged frame at ``offset`` may contain: by its length if that is possible, else all that follow."""
    if offset + FRAME_HEADER_SIZE > len(data):
        return data[len(data) :]
    _, _, length, _ = _FRAME.unpack_from(data, offset)
    start = offset + FRAME_HEADER_SIZE
    end = start + length
    return data[start : end if end <= len(data) else len(data)]


def claimed_contents(data: bytes, start: int, end: int) -> Iterator[memoryview]:
    """The bytes that each of the damaged frames from ``start`` to before ``end`` may contain."""
    view = memoryview(data)[:end]
    while start < end:
        content = claimed_content(view, start)
        yield content
        following = start + FRAME_HEADER_SIZE + len(content)
        if following >= end or not data.startswith(FRAME_MAGIC, following):
            # Its length may be damaged.
            found = data.find(FRAME_MAGIC, start + 1, end)
            following = found if found >= 0 else following
        start = following


class RecordDecoder:
    """A place in the content of a frame."""

    __slots__ = ("at", "data")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            raise StorageFormatError(f"record of {length} bytes at {self.at} exceeds its frame of {len(self.data)} bytes")
        piece = bytes(self.data[self.at : end])
        self.at = end
        return piece

    def numbers(self, form: struct.Struct) -> tuple[int, ...]:
        values = form.unpack_from(self.data, self.at)
        self.at += form.size
        return values

    def sized(self) -> bytes:
        return self.take(self.numbers(_U32)[0])

    def row(self, width: int = 1) -> tuple[int, ...]:
        """Groups of ``width`` numbers, as many as the count before them says."""
        count = self.numbers(_U32)[0] * width
        return struct.unpack(f">{count}q", self.take(8 * count))
