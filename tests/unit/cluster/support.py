"""A broker in a cluster, in memory: one cluster connection, whose links are left out."""

from __future__ import annotations

from typing import Any

from mqbroker.cluster.membership.announcements import Announcements
from mqbroker.cluster.membership.topology import ClusterTopology
from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.server.transport.connection import ServerConnection
from mqclient.protocol.topology import TopologyMember
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL, PING_CHANNEL
from mqclient.wire.primitives import TransportConfiguration
from tests.support.broker import Peer, World

CONNECTIONS = [ClusterConnectionConfiguration("my-cluster", "self")]
"""The cluster connections of a broker that is in a cluster."""
FACTORY = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory"


def connector(port: int, name: str = "self") -> TransportConfiguration:
    return TransportConfiguration(name, FACTORY, (("port", str(port)), ("host", "127.0.0.1")))


def member(node_id: str, event_id: int, port: int | None = 1, backup: int | None = None) -> TopologyMember:
    return TopologyMember(node_id, event_id, None if port is None else connector(port), None if backup is None else connector(backup))


class KnownOthers:
    """Implements :class:`mqbroker.server.cluster_port.OtherBrokers` with what the test has made."""

    def __init__(self, cluster: Any = None, bridges: Any = None) -> None:
        self.cluster = cluster
        self.bridges = bridges
        self.broadcast_groups: dict[str, Any] = {}
        self.copies: Any = None
        self.colocated: Any = None

    def open_bridges(self) -> Any:
        return self.bridges

    def scale_down_to(self, connector: str | None) -> None:
        raise ValueError("nothing moves messages here")

    def fail_over(self) -> None:
        raise AssertionError("nobody goes on")

    def problem(self) -> str | None:
        return None if self.cluster is None else self.cluster.problem()


class Clustered:
    """Implements the port with one topology for all acceptors."""

    def __init__(self, world: World) -> None:
        self.topology = ClusterTopology(world.server.node_id, world.clock)
        Announcements(lambda connection: self.topology, self.topology, world.clock).register(world.server.cluster_channel)
        self.connections = {"my-cluster": self}
        world.server.others = KnownOthers(cluster=self)

    def problem(self) -> str | None:
        return self.topology.rival

    def writable(self, connection: ServerConnection) -> None:
        self.topology.writable(connection)

    def ended(self, connection: ServerConnection) -> None:
        self.topology.unsubscribe(connection)

    def subscribe(self, connection: ServerConnection) -> None:
        self.topology.subscribe(connection)

    def takes_over(self, connection: ServerConnection, node_id: str | None) -> bool:
        return True


def cluster_world(**settings: Any) -> tuple[World, Clustered]:
    values = {"cluster_user": "cu", "cluster_password": "cp", "cluster_connections": CONNECTIONS, **settings}
    world = World(Configuration(**values))
    return world, Clustered(world)


def subscribed(world: World, version: int = 136, cluster_connection: bool = False) -> Peer:
    """A peer that has asked for the topology; the table waits in its inbox."""
    peer = world.peer()
    peer.version = version
    peer.send(wire.SubscribeTopologyV2(cluster_connection, version), PING_CHANNEL)
    return peer


def joined(world: World) -> Peer:
    """A peer that has shown the cluster's password."""
    peer = world.peer()
    peer.send(wire.ClusterConnect("cu", "cp"), CLUSTER_CHANNEL)
    assert peer.take(CLUSTER_CHANNEL) == [wire.ClusterConnectReply(True)]
    return peer
