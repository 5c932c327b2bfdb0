"""The cluster channel: who is taken as a member, and answers that come later."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.announcements import ALREADY_REPLICATING
from mqbroker.cluster.membership.votes import FAILOVER_VOTE
from mqbroker.config.model.configuration import Configuration
from mqbroker.server.transport.cluster_channel import PRODUCT, WRONG_PASSWORDS_MAX, ClusterCredentials
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL
from tests.support.broker import World
from tests.unit.cluster.membership.test_votes import vote
from tests.unit.cluster.support import cluster_world, connector, joined


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

    def test_a_broker_that_says_what_it_is_hears_what_this_one_is(self) -> None:
        world, _ = cluster_world()
        for product, answer in (("mqbroker", wire.ClusterConnectReply(True, PRODUCT, 1)), (None, wire.ClusterConnectReply(True))):
            peer = world.peer()
            peer.send(wire.ClusterConnect("cu", "cp", product, int(product is not None)), CLUSTER_CHANNEL)
            self.assertEqual(peer.take(CLUSTER_CHANNEL), [answer])
            self.assertEqual(peer.connection.product, product)

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
            world = World(Configuration(cluster_user="cu", cluster_password="cp", security_enabled=enabled))
            peer = world.peer()
            peer.send(wire.ClusterConnect("cu", "cp"), CLUSTER_CHANNEL)
            self.assertEqual(peer.take(CLUSTER_CHANNEL), answers)

    def test_the_password_is_not_shown(self) -> None:
        self.assertNotIn("cp", repr(ClusterCredentials("cu", "cp")))
        self.assertNotIn("secret", repr(wire.ClusterConnect("cu", "secret")))


class LaterTests(SynchronousTestCase):
    """Answers that have to wait, such as those to ballots, which are stored first."""

    def setUp(self) -> None:
        self.world, self.cluster = cluster_world()
        self.asked: list[tuple[bytes, Deferred[bytes]]] = []
        self.world.server.cluster_channel.register_vote("Ballot", self.store)
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
        for end in (lambda peer: peer.lose(), lambda peer: peer.connection.fail("given up")):
            self.asked.clear()
            self.peer = joined(self.world)
            self.ask(b"1", b"2")
            end(self.peer)
            self.asked[0][1].callback(b"yes")
            self.world.clock.advance(0)
            self.assertEqual((self.peer.read(), len(self.asked)), ([], 1))
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_without_an_answer_the_connection_ends(self) -> None:
        self.ask(b"1")
        self.asked[0][1].errback(OSError("the disk is gone"))
        self.assertTrue(self.peer.transport.aborted)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)

    def test_a_packet_may_be_answered_later_too(self) -> None:
        told: Deferred[wire.Packet] = Deferred()
        self.world.server.cluster_channel.register(wire.BackupRegistration, lambda connection, packet: told)
        self.peer.send(wire.BackupRegistration("cu", "cp", False, connector(2)), CLUSTER_CHANNEL)
        self.assertEqual(self.peer.read(), [])
        told.callback(wire.BackupRegistrationFailed(ALREADY_REPLICATING))
        self.assertEqual(self.peer.take(CLUSTER_CHANNEL), [wire.BackupRegistrationFailed(ALREADY_REPLICATING)])
