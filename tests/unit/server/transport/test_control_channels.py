"""What peers say beside their sessions."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL, SESSION_CHANNEL
from tests.unit.server.support import World


class ControlChannelTests(SynchronousTestCase):
    def test_a_ping_is_answered_and_says_how_long_its_peer_may_be_silent(self) -> None:
        peer = World().peer()
        peer.ping(ttl_ms=1234)
        self.assertEqual(peer.take(PING_CHANNEL), [wire.Ping(1234)])
        self.assertEqual(peer.connection.liveness.ttl_ms, 1234)

    def test_the_broker_may_decide_that_for_all_peers(self) -> None:
        peer = World(Configuration(security_enabled=False, connection_ttl_override=500)).peer()
        before = peer.connection.liveness.ttl_ms
        peer.ping(ttl_ms=1234)
        self.assertEqual(peer.connection.liveness.ttl_ms, before)

    def test_a_broker_alone_answers_who_asks_for_its_topology(self) -> None:
        peer = World().peer()
        peer.send(wire.SubscribeTopologyV2(False, 136), PING_CHANNEL)
        self.assertEqual(len(peer.take(PING_CHANNEL)), 1)

    def test_clients_of_a_broker_that_has_failed_may_go_on_here(self) -> None:
        peer = World().peer()
        peer.send(wire.CheckForFailover("another node"), SESSION_CHANNEL)
        self.assertEqual(peer.take(SESSION_CHANNEL), [wire.CheckForFailoverReply(True)])

    def test_packets_without_a_meaning_there_are_passed_over(self) -> None:
        peer = World().peer()
        peer.send(wire.NullResponse(), PING_CHANNEL)
        peer.send(wire.NullResponse(), SESSION_CHANNEL)
        peer.ping()
        self.assertEqual((len(peer.read()), peer.transport.closed), (1, False))
