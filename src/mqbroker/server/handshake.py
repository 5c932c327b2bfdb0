"""The first bytes of a connection (``protocol-spec/``, chapter "Transport")."""

from __future__ import annotations

from mqclient.errors import MalformedPacketError
from mqclient.wire.frames import PREAMBLE


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
