"""The first bytes of a connection (``protocol-spec/``, chapter "Transport")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqclient.errors import MalformedPacketError
from mqclient.wire.frames import PREAMBLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqbroker.messaging.ports import Cancellable, Clock

HANDSHAKE_TIMEOUT_SECONDS = 10.0
"""The time for the preamble, unless the acceptor has another."""


class Handshake:
    """Takes off the preamble, which must arrive within ``timeout_seconds`` (0 or less = without limit); ``fail`` gives the connection up.

    A peer that begins with a frame instead of the preamble speaks CORE, too.
    """

    __slots__ = ("_begun", "_fail", "_timer")

    def __init__(self, clock: Clock, fail: Callable[[str], object], timeout_seconds: float) -> None:
        self._fail = fail
        self._begun = b""
        self._timer: Cancellable | None = None
        if timeout_seconds > 0:
            self._timer = clock.call_later(timeout_seconds, self._late)

    def feed(self, data: bytes) -> bytes | None:
        """The bytes behind the preamble; None until it is complete.  A peer of another protocol is given up."""
        data = self._begun + data
        complete = len(data) > len(PREAMBLE)
        if complete and data.startswith(PREAMBLE):
            return data[len(PREAMBLE) :]
        if data[:1] != b"\x00" and not PREAMBLE.startswith(data):
            error = MalformedPacketError("handshake", "preamble", "the peer speaks another protocol than CORE")
            self._fail(f"AMQ222067: {error}")
            return None
        self._begun = data
        return data if complete else None

    def end(self) -> None:
        """Stop the timer: the handshake is complete, or the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        self._fail("AMQ224088: no handshake in time")
