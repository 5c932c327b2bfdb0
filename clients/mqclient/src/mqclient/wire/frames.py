"""Frames: the form of packets in the byte stream.

Wire layout (``protocol-spec/``, chapter "Transport")::

    0   4  i32 length of what follows: type + channel + body
    4   1  i8  packet type
    5   8  i64 channel
    13  n      body
"""

from __future__ import annotations

import struct
from typing import Any, Protocol, cast

from mqclient.errors import FrameTooLargeError, MalformedPacketError

PREAMBLE = b"ARTEMIS"
"""The bytes that a client writes once, before its first frame."""

HEADER = struct.Struct(">ibq")
HEADER_SIZE = 13
"""Bytes of a frame before its body (the Java constant PACKET_HEADERS_SIZE)."""

FRAME_SIZE_MIN = 13
FRAME_SIZE_BEFORE_SESSION = 64 * 1024
"""Bytes of one frame before a session exists: no packet needs more until then, and no memory is spent on a peer that claims so."""

FRAME_SIZE_MAX = 100 * 1024 * 1024
"""Bytes of one frame once a session exists, unless the server is told otherwise; greater messages are large messages, which come in
chunks."""

PING_CHANNEL = 0
SESSION_CHANNEL = 1
REPLICATION_CHANNEL = 2
CLUSTER_CHANNEL = 3
FEDERATION_CHANNEL = 4
FIRST_USER_CHANNEL = 10

_LENGTH = struct.Struct(">i")
_TYPE_CHANNEL = struct.Struct(">bq")


def frame(packet_type: int, channel: int, body: bytes) -> bytes:
    """One complete frame."""
    return HEADER.pack(9 + len(body), packet_type, channel) + body


class FrameSink(Protocol):
    """The receiver of a frame that is too great for memory."""

    def append(self, data: bytes) -> None: ...

    def take(self) -> bytes | bytearray:
        """All of it; nothing follows."""


class WholeFrame:
    """A :class:`FrameSink` in memory: bytes can be read to where they belong, so that a large frame is not copied again and again."""

    __slots__ = ("_data", "_filled")

    def __init__(self, size: int) -> None:
        self._data = bytearray(size)
        self._filled = 0

    @property
    def room(self) -> memoryview:
        """The place for the next bytes."""
        return memoryview(self._data)[self._filled :]

    def filled(self, size: int) -> None:
        """So many bytes of the room have come."""
        self._filled += size

    def append(self, data: bytes) -> None:
        self.room[: len(data)] = data
        self._filled += len(data)

    def take(self) -> bytearray:
        """The frame."""
        return self._data


class FrameSplitter:
    """Cuts received bytes into frames.

    ``limit`` is the greatest frame size in bytes (length field included) that is accepted; it may be raised at any time.
    A violation is kept in ``error`` after the frames before it were returned, so that no frame is lost.
    """

    __slots__ = ("_buffer", "_need", "_sink", "_sunk", "error", "limit")

    def __init__(self, limit: int = FRAME_SIZE_BEFORE_SESSION) -> None:
        self.limit = limit
        self.error: FrameTooLargeError | MalformedPacketError | None = None
        self._buffer = bytearray()
        self._need = 4
        self._sink: FrameSink | None = None
        self._sunk = 0

    @property
    def buffered(self) -> int:
        """Bytes held in memory for a frame that is not complete."""
        return len(self._buffer)

    @property
    def incomplete(self) -> int:
        """Bytes that have come of a frame that is not complete, wherever they are."""
        return len(self._buffer) + self._sunk

    def announced(self) -> tuple[int, int, int]:
        """Size, packet type and channel of the incomplete frame, whose header must be there."""
        return self._need, *_TYPE_CHANNEL.unpack_from(self._buffer, 4)

    def peek(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes at ``offset`` of the frame that is not complete, as far as they are in memory."""
        return bytes(self._buffer[offset : offset + size])

    def continue_in(self, sink: FrameSink) -> None:
        """The incomplete frame goes on in ``sink``, which also gets the bytes so far."""
        self._sink = sink
        data = bytes(self._buffer)
        self._buffer.clear()
        self._sunk = len(data)
        sink.append(data)

    def fill(self, size: int) -> bytearray | None:
        """So many bytes have come into the :class:`WholeFrame` in which the frame goes on; the frame when it is complete."""
        sink = self._sink
        assert isinstance(sink, WholeFrame)
        sink.filled(size)
        self._sunk += size
        if self._sunk < self._need:
            return None
        self._sink = None
        self._sunk = 0
        return sink.take()

    def feed(self, data: bytes) -> list[bytes]:
        """The complete frames (with their length fields) that ``data`` finishes, in order.

        A bytearray stands in for the bytes of one that went on in a :class:`WholeFrame`.
        """
        frames: list[bytes] = []
        if self.error is not None:
            return frames
        if self._sink is not None:
            missing = self._need - self._sunk
            self._sink.append(data[:missing])
            if len(data) < missing:
                self._sunk += len(data)
                return frames
            frames.append(cast(Any, self._sink.take()))
            self._sink = None
            self._sunk = 0
            data = data[missing:]
        buffer = self._buffer
        size = len(data)
        offset = 0
        if buffer:
            missing = self._need - len(buffer)
            if size < missing:
                buffer += data
                return frames
            if len(buffer) >= 4:
                # Only the awaited frame is joined: each frame of a large message is longer than one read.
                frames.append(b"".join((buffer, memoryview(data)[:missing])))
                offset = missing
            else:
                data = bytes(buffer) + data
                size = len(data)
            buffer.clear()
        unpack = _LENGTH.unpack_from
        need = 4
        while size - offset >= 4:
            length: int = unpack(data, offset)[0]
            need = length + 4
            if need < FRAME_SIZE_MIN or need > self.limit:
                self._refuse(need)
                return frames
            end = offset + need
            if end > size:
                break
            frames.append(data[offset:end])
            offset = end
            need = 4
        if offset < size:
            buffer += data[offset:] if offset else data
        self._need = need
        return frames

    def _refuse(self, need: int) -> None:
        self._buffer.clear()
        if need < FRAME_SIZE_MIN:
            self.error = MalformedPacketError("frame", "length", f"{need - 4} is less than the 9 bytes of type and channel")
        else:
            self.error = FrameTooLargeError(f"a frame of {need} bytes is announced, {self.limit} are allowed")
