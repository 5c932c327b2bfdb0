"""What members announce, and clients of theirs."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.announcements import ALREADY_REPLICATING
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL, PING_CHANNEL, SESSION_CHANNEL
from tests.support.clock import START_MS
from tests.unit.cluster.support import cluster_world, connector, joined, member, subscribed


class AnnouncementTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world, self.cluster = cluster_world()

    def announce(self, *announcements: wire.NodeAnnounce) -> None:
        peer = joined(self.world)
        for packet in announcements:
            peer.send(packet, CLUSTER_CHANNEL)
        self.assertEqual(peer.read(), [])

    def test_a_primary(self) -> None:
        self.announce(wire.NodeAnnounce("b", "g", False, 7, connector(1), connector(2), "s"))
        found = self.cluster.topology.get("b")
        assert found is not None
        self.assertEqual((found.unique_event_id, found.primary, found.backup), (7, connector(1), connector(2)))
        self.assertEqual((found.backup_group_name, found.scale_down_group_name), ("g", "s"))

    def test_a_primary_is_heard_from_at_each_announcement_also_where_it_is_no_news(self) -> None:
        told: list[str] = []
        self.cluster.topology.heard_from.subscribe(told.append)
        self.cluster.topology.up(member("b", 8))
        self.assertEqual(told, [])
        self.announce(wire.NodeAnnounce("b", None, False, 7, connector(1)))
        self.announce(wire.NodeAnnounce("b", None, False, 7, connector(1)))
        self.announce(wire.NodeAnnounce("b", None, True, 7, connector(2)))
        self.assertEqual(told, ["b", "b"])

    def test_a_backup_is_entered_by_the_own_clock(self) -> None:
        self.cluster.topology.up(member("b", START_MS - 5))
        self.announce(wire.NodeAnnounce("b", None, True, 7, connector(2)))
        found = self.cluster.topology.get("b")
        assert found is not None
        self.assertEqual((found.unique_event_id, found.primary, found.backup), (START_MS, connector(1), connector(2)))

    def test_a_backup_that_waits_is_entered_again_when_its_primary_is_back(self) -> None:
        topology = self.cluster.topology
        topology.up(member("b", 5))
        waiting = joined(self.world)
        waiting.send(wire.NodeAnnounce("b", None, True, 7, connector(2)), CLUSTER_CHANNEL)
        topology.lost("b")
        self.announce(wire.NodeAnnounce("b", None, False, START_MS + 5, connector(1)))
        self.assertEqual(topology.get("b"), member("b", START_MS + 6, 1, 2))
        # Which comes back may be that one: it is not its own backup.
        topology.lost("b")
        self.announce(wire.NodeAnnounce("b", None, False, START_MS + 20, connector(2)))
        self.assertEqual(topology.get("b"), member("b", START_MS + 20, 2))
        waiting.connection.lost("reset")
        topology.lost("b")
        self.announce(wire.NodeAnnounce("b", None, False, START_MS + 30, connector(1)))
        self.assertEqual(topology.get("b"), member("b", START_MS + 30))

    def test_a_backup_is_news_for_members_whose_clock_is_ahead(self) -> None:
        self.cluster.topology.up(member("b", START_MS + 9000))
        self.announce(wire.NodeAnnounce("b", None, True, 7, connector(2)))
        self.assertEqual(self.cluster.topology.get("b"), member("b", START_MS + 9001, 1, 2))

    def test_a_replica_is_sent_to_another_primary(self) -> None:
        peer = joined(self.world)
        peer.send(wire.BackupRegistration("cu", "cp", False, connector(2)), CLUSTER_CHANNEL)
        self.assertEqual(peer.take(CLUSTER_CHANNEL), [wire.BackupRegistrationFailed(ALREADY_REPLICATING)])
        self.assertFalse(peer.transport.aborted)

    def test_who_has_scaled_down_to_this_broker_is_told_to_the_cluster_connection(self) -> None:
        told: list[str] = []
        self.cluster.topology.scaled_down.subscribe(told.append)
        peer = joined(self.world)
        for target in ("another", self.world.server.node_id):
            peer.send(wire.ScaleDownAnnouncement(target, f"gone to {target}"), CLUSTER_CHANNEL)
        self.assertEqual(told, [f"gone to {self.world.server.node_id}"])

    def test_both_orders_of_subscription_and_password(self) -> None:
        first = subscribed(self.world, cluster_connection=True)
        first.take(PING_CHANNEL)
        second = self.world.peer()
        for peer in (first, second):
            peer.send(wire.ClusterConnect("cu", "cp"), CLUSTER_CHANNEL)
            peer.send(wire.NodeAnnounce(f"n{peer.connection.connection_id}", None, False, 1, connector(1)), CLUSTER_CHANNEL)
        second.send(wire.SubscribeTopologyV2(True, 136), PING_CHANNEL)
        for peer in (first, second):
            self.assertEqual(peer.take(CLUSTER_CHANNEL), [wire.ClusterConnectReply(True)])
            told: list[Any] = peer.take(PING_CHANNEL)
            self.assertEqual({packet.node_id for packet in told}, {f"n{other.connection.connection_id}" for other in (first, second)})


class FailoverTests(SynchronousTestCase):
    def test_clients_of_other_brokers_may_go_on_here(self) -> None:
        world, _ = cluster_world()
        peer = joined(world)
        peer.send(wire.ScaleDownAnnouncement(world.server.node_id, "b"), CLUSTER_CHANNEL)
        for node in (None, world.server.node_id, "b"):
            peer.send(wire.CheckForFailover(node), SESSION_CHANNEL)
            self.assertEqual(peer.take(SESSION_CHANNEL), [wire.CheckForFailoverReply(True)])
