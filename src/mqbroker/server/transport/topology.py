"""The packets of the topology on channel 0, in the forms for the peer's version."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mqclient.protocol.topology import TopologyMember
from mqclient.wire.frames import PING_CHANNEL
from mqclient.wire.packets import ClusterTopology, ClusterTopologyV2, ClusterTopologyV3, ClusterTopologyV4, Packet
from mqclient.wire.primitives import TransportConfiguration

if TYPE_CHECKING:
    from mqbroker.server.transport.connection import ServerConnection

VERSION_V2 = 122
VERSION_V3 = 125
VERSION_ARTEMIS_NAMES = 126
"""The first version with connectors in Artemis's spelling; older peers get HornetQ's."""
VERSION_V4 = 131

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def answer_alone(connection: ServerConnection) -> None:
    """The only answer of a broker outside of clusters: no connector, so that the client keeps its own."""
    server, version = connection.server, connection.version
    packet: Packet
    if version >= VERSION_V4:
        packet = ClusterTopologyV4(False, server.node_id, server.clock.wall_ms(), last=True, server_version=server.version)
    elif version >= VERSION_V2:
        packet = ClusterTopologyV2(False, server.node_id, server.clock.wall_ms(), last=True)
    else:
        packet = ClusterTopology(False, server.node_id, last=True)
    connection.send(packet, PING_CHANNEL)


def member_up(member: TopologyMember, last: bool, peer_version: int, server_version: int) -> Packet:
    """The packet about a member for a peer of ``peer_version``; ``last`` ends the answer to a subscription."""
    primary, backup = member.primary, member.backup
    if peer_version < VERSION_ARTEMIS_NAMES:
        primary, backup = hornetq_names(primary), hornetq_names(backup)
    node_id, event_id, groups = member.node_id, member.unique_event_id, (member.backup_group_name, member.scale_down_group_name)
    if peer_version >= VERSION_V4:
        return ClusterTopologyV4(False, node_id, event_id, primary, backup, last, *groups, server_version)
    if peer_version >= VERSION_V3:
        return ClusterTopologyV3(False, node_id, event_id, primary, backup, last, *groups)
    if peer_version >= VERSION_V2:
        return ClusterTopologyV2(False, node_id, event_id, primary, backup, last, groups[0])
    return ClusterTopology(False, node_id, 0, primary, backup, last)


def member_down(node_id: str, event_id: int, peer_version: int) -> Packet:
    """The packet about a member that left.  The newest peers get the second form, too, as from Artemis."""
    if peer_version >= VERSION_V2:
        return ClusterTopologyV2(True, node_id, event_id)
    return ClusterTopology(True, node_id)


def hornetq_names(connector: TransportConfiguration | None) -> TransportConfiguration | None:
    """The same connector in the spelling of HornetQ: its package, and hyphens instead of humps."""
    if connector is None:
        return None
    factory = connector.factory_class_name.replace("org.apache.activemq.artemis", "org.hornetq").replace("ActiveMQ", "HornetQ")
    parameters = tuple((_HUMP.sub("-", key).lower(), value) for key, value in connector.parameters)
    return TransportConfiguration(connector.name, factory, parameters)
