"""A broker before its activation: votes are stored and answered, and clients are sent away."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.server.transport.cluster_channel import PRODUCT
from mqbroker.server.transport.waiting import WaitingServer
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL, PING_CHANNEL, SESSION_CHANNEL
from tests.support.broker import Peer
from tests.support.clock import FakeClock
from tests.support.held_store import HeldStore


class Voter:
    """Stores each ballot before it answers."""

    def __init__(self, store: HeldStore) -> None:
        self.store = store

    def vote(self, connection: object, ballot: bytes) -> Deferred[bytes]:
        stored: Deferred[bytes] = Deferred()
        batch = self.store.begin()
        batch.put_setting("ballot", "last", ballot.decode())
        self.store.when_synced(self.store.commit(batch), stored.callback, b"stored " + ballot)
        return stored


class WaitingServerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.store: Any = HeldStore()
        configuration = Configuration(cluster_user="cu", cluster_password="cp")
        numbers = count()
        self.server = WaitingServer(configuration, self.store, self.clock, lambda: str(next(numbers)))
        self.server.cluster_channel.register_vote("Ballot", Voter(self.store).vote)

    def peer(self) -> Peer:
        world: Any = SimpleNamespace(server=self.server)
        return Peer(world)

    def member(self) -> Peer:
        peer = self.peer()
        peer.send(wire.ClusterConnect("cu", "cp"), CLUSTER_CHANNEL)
        self.assertEqual(peer.take(CLUSTER_CHANNEL), [wire.ClusterConnectReply(True)])
        return peer

    def test_a_ballot_is_answered_once_it_is_stored(self) -> None:
        peer = self.member()
        self.store.held = True
        peer.send(wire.QuorumVote("Ballot", b"7"), CLUSTER_CHANNEL)
        self.assertEqual(peer.read(), [])
        self.assertEqual(self.store.log[-1], (("setting", "ballot", "last", "7"),))
        self.store.sync()
        self.clock.advance(0)
        self.assertEqual(peer.take(CLUSTER_CHANNEL), [wire.QuorumVoteReply("Ballot", b"stored 7")])

    def test_the_password_is_asked_for(self) -> None:
        peer = self.peer()
        peer.send(wire.ClusterConnect("cu", "wrong"), CLUSTER_CHANNEL)
        peer.send(wire.QuorumVote("Ballot", b"7"), CLUSTER_CHANNEL)
        self.assertEqual(peer.read(), [(CLUSTER_CHANNEL, wire.ClusterConnectReply(False))])
        self.assertEqual(self.store.log, [])

    def test_clients_are_sent_away_with_their_first_request(self) -> None:
        for packet, channel in (
            (wire.CreateSession("s", 10, 136, None, None, 1000, False, True, True, -1, False), SESSION_CHANNEL),
            (wire.ReattachSession("old", 0), SESSION_CHANNEL),
        ):
            peer = self.peer()
            peer.send(packet, channel)
            self.clock.advance(0)
            self.assertEqual((peer.read(), peer.transport.aborted), ([], True), packet)

    def test_a_java_client_that_connects_again_learns_that_it_may_not_go_on_here(self) -> None:
        peer = self.peer()
        peer.send(wire.SubscribeTopologyV2(False, 136), PING_CHANNEL)
        self.clock.advance(0.4)
        peer.send(wire.CheckForFailover("node"), SESSION_CHANNEL)
        self.assertEqual(peer.take(SESSION_CHANNEL), [wire.CheckForFailoverReply(False)])

    def test_a_client_that_wants_to_hear_of_the_cluster_is_sent_away(self) -> None:
        peer = self.peer()
        peer.send(wire.SubscribeTopologyV2(False, 136), PING_CHANNEL)
        self.clock.advance(0.5)
        self.assertEqual((peer.read(), peer.transport.aborted), ([], True))

    def test_a_client_that_asks_whether_it_may_go_on_here_is_told_no(self) -> None:
        peer = self.peer()
        peer.send(wire.CheckForFailover(None), SESSION_CHANNEL)
        self.assertEqual(peer.take(SESSION_CHANNEL), [wire.CheckForFailoverReply(False)])

    def test_another_mqbroker_learns_that_somebody_is_here(self) -> None:
        peer = self.peer()
        peer.send(wire.ClusterConnect("cu", "cp", PRODUCT, 1), CLUSTER_CHANNEL)
        peer.take(CLUSTER_CHANNEL)
        peer.send(wire.SubscribeTopologyV2(False, 136), PING_CHANNEL)
        [packet] = peer.take(PING_CHANNEL)
        assert isinstance(packet, wire.ClusterTopologyV4)
        self.assertEqual((packet.node_id, packet.primary), (self.server.node_id, None))

    def test_a_java_broker_does_not_hear_of_an_active_broker_that_is_none(self) -> None:
        peer = self.member()
        peer.send(wire.SubscribeTopologyV2(True, 136), PING_CHANNEL)
        self.clock.advance(0.5)
        self.assertEqual((peer.read(), peer.transport.aborted), ([], True))

    def test_who_is_silent_for_too_long_is_given_up(self) -> None:
        peer = self.peer()
        peer.ping(1000)
        self.clock.advance(60)
        self.assertTrue(peer.transport.aborted)

    def test_the_end_leaves_nothing_behind(self) -> None:
        peer = self.member()
        self.server.stop()
        self.assertEqual(peer.take(PING_CHANNEL), [wire.DisconnectV3("node", wire.REASON_SCALE_DOWN, None)])
        self.assertTrue(peer.transport.closed)
        self.assertEqual(self.clock.pending, 0)

    def test_a_question_that_came_while_the_journal_was_read_is_answered(self) -> None:
        client, late, member = self.peer(), self.peer(), self.member()
        self.server.retire()
        self.assertEqual(member.take(PING_CHANNEL), [wire.DisconnectV3("node", wire.REASON_SCALE_DOWN, None)])
        self.assertTrue(member.transport.closed)
        client.send(wire.CheckForFailover("node"), SESSION_CHANNEL)
        self.assertEqual(client.take(SESSION_CHANNEL), [wire.CheckForFailoverReply(False)])
        self.clock.advance(0.4)
        late.send(wire.CheckForFailover("node"), SESSION_CHANNEL)
        self.assertEqual(late.take(SESSION_CHANNEL), [wire.CheckForFailoverReply(False)])
        self.clock.advance(0.1)
        self.assertEqual((client.transport.closed, late.transport.closed, self.clock.pending), (True, True, 0))

    def test_a_broker_that_asks_late_is_to_ask_the_active_broker(self) -> None:
        peer = self.peer()
        self.server.retire()
        peer.send(wire.ClusterConnect("cu", "cp"), CLUSTER_CHANNEL)
        self.clock.advance(0)
        self.assertEqual((peer.read(), peer.transport.aborted), ([], True))

    def test_the_end_of_the_broker_waits_for_no_client_that_may_ask(self) -> None:
        peer = self.peer()
        self.server.retire()
        self.server.stop()
        self.server.stop()
        self.assertEqual((peer.transport.closed, self.clock.pending), (True, 0))
