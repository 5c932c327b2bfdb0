"""The first bytes of a connection (``protocol-spec/``, chapter "Transport")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqclient.errors import MalformedPacketError, ProtocolError
from mqclient.wire.frames import PREAMBLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqbroker.messaging.ports import Cancellable, Clock

HANDSHAKE_TIMEOUT_SECONDS = 10.0
"""How long a peer may take to begin with the protocol, unless its acceptor says otherwise."""


class Handshake:
    """The first that a peer has to do, within ``timeout_seconds`` (0 or less = without limit); ``fail`` gives its connection up."""

    __slots__ = ("_fail", "_preamble", "_timer")

    def __init__(self, clock: Clock, fail: Callable[[str], object], timeout_seconds: float) -> None:
        self._fail = fail
        self._preamble = Preamble()
        self._timer: Cancellable | None = None
        if timeout_seconds > 0:
            self._timer = clock.call_later(timeout_seconds, self._late)

    def feed(self, data: bytes) -> bytes | None:
        """What follows it, or None as long as it is not complete.  A peer of another protocol is given up."""
        try:
            return self._preamble.feed(data)
        except ProtocolError as error:
            self._fail(f"AMQ222067: {error}")
            return None

    def end(self) -> None:
        """It is complete, or nobody waits for it any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        self._fail("AMQ224088: no handshake in time")


class Preamble:
    """Takes the preamble off; a peer that begins with a frame instead is taken as speaking CORE, too."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun = b""

    def feed(self, data: bytes) -> bytes | None:
        """What follows the preamble, or None as long as it is not complete.  Raises MalformedPacketError for another protocol."""
        data = self._begun + data
        if len(data) <= len(PREAMBLE):
            if not PREAMBLE.startswith(data) and data[:1] != b"\x00":
                raise _other_protocol()
            self._begun = data
            return None
        if data.startswith(PREAMBLE):
            return data[len(PREAMBLE) :]
        if data[0] != 0:
            raise _other_protocol()
        return data


def _other_protocol() -> MalformedPacketError:
    return MalformedPacketError("handshake", "preamble", "the peer speaks another protocol than CORE")
