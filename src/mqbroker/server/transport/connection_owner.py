"""The server, and a link to another broker, as connections see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mqbroker.messaging.ports import Clock
    from mqbroker.messaging.turns.turn import Turn
    from mqbroker.server.transport.connection import ServerConnection
    from mqbroker.server.transport.partial_frames import PartialFrames
    from mqbroker.server.transport.reasons import ReasonLog


class ConnectionOwner(Protocol):
    """The server: ``frame_size_max`` is in bytes; ``version`` is the newest protocol version of the server.

    ``default_ttl_ms`` is the connection TTL of a peer that has not declared its own.
    """

    clock: Clock
    turn: Turn
    reasons: ReasonLog
    partial_frames: PartialFrames
    version: int
    frame_size_max: int
    default_ttl_ms: int

    @property
    def node_id(self) -> str: ...

    def connection_writable(self, connection: ServerConnection) -> None:
        """The peer of ``connection`` reads again."""

    def connection_ended(self, connection: ServerConnection) -> None:
        """The sessions of ``connection`` are closed: remove its temporary queues, branches and subscriptions."""


class BrokerLink(Protocol):
    """The use of the channel of replication of one connection by another broker."""

    def received(self, packet_type: int, body: memoryview) -> None:
        """A packet of this channel.  Raises ProtocolError, which ends the connection."""

    def ended(self, reason: str) -> None:
        """The connection is over; ``reason`` is empty for an orderly end."""
