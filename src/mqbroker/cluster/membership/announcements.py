"""The packets and votes of other members on the cluster channel, and the answers to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.cluster.membership.votes import FAILOVER_VOTE, OFFER_VOTE, OLD_FAILOVER_VOTE, Offer, failover_vote
from mqclient.protocol.topology import TopologyMember
from mqclient.wire.packets import (
    BackupRegistration,
    BackupRegistrationFailed,
    BackupRequest,
    BackupRequestResponse,
    NodeAnnounce,
    ScaleDownAnnouncement,
)

if TYPE_CHECKING:
    from mqbroker.cluster.membership.topology import ClusterTopology
    from mqbroker.messaging.ports import Clock
    from mqbroker.server.transport.cluster_channel import ClusterChannel
    from mqbroker.server.transport.connection import ServerConnection

ALREADY_REPLICATING = 2
"""The answer to a replica that sends it to another primary; any other one stops it."""

log = Logger(namespace="mqbroker.cluster")


class Announcements:
    """Enters the announcements of members in topologies, and answers votes.

    ``topology_of`` gives the topology for a connection, ``default`` is the one from which votes are answered.
    """

    def __init__(self, topology_of: Callable[[ServerConnection], ClusterTopology], default: ClusterTopology, clock: Clock) -> None:
        self._topology_of = topology_of
        self._default = default
        self._clock = clock

    def register(self, channel: ClusterChannel) -> None:
        """Answer on ``channel`` from now on."""
        channel.register(NodeAnnounce, self._announced)
        channel.register(ScaleDownAnnouncement, self._scaled_down)
        channel.register(BackupRegistration, self._replica_asks)
        channel.register_vote(FAILOVER_VOTE, self._vote_on_failover)
        channel.register_vote(OLD_FAILOVER_VOTE, self._vote_on_failover)
        # A broker that wants a backup waits long for each member that says nothing.
        channel.register_vote(OFFER_VOTE, lambda connection, vote: Offer(0, self._default.node_id, False).encode())
        channel.register(BackupRequest, lambda connection, packet: BackupRequestResponse(False))

    def _announced(self, connection: ServerConnection, packet: NodeAnnounce) -> None:
        topology = self._topology_of(connection)
        member = partial(
            TopologyMember,
            packet.node_id,
            packet.event_id,
            backup_group_name=packet.backup_group_name,
            scale_down_group_name=packet.scale_down_group_name,
        )
        if packet.backup:
            topology.backup_waits(connection, member(backup=packet.connector), self._clock.wall_ms())
        else:
            topology.announced(member(primary=packet.connector, backup=packet.backup_connector))

    def _scaled_down(self, connection: ServerConnection, packet: ScaleDownAnnouncement) -> None:
        if packet.target_node_id == self._default.node_id:
            log.info("the broker {node!r} has scaled down to this one", node=packet.scaled_down_node_id[:100])
            self._topology_of(connection).scaled_down(packet.scaled_down_node_id)

    def _replica_asks(self, connection: ServerConnection, packet: BackupRegistration) -> BackupRegistrationFailed:
        """A replica without a group name tries every primary without a backup, and would wait here for ever."""
        return BackupRegistrationFailed(ALREADY_REPLICATING)

    def _vote_on_failover(self, connection: ServerConnection, vote: bytes) -> bytes:
        return failover_vote(self._default, vote)
