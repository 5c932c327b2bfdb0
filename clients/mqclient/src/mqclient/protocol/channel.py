"""The client's end of a session's channel without its I/O: the matching of answers to calls, confirmations, packets to send again.

Source: ``protocol-spec/``, chapter "Responses, correlation, confirmations, reattachment".
"""

from __future__ import annotations

from collections import deque

from mqclient.protocol.window import ConfirmationWindow
from mqclient.wire.frames import frame
from mqclient.wire.hot import VERSION_CORRELATION
from mqclient.wire.packets import (
    AddMetadataV2,
    ExceptionResponse,
    NullResponse,
    Packet,
    PacketsConfirmed,
    XaResponse,
    encode_packet,
)

NO_CORRELATION = -1
"""Correlation of a call whose packet has no field for one, and of the answer to it."""


class SessionChannel:
    """Encodes the packets sent on one channel and matches the received ones.

    ``window_size`` in bytes is the confirmation window; -1: none.  ``version`` is the protocol version in use.
    """

    __slots__ = ("_async_correlation", "_blocking_correlation", "_tags", "call_correlation", "call_expects", "id", "version", "window")

    def __init__(self, channel_id: int, window_size: int, version: int) -> None:
        self.id = channel_id
        self.version = version
        self.window = ConfirmationWindow(window_size) if window_size >= 0 else None
        self.call_expects: tuple[type[Packet], ...] = ()
        """Types that answer the call in progress; empty when there is none."""
        self.call_correlation = NO_CORRELATION
        self._blocking_correlation = -1
        self._async_correlation = 0
        self._tags: deque[int] = deque()

    def next_blocking_correlation(self) -> int:
        """-2, -3, …: to be taken for every call, also when its packet cannot carry it."""
        self._blocking_correlation -= 1
        return self._blocking_correlation

    def next_async_correlation(self) -> int:
        """1, 2, …: for requests whose answer is not waited for."""
        self._async_correlation += 1
        return self._async_correlation

    def reserve_correlations(self, count: int) -> int:
        """The first of so many correlations that follow each other, as of :meth:`next_async_correlation`."""
        first = self._async_correlation + 1
        self._async_correlation += count
        return first

    def frame(self, packet: Packet, *, tag: int = 0) -> bytes:
        """The frame of ``packet``.  With a window a counted packet is kept to be sent again.

        ``tag`` (not 0) is returned by :meth:`confirmed` once the broker has confirmed the packet.
        """
        data = frame(packet.TYPE, self.id, encode_packet(packet, self.version))
        if self.window is not None and counted(packet):
            self.window.sent(data)
            self._tags.append(tag)
        return data

    def sent_unkept(self, tag: int) -> None:
        """A counted frame was sent that will not be sent again: the session ends with its connection.  ``tag`` as for :meth:`frame`."""
        if self.window is not None:
            self.window.sent(b"")
            self._tags.append(tag)

    def begin_call(self, expects: tuple[type[Packet], ...], correlation: int) -> None:
        """A call was sent; there is none in progress."""
        self.call_expects = expects
        self.call_correlation = correlation if self.version >= VERSION_CORRELATION else NO_CORRELATION

    def end_call(self) -> None:
        self.call_expects = ()

    def completes_call(self, packet: Packet) -> bool:
        """Is ``packet`` the answer to the call in progress?

        An EXCEPTION without correlation is; an EXCEPTION with the correlation of another request is not.  (The Java client does not make
        this difference.)
        """
        if not self.call_expects:
            return False
        if isinstance(packet, ExceptionResponse):
            return packet.correlation_id in (None, NO_CORRELATION, self.call_correlation)
        if not isinstance(packet, self.call_expects):
            return False
        if isinstance(packet, (NullResponse, XaResponse)):
            answered = packet.correlation_id
            return (NO_CORRELATION if answered is None else answered) == self.call_correlation
        return self.call_correlation == NO_CORRELATION

    def processed(self, packet_is_counted: bool, frame_size: int) -> bytes | None:
        """A received packet has been dealt with; the frame of the confirmation, if one is due."""
        if self.window is None or not packet_is_counted:
            return None
        return self._confirmation(self.window.processed(frame_size))

    def flush(self) -> bytes | None:
        """The confirmation frame for packets processed and not confirmed yet; None if there are none."""
        return None if self.window is None else self._confirmation(self.window.flush())

    def confirmed(self, command_id: int) -> list[int]:
        """The broker has confirmed packets; the tags among them."""
        if self.window is None:
            return []
        tags = (self._tags.popleft() for _ in range(self.window.confirmed(command_id)))
        return [tag for tag in tags if tag]

    @property
    def last_confirmed(self) -> int:
        """The last command received and processed, for REATTACH_SESSION; -1 without a window."""
        return self.window.last_confirmed_command_id if self.window is not None else -1

    def replay(self) -> list[bytes]:
        """The frames that the broker has not seen, in order, to be sent again after a reattachment."""
        return self.window.unconfirmed() if self.window is not None else []

    def restart(self, version: int) -> None:
        """The session was created anew: counters and kept frames are dropped; a call in progress has no answer any more."""
        self.version = version
        self.end_call()
        self._tags.clear()
        if self.window is not None:
            self.window.clear()

    def _confirmation(self, command_id: int | None) -> bytes | None:
        return None if command_id is None else self.frame(PacketsConfirmed(command_id))


def counted(packet: Packet) -> bool:
    """Does the packet advance the confirmation window?"""
    if isinstance(packet, AddMetadataV2):
        return packet.requires_confirmation
    return packet.COUNTED
