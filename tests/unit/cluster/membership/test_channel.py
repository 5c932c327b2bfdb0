"""The cluster channel: members, announcements, votes, and peers without the password."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.announcements import ALREADY_REPLICATING
from mqbroker.cluster.membership.votes import FAILOVER_VOTE
from mqbroker.server.transport.cluster_channel import WRONG_PASSWORDS_MAX, ClusterCredentials
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL, PING_CHANNEL, SESSION_CHANNEL
from mqclient.wire.primitives import Writer
from tests.support.clock import START_MS
from tests.unit.cluster.support import cluster_world, connector, joined, member, subscribed


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


class FailoverTests(SynchronousTestCase):
    def test_clients_of_other_brokers_may_go_on_here(self) -> None:
        world, _ = cluster_world()
        peer = joined(world)
        peer.send(wire.ScaleDownAnnouncement(world.server.node_id, "b"), CLUSTER_CHANNEL)
        for node in (None, world.server.node_id, "b"):
            peer.send(wire.CheckForFailover(node), SESSION_CHANNEL)
            self.assertEqual(peer.take(SESSION_CHANNEL), [wire.CheckForFailoverReply(True)])


class LaterTests(SynchronousTestCase):
    """Answers that have to wait, such as those to ballots, which are stored first."""

    def setUp(self) -> None:
        self.world, self.cluster = cluster_world()
        self.asked: list[tuple[bytes, Deferred[bytes]]] = []
        self.cluster.channel.register_vote("Ballot", self.store)
        self.peer = joined(self.world)

    def store(self, connection: object, ballot: bytes) -> Deferred[bytes]:
        stored: Deferred[bytes] = Deferred()
        self.asked.append((ballot, stored))
        return stored

    def ask(self, *ballots: bytes) -> None:
        for ballot in ballots:
            self.peer.send(wire.QuorumVote("Ballot", ballot), CLUSTER_CHANNEL)

    def test_answers_keep_the_order_of_the_questions(self) -> None:
        self.ask(b"1", b"2")
        self.peer.send(wire.QuorumVote(FAILOVER_VOTE, vote(False, "b")), CLUSTER_CHANNEL)
        self.peer.ping()
        self.assertEqual([ballot for ballot, _ in self.asked], [b"1"])
        self.assertEqual(self.peer.read(), [])
        self.asked[0][1].callback(b"yes")
        self.assertEqual(self.peer.read(), [(CLUSTER_CHANNEL, wire.QuorumVoteReply("Ballot", b"yes"))])
        self.asked[1][1].callback(b"no")
        names = [packet.handler if isinstance(packet, wire.QuorumVoteReply) else packet.NAME for _, packet in self.peer.read()]
        self.assertEqual(names, ["Ballot", FAILOVER_VOTE, "PING"])

    def test_no_more_is_read_meanwhile_and_the_peer_lives(self) -> None:
        self.peer.ping(1000)
        self.peer.read()
        self.ask(b"1")
        self.assertFalse(self.peer.transport.reading)
        self.world.clock.advance(60)
        self.assertFalse(self.peer.transport.closed)
        self.asked[0][1].callback(b"yes")
        self.assertTrue(self.peer.transport.reading)

    def test_others_are_answered_meanwhile(self) -> None:
        self.ask(b"1")
        other = joined(self.world)
        other.send(wire.QuorumVote(FAILOVER_VOTE, vote(False, "b")), CLUSTER_CHANNEL)
        self.assertEqual(len(other.take(CLUSTER_CHANNEL)), 1)

    def test_who_has_gone_gets_no_answer(self) -> None:
        self.ask(b"1", b"2")
        self.peer.lose()
        self.asked[0][1].callback(b"yes")
        self.assertEqual((self.peer.read(), len(self.asked)), ([], 1))
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_without_an_answer_the_connection_ends(self) -> None:
        self.ask(b"1")
        self.asked[0][1].errback(OSError("the disk is gone"))
        self.assertTrue(self.peer.transport.aborted)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)

    def test_a_packet_may_be_answered_later_too(self) -> None:
        told: Deferred[wire.Packet] = Deferred()
        self.cluster.channel.register(wire.BackupRegistration, lambda connection, packet: told)
        self.peer.send(wire.BackupRegistration("cu", "cp", False, connector(2)), CLUSTER_CHANNEL)
        self.assertEqual(self.peer.read(), [])
        told.callback(wire.BackupRegistrationFailed(ALREADY_REPLICATING))
        self.assertEqual(self.peer.take(CLUSTER_CHANNEL), [wire.BackupRegistrationFailed(ALREADY_REPLICATING)])
