"""The cluster channel of a connection: who is taken as a member, and what members announce and ask.

Source: ``protocol-spec/``, chapter "Cluster packets".
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.logger import Logger

from mqbroker.cluster.membership.votes import FAILOVER_VOTE, OLD_FAILOVER_VOTE, failover_vote
from mqbroker.server.transport.limits import REFUSALS_MAX
from mqclient.protocol.topology import Topology, TopologyMember
from mqclient.wire.frames import CLUSTER_CHANNEL
from mqclient.wire.packets import (
    BackupRegistration,
    BackupRegistrationFailed,
    ClusterConnect,
    ClusterConnectReply,
    NodeAnnounce,
    Packet,
    QuorumVote,
    QuorumVoteReply,
    ScaleDownAnnouncement,
)

if TYPE_CHECKING:
    from mqbroker.cluster.membership.topology import ClusterTopology
    from mqbroker.server.server import Server
    from mqbroker.server.transport.connection import ServerConnection

WRONG_PASSWORDS_MAX = 10
"""Wrong cluster passwords of one connection; then it is closed."""

ALREADY_REPLICATING = 2
"""The answer to a replica that sends it to another primary; any other one stops it."""

SCALED_DOWN_MAX = 1_000
"""Brokers that have scaled down to this one and are remembered; the oldest are forgotten."""

log = Logger(namespace="mqbroker.cluster")

P = TypeVar("P", bound=Packet)

Handler = Callable[["ServerConnection", Any], object]
Vote = Callable[["ServerConnection", bytes], bytes]
"""The answer to a vote's bytes.  Raises MalformedPacketError."""


@dataclass(frozen=True, slots=True)
class ClusterCredentials:
    """The cluster's user and password."""

    user: str
    password: str = field(repr=False)

    def match(self, user: str, password: str) -> bool:
        """Are these the same?  Takes the same time wherever they differ."""
        same_user = hmac.compare_digest(_bytes(user), _bytes(self.user))
        return hmac.compare_digest(_bytes(password), _bytes(self.password)) and same_user


class ClusterChannel:
    """Handles the packets of channel 3, and tells health checks of another broker that is announced as this one.

    ``topology_of`` tells which topology holds for a connection (None: none), ``default_topology`` which one votes are answered from.
    ``scales_down`` says whether other brokers may scale down to this one: then only clients of those who have done so may fail over to it.
    """

    def __init__(
        self,
        server: Server,
        topology_of: Callable[[ServerConnection], ClusterTopology | None],
        default_topology: Callable[[], ClusterTopology | None],
        credentials: ClusterCredentials,
        *,
        scales_down: bool = False,
    ) -> None:
        self._server = server
        self._topology_of = topology_of
        self._default_topology = default_topology
        self._credentials = credentials
        self._scales_down = scales_down
        self._handlers: dict[type[Packet], Handler] = {}
        self._votes: dict[str, Vote] = {}
        self._scaled_down: dict[str, None] = {}
        self.register(NodeAnnounce, self._announced)
        self.register(QuorumVote, self._asked_to_vote)
        self.register(ScaleDownAnnouncement, self._scaled_down_to)
        self.register(BackupRegistration, self._replica_asks)
        self.register_vote(FAILOVER_VOTE, self._vote_on_failover)
        self.register_vote(OLD_FAILOVER_VOTE, self._vote_on_failover)
        server.health_checks.append(self._rival)

    def register(self, packet_class: type[P], handler: Callable[[ServerConnection, P], object]) -> None:
        """``handler`` gets the packets of this class that members send."""
        self._handlers[packet_class] = handler

    def register_vote(self, name: str, vote: Vote) -> None:
        """``vote`` answers votes of this name."""
        self._votes[name] = vote

    def handle(self, connection: ServerConnection, packet: Packet) -> None:
        """A packet; until the peer has shown the cluster's password only that request is heeded."""
        if isinstance(packet, ClusterConnect):
            self._connect(connection, packet)
            return
        handler = self._handlers.get(type(packet))
        if not connection.cluster_authorized or handler is None:
            reason = "has no meaning here" if connection.cluster_authorized else "is ignored before the cluster's password"
            log.debug("connection {id}: {name} {reason}", id=connection.connection_id, name=packet.NAME, reason=reason)
            return
        handler(connection, packet)

    def may_fail_over(self, node_id: str | None) -> bool:
        """See :meth:`~mqbroker.server.cluster_port.ClusterPort.may_fail_over`."""
        return node_id is None or node_id == self._server.node_id or not self._scales_down or node_id in self._scaled_down

    @property
    def scaled_down(self) -> frozenset[str]:
        """Node ids of the brokers whose messages are here."""
        return frozenset(self._scaled_down)

    def _connect(self, connection: ServerConnection, packet: ClusterConnect) -> None:
        if connection.cluster_authorized:
            return
        server = self._server
        if server.security.enabled and not self._credentials.match(packet.cluster_user, packet.cluster_password):
            server.notifications.authentication_failed(packet.cluster_user, connection.remote)
            connection.refusals += REFUSALS_MAX // WRONG_PASSWORDS_MAX
            if connection.refusals >= REFUSALS_MAX:
                connection.fail_soon("AMQ229099: the cluster password is wrong again and again")
            server.reasons.warn(connection.remote, f"AMQ229099: a peer at {connection.remote} gives a wrong cluster user or password")
        else:
            connection.cluster_authorized = True
        connection.send(ClusterConnectReply(connection.cluster_authorized), CLUSTER_CHANNEL)

    def _announced(self, connection: ServerConnection, packet: NodeAnnounce) -> None:
        topology = self._topology_of(connection)
        if topology is None:
            return
        member = partial(
            TopologyMember,
            packet.node_id,
            packet.event_id,
            backup_group_name=packet.backup_group_name,
            scale_down_group_name=packet.scale_down_group_name,
        )
        if packet.backup:
            topology.backup_announced(member(backup=packet.connector), self._server.clock.wall_ms())
        else:
            topology.announced(member(primary=packet.connector, backup=packet.backup_connector))

    def _rival(self) -> str | None:
        topology = self._default_topology()
        return None if topology is None else topology.rival

    def _replica_asks(self, connection: ServerConnection, packet: BackupRegistration) -> None:
        """A replica without a group name tries every primary without a backup, and would wait here for ever."""
        connection.send(BackupRegistrationFailed(ALREADY_REPLICATING), CLUSTER_CHANNEL)

    # --- votes

    def _asked_to_vote(self, connection: ServerConnection, packet: QuorumVote) -> None:
        vote = self._votes.get(packet.handler)
        if vote is None:
            # An answer that the peer does not expect would be worse than none.
            self._server.reasons.warn(
                connection.remote, f"a peer at {connection.remote} asks for the vote {packet.handler[:100]!r}, which has no answer here"
            )
            return
        connection.send(QuorumVoteReply(packet.handler, vote(connection, packet.vote)), CLUSTER_CHANNEL)

    def _vote_on_failover(self, connection: ServerConnection, vote: bytes) -> bytes:
        topology = self._default_topology()
        return failover_vote(Topology() if topology is None else topology, vote)

    # --- scale-down

    def _scaled_down_to(self, connection: ServerConnection, packet: ScaleDownAnnouncement) -> None:
        if packet.target_node_id != self._server.node_id:
            return
        self._scaled_down[packet.scaled_down_node_id[:1024]] = None
        if len(self._scaled_down) > SCALED_DOWN_MAX:
            del self._scaled_down[next(iter(self._scaled_down))]
        log.info("the broker {node!r} has scaled down to this one", node=packet.scaled_down_node_id[:100])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
