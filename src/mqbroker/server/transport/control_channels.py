"""What peers say beside their sessions: channels 0 (ping, topology) and 1 (sessions), and that of other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.server.transport import farewell, topology
from mqbroker.server.transport.limits import check_control_size
from mqclient.wire.frames import CLUSTER_CHANNEL, PING_CHANNEL, SESSION_CHANNEL
from mqclient.wire.packets import (
    CheckForFailover,
    CreateSession,
    Packet,
    Ping,
    ReattachSession,
    SubscribeTopology,
    SubscribeTopologyV2,
    decode_packet,
)

if TYPE_CHECKING:
    from mqbroker.server.transport.connection import ServerConnection

CONTROL_CHANNELS = frozenset((PING_CHANNEL, SESSION_CHANNEL, CLUSTER_CHANNEL))

log = Logger(namespace="mqbroker.server")


def handle_control(connection: ServerConnection, packet_type: int, channel: int, data: bytes) -> None:
    """Handle a whole frame of one of :data:`CONTROL_CHANNELS`.  Raises ProtocolError for one that is malformed or too large."""
    check_control_size(data)
    packet = decode_packet(packet_type, data[13:], connection.version or connection.server.version)
    if channel == PING_CHANNEL:
        _ping_channel(connection, packet)
    elif channel == SESSION_CHANNEL:
        _session_channel(connection, packet)
    else:
        connection.server.cluster_channel(connection, packet)


def _ping_channel(connection: ServerConnection, packet: Packet) -> None:
    if isinstance(packet, Ping):
        if connection.server.ttl_override_ms < 0:
            connection.liveness.ttl_ms = packet.connection_ttl
        connection.send(packet, PING_CHANNEL)
    elif isinstance(packet, SubscribeTopologyV2):
        connection.declare_version(packet.client_version)
        topology.subscribe(connection, packet.cluster_connection)
    elif isinstance(packet, SubscribeTopology):
        topology.subscribe(connection, packet.cluster_connection)
    else:
        log.debug("connection {id}: {name} has no meaning on channel 0", id=connection.connection_id, name=packet.NAME)


def _session_channel(connection: ServerConnection, packet: Packet) -> None:
    sessions = connection.server.sessions
    if isinstance(packet, CreateSession):
        sessions.create(connection, packet)
    elif isinstance(packet, ReattachSession):
        sessions.reattach(connection, packet)
    elif isinstance(packet, CheckForFailover):
        farewell.answer_failover_check(connection, packet)
    else:
        log.debug("connection {id}: {name} has no meaning on channel 1", id=connection.connection_id, name=packet.NAME)
