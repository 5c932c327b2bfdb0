"""The packets outside of sessions: channels 0 (ping, topology), 1 (sessions), 2 (replication) and 3 (other brokers)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from twisted.logger import Logger

from mqbroker.server.transport import topology
from mqbroker.server.transport.limits import check_control_size
from mqclient.errors import MalformedPacketError
from mqclient.wire.frames import HEADER_SIZE, PING_CHANNEL, REPLICATION_CHANNEL, SESSION_CHANNEL
from mqclient.wire.packets import (
    CheckForFailover,
    CheckForFailoverReply,
    CreateSession,
    Packet,
    Ping,
    ReattachSession,
    SubscribeTopology,
    SubscribeTopologyV2,
    decode_packet,
)

if TYPE_CHECKING:
    from mqbroker.server.transport.cluster_channel import ClusterChannel
    from mqbroker.server.transport.connection import ServerConnection

log = Logger(namespace="mqbroker.server")


class SessionRequests(Protocol):
    """Opens sessions, and reattaches clients to their former sessions."""

    def create(self, connection: ServerConnection, request: CreateSession) -> None: ...

    def reattach(self, connection: ServerConnection, request: ReattachSession) -> None: ...


class Cluster(Protocol):
    """The cluster connections of the broker, as far as channels 0 and 1 ask for them."""

    def subscribe(self, connection: ServerConnection) -> None:
        """Send the whole topology now, and each change from now on, until the connection ends."""

    def takes_over(self, connection: ServerConnection, node_id: str | None) -> bool:
        """May a client go on here that was at this node before (None: it does not say)?  One that may not is told where it may."""


SUBSCRIBER_SECONDS = 0.5
"""How long a client that wants to hear of the cluster stays connected to a broker that is not active."""


class ControlServer(Protocol):
    """The server, as the control channels see it."""

    @property
    def version(self) -> int:
        """The newest protocol version of the server."""

    @property
    def ttl_override_ms(self) -> int:
        """The connection TTL of all peers; below 0 each peer declares its own."""

    @property
    def started(self) -> bool:
        """Are clients taken?"""

    @property
    def sessions(self) -> SessionRequests: ...

    @property
    def cluster(self) -> Cluster | None: ...

    @property
    def cluster_channel(self) -> ClusterChannel: ...


class ControlChannels:
    """Handles the packets of :data:`~mqbroker.server.transport.connection.CONTROL_CHANNELS` for all connections."""

    def __init__(self, server: ControlServer) -> None:
        self._server = server

    def handle(self, connection: ServerConnection, packet_type: int, channel: int, data: bytes) -> None:
        """Handle a whole frame.  Raises ProtocolError for a malformed or too large frame."""
        if channel == REPLICATION_CHANNEL:
            if connection.link is not None:
                connection.link.received(packet_type, memoryview(data)[HEADER_SIZE:])
            elif connection.product is None:
                raise MalformedPacketError("frame", "channel", "there is nothing to replicate on this connection")
            # Otherwise a replica that is refused goes on before it has heard of that, and the end of the connection would come first.
            return
        check_control_size(data)
        packet = decode_packet(packet_type, data[13:], connection.version or self._server.version)
        if channel == PING_CHANNEL:
            self._ping_channel(connection, packet)
        elif channel == SESSION_CHANNEL:
            self._session_channel(connection, packet)
        else:
            self._server.cluster_channel.handle(connection, packet)

    def _ping_channel(self, connection: ServerConnection, packet: Packet) -> None:
        if isinstance(packet, Ping):
            if self._server.ttl_override_ms < 0:
                connection.liveness.ttl_ms = packet.connection_ttl
            connection.send(packet, PING_CHANNEL)
        elif isinstance(packet, SubscribeTopologyV2):
            connection.declare_version(packet.client_version)
            self._subscribe(connection)
        elif isinstance(packet, SubscribeTopology):
            self._subscribe(connection)
        else:
            log.debug("connection {id}: {name} has no meaning on channel 0", id=connection.connection_id, name=packet.NAME)

    def _subscribe(self, connection: ServerConnection) -> None:
        cluster = self._server.cluster
        if cluster is not None:
            cluster.subscribe(connection)
        elif self._server.started or connection.product is not None:
            topology.answer_alone(connection)
        else:
            # A Java broker takes whoever names a node for the active broker of that, and would vote against this one from then on.
            # A client that waited for the answer would not look for the active broker meanwhile.  A Java client that connects again asks
            # first whether it may go on here, and the answer must not be overtaken: without it that client waits for its call-timeout.
            connection.fail_soon("the broker is not active", SUBSCRIBER_SECONDS)

    def _session_channel(self, connection: ServerConnection, packet: Packet) -> None:
        if isinstance(packet, CreateSession):
            self._server.sessions.create(connection, packet)
        elif isinstance(packet, ReattachSession):
            self._server.sessions.reattach(connection, packet)
        elif isinstance(packet, CheckForFailover):
            cluster = self._server.cluster
            may_go_on = self._server.started and (cluster is None or cluster.takes_over(connection, packet.node_id))
            connection.send(CheckForFailoverReply(may_go_on), SESSION_CHANNEL)
        else:
            log.debug("connection {id}: {name} has no meaning on channel 1", id=connection.connection_id, name=packet.NAME)
