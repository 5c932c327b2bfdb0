"""All cluster connections of a broker: the port through which the server asks its clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, DeferredList

from mqbroker.cluster.connection import ClusterConnection
from mqbroker.cluster.membership.announcements import Announcements
from mqbroker.cluster.membership.topology import ClusterTopology
from mqbroker.cluster.remote_queues.ways import Ways

if TYPE_CHECKING:
    from mqbroker.server.server import Server
    from mqbroker.server.transport.connection import ServerConnection


class ClusterManager:
    """All cluster connections of a broker (a :class:`mqbroker.server.cluster_port.ClusterPort`).

    The first of ``connections`` is the default one; there is at least one.
    """

    def __init__(self, server: Server, connections: Sequence[ClusterConnection], ways: Ways) -> None:
        self.connections: Mapping[str, ClusterConnection] = {connection.name: connection for connection in connections}
        self.default = connections[0]
        self.ways = ways
        Announcements(self.topology_of, self.default.topology, server.clock).register(server.cluster_channel)

    def topology_of(self, connection: ServerConnection) -> ClusterTopology:
        """The topology for a peer: that of the cluster connection named by the acceptor, else that of the default one."""
        return self.connections.get(connection.cluster_connection or "", self.default).topology

    # --- the port

    def subscribe(self, connection: ServerConnection) -> None:
        self.topology_of(connection).subscribe(connection)

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
