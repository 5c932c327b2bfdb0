from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.node.presence import ClusterPresence
from mqclient.protocol.topology import TopologyMember
from mqclient.urls import TransportUri, parse_transport_uri
from mqclient.wire.packets import ClusterConnect, ClusterConnectReply, NodeAnnounce
from tests.support.network import NODE_ID, ScriptedBroker, World, connector

OWN = connector(61617, "own")


def uri(name: str, port: int) -> TransportUri:
    return parse_transport_uri(f"tcp://127.0.0.1:{port}", name)


class PresenceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.broker.answers[ClusterConnect] = lambda packet: ClusterConnectReply(True)
        self.announced: list[str] = []
        self.broker.answers[NodeAnnounce] = lambda packet: self.announced.append(packet.node_id)
        self.world = World(self.broker)
        self.clustering: Any = None
        connection = ClusterConnectionConfiguration("c", "own", static_connectors=("own", "other"))
        configuration = Configuration(cluster_connections=[connection], connectors={"own": uri("own", 61617), "other": uri("other", 61616)})
        self.presence = ClusterPresence(configuration, Path(), lambda: self.world.runtime, lambda: self.clustering)

    def show(self, node_id: str) -> None:
        self.presence.show(node_id)
        self.world.advance(0.1)

    def test_the_cluster_hears_once_of_which_node_this_is_the_backup(self) -> None:
        self.show(NODE_ID)
        self.show(NODE_ID)
        self.assertEqual((self.announced, self.world.network.tried), ([NODE_ID], ["61616"]))
        self.show("another")
        self.assertEqual(self.announced, [NODE_ID, "another"])
        self.presence.hide()
        self.world.network.stir()
        self.assertTrue(self.world.network.link.closed_by_client)

    def test_an_active_broker_knows_of_another_backup_only(self) -> None:
        self.assertFalse(self.presence.other_backup())
        for backup, other in ((None, False), (OWN, False), (connector(61618), True)):
            topology = {NODE_ID: TopologyMember(NODE_ID, 1, OWN, backup)}
            connection = SimpleNamespace(node_id=NODE_ID, own_connector=OWN, topology=topology)
            self.clustering = SimpleNamespace(manager=SimpleNamespace(connections={"c": connection}))
            self.assertEqual(self.presence.other_backup(), other)
