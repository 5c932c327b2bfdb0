"""Signs of life of a connection's peer: the connection TTL, and the rules for peers without one."""

from __future__ import annotations

from typing import Protocol

from mqclient.wire.frames import FRAME_SIZE_BEFORE_SESSION

CONNECTION_TTL_MS = 60_000
"""Milliseconds that a peer may be silent before its first ping; also the limit for a peer without a session, with half a frame, or that
does not read."""


class Peer(Protocol):
    """The connection, as far as signs of life are concerned."""

    @property
    def remote(self) -> str:
        """``host:port`` of the peer."""

    @property
    def logged_in(self) -> bool:
        """Has the peer ever had a session?"""

    @property
    def writable(self) -> bool:
        """Does the peer read?"""

    @property
    def transport_lost(self) -> bool: ...

    @property
    def buffered(self) -> int:
        """Bytes of a frame that is not complete."""


class Liveness:
    """Signs of life of one peer.

    ``ttl_ms`` is the time that the peer may be silent (-1 = for ever), ``seen`` whether it has sent something since the last check,
    ``last_seen`` the monotonic time (s) of the last check that found so.
    """

    __slots__ = ("_peer", "_stalled_since", "_unframed", "last_seen", "seen", "ttl_ms")

    def __init__(self, peer: Peer, ttl_ms: int, now: float) -> None:
        self._peer = peer
        self._unframed = 0
        self._stalled_since: float | None = None
        self.ttl_ms = ttl_ms
        self.seen = True
        self.last_seen = now

    def unframed(self, size: int) -> None:
        """Count ``size`` bytes that complete no frame: a frame that arrives byte by byte is no sign of life."""
        self._unframed += size
        if self._unframed >= FRAME_SIZE_BEFORE_SESSION:
            self.seen = True
            self._unframed = 0

    def check(self, now: float) -> str | None:
        """The reason to give the peer up; None while it lives."""
        if self.seen and not self._peer.transport_lost:
            self.seen = False
            self.last_seen = now
            self._stalled_since = None
        elif self._overdue(now) or self._stalled(now):
            return self._reason()
        return None

    def _overdue(self, now: float) -> bool:
        """Has the peer been silent for too long?

        A peer whose socket is gone, or that never had a session, is given up after a time, whatever TTL it declared.
        """
        ttl_ms = self.ttl_ms
        if self._peer.transport_lost or not self._peer.logged_in:
            ttl_ms = min(ttl_ms, CONNECTION_TTL_MS) if ttl_ms >= 0 else CONNECTION_TTL_MS
        return ttl_ms >= 0 and now >= self.last_seen + ttl_ms / 1000

    def _stalled(self, now: float) -> bool:
        """Has a peer that may be silent for ever left a frame incomplete, or not read, for :data:`CONNECTION_TTL_MS`?"""
        if self._peer.writable and not self._peer.buffered:
            self._stalled_since = None
            return False
        if self._stalled_since is None:
            self._stalled_since = now
        return now >= self._stalled_since + CONNECTION_TTL_MS / 1000

    def _reason(self) -> str:
        peer = self._peer
        text = (
            f"AMQ229014: Did not receive data from {peer.remote} within the {self.ttl_ms}ms connection TTL. "
            "The connection will now be closed."
        )
        if not peer.writable and not peer.transport_lost:
            return f"{text} (The peer does not read the data that it is sent.)"
        return f"{text} (A frame is not complete.)" if peer.buffered else text
