"""The confirmation window of a session channel: the count of processed packets, and the sent packets that may have to be sent again.

Both ends of a channel hold one.  Source: ``protocol-spec/``, chapter "Confirmation and reattachment".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


class ConfirmationWindow:
    """Counts commands in both directions and keeps sent frames until the peer has confirmed them.

    ``size`` is the number of received bytes after which a confirmation is due; 0 confirms every packet.
    A session without a confirmation window (-1 on the wire) has no object of this class.
    """

    __slots__ = ("_cache", "_first_cached", "_received_bytes", "cached_bytes", "last_confirmed_command_id", "size")

    def __init__(self, size: int) -> None:
        if size < 0:
            raise ValueError(f"a confirmation window of {size} bytes has no meaning")
        self.size = size
        self.last_confirmed_command_id = -1
        """Number of the last command that was received and processed; -1 before the first."""
        self._received_bytes = 0
        self._cache: deque[bytes] = deque()
        self._first_cached = 0
        self.cached_bytes = 0
        """Bytes of the frames that the peer has not confirmed."""

    @property
    def cached(self) -> int:
        """Frames that the peer has not confirmed."""
        return len(self._cache)

    def sent(self, frame: bytes) -> None:
        """A counted frame was sent."""
        self._cache.append(frame)
        self.cached_bytes += len(frame)

    def sent_many(self, frames: Sequence[bytes], size: int) -> None:
        """Counted frames, of ``size`` bytes together, were sent."""
        self._cache.extend(frames)
        self.cached_bytes += size

    def processed_many(self, count: int, size: int) -> bool:
        """``count`` counted frames of ``size`` bytes together were processed.

        Returns false, with nothing done, when a confirmation is due among them: :meth:`processed` then says where.
        """
        if self._received_bytes + size >= self.size:
            return False
        self.last_confirmed_command_id += count
        self._received_bytes += size
        return True

    def processed(self, frame_size: int) -> int | None:
        """A counted frame of ``frame_size`` bytes was processed.  Returns the command id to confirm now, if one is due."""
        self.last_confirmed_command_id += 1
        self._received_bytes += frame_size
        if self._received_bytes >= self.size:
            self._received_bytes = 0
            return self.last_confirmed_command_id
        return None

    def refused(self, frame_size: int) -> int | None:
        """A counted frame of ``frame_size`` bytes was answered with an error.

        The peer may take a confirmation for success: it is told with a later frame.  Returns the command id to confirm now, if one is due.
        """
        due = None
        if self._received_bytes and self._received_bytes >= self.size:
            due = self.flush()
        self.last_confirmed_command_id += 1
        self._received_bytes += frame_size
        return due

    def flush(self) -> int | None:
        """The command id to confirm although the window is not full; None when nothing new was processed."""
        if not self._received_bytes:
            return None
        self._received_bytes = 0
        return self.last_confirmed_command_id

    def confirmed(self, command_id: int) -> int:
        """The peer has everything up to ``command_id``.  Returns how many frames were let go.

        Nobody has what was not sent yet: a number beyond that stands for everything that was sent, and does not shift those that follow.
        """
        count = command_id + 1 - self._first_cached
        dropped = 0
        while dropped < count and self._cache:
            self.cached_bytes -= len(self._cache.popleft())
            dropped += 1
        self._first_cached += dropped
        return dropped

    def unconfirmed(self) -> list[bytes]:
        """The frames to send again, in order."""
        return list(self._cache)

    def forget(self) -> None:
        """Drop all kept packets: they cannot be sent again."""
        self._first_cached += len(self._cache)
        self._cache.clear()
        self.cached_bytes = 0

    def clear(self) -> None:
        """Start again, for a session that was created anew."""
        self._cache.clear()
        self.cached_bytes = 0
        self._first_cached = 0
        self.last_confirmed_command_id = -1
        self._received_bytes = 0
