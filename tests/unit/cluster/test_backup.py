from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.backup import AnnouncedBackup
from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.server.transport.cluster_channel import ClusterCredentials
from mqclient.wire.packets import ClusterConnect, ClusterConnectReply, NodeAnnounce
from tests.support.network import NODE_ID, ScriptedBroker, World, connector

OWN = connector(61617, "own")


class AnnouncedBackupTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.broker.answers[ClusterConnect] = lambda packet: ClusterConnectReply(packet.cluster_password == "cp")
        self.announced: list[NodeAnnounce] = []
        self.broker.answers[NodeAnnounce] = self.announced.append
        self.world = World(self.broker)

    def backup(self, password: str) -> AnnouncedBackup:
        credentials = ClusterCredentials("cu", password)
        configuration = ClusterConnectionConfiguration("c", "own")
        backup = AnnouncedBackup(self.world.runtime, configuration, credentials, NODE_ID, OWN, lambda: [connector()])
        self.addCleanup(self.world.network.stir)
        self.addCleanup(backup.stop)
        backup.start()
        self.world.network.stir()
        return backup

    def test_a_backup_announces_itself_for_the_node_again_after_each_loss(self) -> None:
        self.backup("cp")
        self.world.network.link.cut()
        self.world.advance(1)
        self.assertEqual([(each.node_id, each.backup, each.connector) for each in self.announced], [(NODE_ID, True, OWN)] * 2)
        self.assertLess(self.announced[0].event_id, self.announced[1].event_id)

    def test_a_backup_with_another_password_announces_nothing(self) -> None:
        self.backup("wrong")
        self.world.advance(1)
        self.assertEqual(self.announced, [])

    def test_a_backup_that_is_stopped_leaves(self) -> None:
        self.backup("cp").stop()
        self.world.network.stir()
        self.assertTrue(self.world.network.link.closed_by_client)
