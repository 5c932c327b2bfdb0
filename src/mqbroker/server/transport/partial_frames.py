"""Incomplete frames, whose memory is bounded over all connections.

A frame may have :data:`~mqclient.wire.frames.FRAME_SIZE_MAX` bytes, and many peers may begin one at the same time.  Beyond the bound, a
frame that goes on growing is continued in a file, beside the bodies of large messages, and read from there when it is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.messaging.message.message import check_properties
from mqbroker.server.transport.limits import CONTROL_FRAME_SIZE_MAX
from mqclient.errors import FrameTooLargeError, MalformedPacketError
from mqclient.wire import packets as wire
from mqclient.wire.frames import FRAME_SIZE_BEFORE_SESSION, HEADER_SIZE, FrameSplitter
from mqclient.wire.message import scan_headers

if TYPE_CHECKING:
    from collections.abc import Container

    from mqbroker.messaging.message.large_body import LargeBody
    from mqbroker.messaging.ports import Store

HELD_MAX = 8 * 1024 * 1024
"""Bytes of incomplete frames that all connections together hold in memory, beside the first 64 KiB of each; a frame that grows beyond it
goes on in a file."""

ON_DISK_MAX = 1024 * 1024 * 1024
"""Bytes of incomplete frames in files; the connection that would exceed them ends."""

_FRAME_BEFORE_BODY = 9
"""Bytes of a frame's type and channel, which lie between its length and the message.  A message counts the end of its body from behind the
length."""

_HEADERS_SIZE = 4096
"""The first bytes of a message; the table of its properties begins within them, unless the address is too long."""

_WITH_MESSAGE = frozenset((wire.SessionSend.TYPE, wire.SessionSendLarge.TYPE, wire.SessionSendContinuation.TYPE))


class PartialFrames:
    """The account over all connections.  ``held`` and ``on_disk`` are bytes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.held = 0
        self.on_disk = 0


class PartialFrame:
    """The incomplete frame of one connection."""

    __slots__ = ("_all", "_file", "_splitter", "held")

    def __init__(self, everybody: PartialFrames, splitter: FrameSplitter) -> None:
        self._all = everybody
        self._splitter = splitter
        self._file: _FrameFile | None = None
        self.held = 0

    def account(self, channels: Container[int]) -> None:
        """Account for bytes that have arrived.  ``channels`` are the channels of the connection's sessions.

        Raises FrameTooLargeError for a long frame that cannot be a message, and when there are too many long frames; MalformedPacketError
        for a message that announces too many properties.
        """
        splitter = self._splitter
        buffered = splitter.buffered
        held = buffered if buffered > FRAME_SIZE_BEFORE_SESSION else 0
        self._all.held += held - self.held
        self.held = held
        if not held:
            return
        size, packet_type, channel = splitter.announced()
        if size > CONTROL_FRAME_SIZE_MAX and (packet_type not in _WITH_MESSAGE or channel not in channels):
            raise FrameTooLargeError(f"a frame of {size} bytes without a message, {CONTROL_FRAME_SIZE_MAX} are allowed")
        self._check_message(packet_type)
        if self._all.held > HELD_MAX:
            self._file = _FrameFile(self._all)
            splitter.continue_in(self._file)
            self._all.held -= held
            self.held = 0

    def _check_message(self, packet_type: int) -> None:
        """Check the properties as soon as their number is known, so that a refused message is not gathered first."""
        at = HEADER_SIZE
        name = wire.SessionSendLarge.NAME
        if packet_type == wire.SessionSend.TYPE:
            at += int.from_bytes(self._splitter.peek(HEADER_SIZE, 4), "big", signed=True) - _FRAME_BEFORE_BODY
            name = wire.SessionSend.NAME
        elif packet_type != wire.SessionSendLarge.TYPE:
            return
        headers = self._splitter.peek(at, _HEADERS_SIZE) if at >= HEADER_SIZE else b""
        if len(headers) < _HEADERS_SIZE:
            return
        try:
            properties = scan_headers(headers, 0).properties
        except MalformedPacketError:
            return  # that is told when the frame is complete
        check_properties(headers, properties, name)

    def drop(self) -> None:
        """Forget the frame, whose rest will not arrive."""
        self._all.held -= self.held
        self.held = 0
        if self._file is not None:
            self._file.close()
            self._file = None


class _FrameFile:
    """A frame in a file (a :class:`~mqclient.wire.frames.FrameSink`)."""

    __slots__ = ("_all", "_body")

    def __init__(self, everybody: PartialFrames) -> None:
        self._all = everybody
        self._body: LargeBody | None = everybody.store.create_large_body(everybody.store.next_id())

    def append(self, data: bytes) -> None:
        assert self._body is not None
        if self._all.on_disk + len(data) > ON_DISK_MAX:
            raise FrameTooLargeError(f"incomplete frames of all peers have {ON_DISK_MAX} bytes")
        self._all.on_disk += len(data)
        self._body.append(data)

    def take(self) -> bytes:
        body = self._body
        assert body is not None
        body.complete()
        data = body.read(0, body.size)
        self.close()
        return data

    def close(self) -> None:
        """Remove the file."""
        if self._body is not None:
            self._all.on_disk -= self._body.size
            self._body.release()
            self._body = None
