"""All cluster connections of a broker: the port through which the server asks its clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from twisted.internet.defer import Deferred, DeferredList

from mqbroker.cluster.connection import ClusterConnection
from mqbroker.cluster.membership.announcements import Announcements
from mqbroker.cluster.membership.topology import ClusterTopology
from mqbroker.cluster.remote_queues.ways import Ways
from mqbroker.server.transport.topology import member_up
from mqclient.wire.frames import PING_CHANNEL

if TYPE_CHECKING:
    from mqbroker.server.server import Server
    from mqbroker.server.transport.connection import ServerConnection
    from mqclient.protocol.topology import TopologyMember


class Successors(Protocol):
    """The members that have taken over the data of others."""

    def serves(self, node_id: str) -> bool:
        """May a client go on at this broker that was at this node before?"""

    def has(self, node_id: str) -> bool:
        """Are the data of this node here?"""

    def successor_of(self, node_id: str) -> TopologyMember | None:
        """The member that has the data of this node, for a client that may not go on here; None where nobody is known."""


class ClusterManager:
    """All cluster connections of a broker (a :class:`mqbroker.server.cluster_port.ClusterPort`).

    The first of ``connections`` is the default one; there is at least one.  Without ``successors`` every member serves all clients.
    """

    def __init__(self, server: Server, connections: Sequence[ClusterConnection], ways: Ways, successors: Successors | None = None) -> None:
        self.connections: Mapping[str, ClusterConnection] = {connection.name: connection for connection in connections}
        self.default = connections[0]
        self.ways = ways
        self._server = server
        self._successors = successors
        Announcements(self.topology_of, self.default.topology, server.clock).register(server.cluster_channel)

    def topology_of(self, connection: ServerConnection) -> ClusterTopology:
        """The topology for a peer: that of the cluster connection named by the acceptor, else that of the default one."""
        return self.connections.get(connection.cluster_connection or "", self.default).topology

    # --- the port

    def subscribe(self, connection: ServerConnection) -> None:
        self.topology_of(connection).subscribe(connection)

    def takes_over(self, connection: ServerConnection, node_id: str | None) -> bool:
        if self._successors is None or not node_id:
            return True
        if self._successors.serves(node_id):
            if self._successors.has(node_id):
                self.topology_of(connection).appear_as(connection, node_id)
            return True
        member = self._successors.successor_of(node_id)
        if member is not None:
            version = self._server.version
            connection.send(member_up(member, False, connection.version or version, version), PING_CHANNEL)
        return False

    def writable(self, connection: ServerConnection) -> None:
        self.topology_of(connection).writable(connection)

    def ended(self, connection: ServerConnection) -> None:
        self.topology_of(connection).unsubscribe(connection)

    # --- life

    def start(self) -> None:
        """Join the clusters; the acceptors must be open."""
        for connection in self.connections.values():
            connection.start()

    def stop(self) -> Deferred[Any]:
        """Leave the clusters; messages that are under way arrive first."""
        waiting = [each for connection in self.connections.values() for each in connection.stop()]
        self.ways.stop()
        return DeferredList(waiting, consumeErrors=True)

    def problem(self) -> str | None:
        """A sentence about another broker with the node id of this one; None when there is none."""
        places = [place for connection in self.connections.values() for place in connection.contested_by]
        return f"another broker has the node id of this one: {', '.join(places)}" if places else self.default.topology.rival
