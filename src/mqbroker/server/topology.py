"""The topology that clients ask for on channel 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqclient.wire.frames import PING_CHANNEL
from mqclient.wire.packets import ClusterTopology, ClusterTopologyV2, ClusterTopologyV4, Packet

if TYPE_CHECKING:
    from mqbroker.server.connection import ServerConnection

VERSION_V2 = 122
VERSION_V4 = 131


def subscribe(connection: ServerConnection, cluster_connection: bool) -> None:
    """Answer a subscription.  A broker without a cluster is alone and names no connector: the client goes on with the one it uses."""
    server = connection.server
    version = connection.version
    packet: Packet
    if version >= VERSION_V4:
        packet = ClusterTopologyV4(False, server.node_id, server.clock.wall_ms(), last=True, server_version=server.version)
    elif version >= VERSION_V2:
        packet = ClusterTopologyV2(False, server.node_id, server.clock.wall_ms(), last=True)
    else:
        packet = ClusterTopology(False, server.node_id, last=True)
    connection.send(packet, PING_CHANNEL)
