"""The cluster channel: members, announcements, votes, and peers without the password."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.channel import ALREADY_REPLICATING, SCALED_DOWN_MAX, WRONG_PASSWORDS_MAX, ClusterCredentials
from mqbroker.cluster.membership.votes import FAILOVER_VOTE
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL, PING_CHANNEL, SESSION_CHANNEL
from mqclient.wire.primitives import Writer
from tests.support.clock import START_MS
from tests.unit.cluster.support import Clustered, cluster_world, connector, joined, member, subscribed
from tests.unit.server.support import World


def vote(asked: bool, node_id: str, text: str | None = None) -> bytes:
    writer = Writer()
    writer.boolean(asked)
    writer.string(node_id)
    writer.nullable_string(text)
    return bytes(writer.data)


class JoiningTests(SynchronousTestCase):
    def test_the_password_decides(self) -> None:
        world, _ = cluster_world()
        for user, password, right in (("cu", "cp", True), ("cu", "x", False), ("x", "cp", False), ("cu", "\udc00", False)):
            peer = world.peer()
            peer.send(wire.ClusterConnect(user, password), CLUSTER_CHANNEL)
            self.assertEqual(peer.take(CLUSTER_CHANNEL), [wire.ClusterConnectReply(right)])
            self.assertIs(peer.connection.cluster_authorized, right)

    def test_without_security_everybody_is_a_member(self) -> None:
        world, _ = cluster_world(security_enabled=False)
        peer = world.peer()
        peer.send(wire.ClusterConnect("who", "knows"), CLUSTER_CHANNEL)
        self.assertEqual(peer.take(CLUSTER_CHANNEL), [wire.ClusterConnectReply(True)])

    def test_a_second_request_of_a_member_is_ignored(self) -> None:
        world, _ = cluster_world()
        peer = joined(world)
        peer.send(wire.ClusterConnect("cu", "wrong"), CLUSTER_CHANNEL)
        self.assertEqual(peer.take(CLUSTER_CHANNEL), [])
        self.assertTrue(peer.connection.cluster_authorized)

    def test_nothing_else_is_heeded_before(self) -> None:
        world, cluster = cluster_world()
        peer = world.peer()
        peer.send(wire.NodeAnnounce("b", None, False, 1, connector(1)), CLUSTER_CHANNEL)
        peer.send(wire.QuorumVote(FAILOVER_VOTE, vote(False, "b")), CLUSTER_CHANNEL)
        peer.send(wire.ScaleDownAnnouncement(world.server.node_id, "b"), CLUSTER_CHANNEL)
        self.assertEqual(peer.read(), [])
        self.assertEqual(len(cluster.topology), 0)
        self.assertEqual(cluster.channel.scaled_down, frozenset())

    def test_who_guesses_on_is_given_up(self) -> None:
        world, _ = cluster_world()
        peer = world.peer()
        for number in range(WRONG_PASSWORDS_MAX):
            self.assertFalse(peer.transport.closed)
            peer.send(wire.ClusterConnect("cu", f"{number}"), CLUSTER_CHANNEL)
        world.clock.advance(0)
        self.assertTrue(peer.transport.aborted)

    def test_a_broker_in_no_cluster_answers_only_without_security(self) -> None:
        for enabled, answers in ((True, []), (False, [wire.ClusterConnectReply(True)])):
            world = cluster_world(security_enabled=enabled)[0]
            world.server.cluster = None
            peer = world.peer()
            peer.send(wire.ClusterConnect("cu", "cp"), CLUSTER_CHANNEL)
            self.assertEqual(peer.take(CLUSTER_CHANNEL), answers)

    def test_the_password_is_not_shown(self) -> None:
        self.assertNotIn("cp", repr(ClusterCredentials("cu", "cp")))
        self.assertNotIn("secret", repr(wire.ClusterConnect("cu", "secret")))


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

    def test_a_backup_is_entered_by_the_own_clock(self) -> None:
        self.cluster.topology.up(member("b", START_MS - 5))
        self.announce(wire.NodeAnnounce("b", None, True, 7, connector(2)))
        found = self.cluster.topology.get("b")
        assert found is not None
        self.assertEqual((found.unique_event_id, found.primary, found.backup), (START_MS, connector(1), connector(2)))

    def test_another_broker_with_the_own_node_id_shows_in_health(self) -> None:
        self.cluster.topology.own(connector(1))
        self.assertIsNone(self.world.server.problem())
        self.announce(wire.NodeAnnounce(self.world.server.node_id, None, False, START_MS + 1, connector(2)))
        self.assertIn("is announced with the node id of this one", str(self.world.server.problem()))

    def test_a_replica_is_sent_to_another_primary(self) -> None:
        peer = joined(self.world)
        peer.send(wire.BackupRegistration("cu", "cp", False, connector(2)), CLUSTER_CHANNEL)
        self.assertEqual(peer.take(CLUSTER_CHANNEL), [wire.BackupRegistrationFailed(ALREADY_REPLICATING)])
        self.assertFalse(peer.transport.aborted)

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


class ScaleDownTests(SynchronousTestCase):
    def test_clients_of_a_broker_that_has_scaled_down_may_go_on_here(self) -> None:
        world, cluster = cluster_world()
        cluster = Clustered(world, scales_down=True)
        peer = joined(world)
        self.assertEqual([self.may(world, node) for node in (None, world.server.node_id, "b")], [True, True, False])
        peer.send(wire.ScaleDownAnnouncement("other", "b"), CLUSTER_CHANNEL)
        self.assertFalse(self.may(world, "b"))
        peer.send(wire.ScaleDownAnnouncement(world.server.node_id, "b"), CLUSTER_CHANNEL)
        self.assertTrue(self.may(world, "b"))
        for number in range(SCALED_DOWN_MAX):
            peer.send(wire.ScaleDownAnnouncement(world.server.node_id, f"n{number}"), CLUSTER_CHANNEL)
        self.assertEqual(len(cluster.channel.scaled_down), SCALED_DOWN_MAX)
        self.assertFalse(self.may(world, "b"))

    def test_without_scale_down_everybody_may(self) -> None:
        world, _ = cluster_world()
        self.assertTrue(self.may(world, "whoever"))

    def may(self, world: World, node_id: str | None) -> bool:
        peer = world.peer()
        peer.send(wire.CheckForFailover(node_id), SESSION_CHANNEL)
        (answer,) = peer.take(SESSION_CHANNEL)
        assert isinstance(answer, wire.CheckForFailoverReply)
        return answer.ok_to_failover
