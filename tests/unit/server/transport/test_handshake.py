"""The first bytes of a connection, and the versions of its peer."""

from __future__ import annotations

from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL, PREAMBLE, SESSION_CHANNEL
from tests.support.broker import of_kind
from tests.unit.server.transport.test_connection import ConnectionCase, ping_frame


class HandshakeTests(ConnectionCase):
    def test_byte_by_byte(self) -> None:
        peer = self.world.peer(handshake=False)
        for byte in PREAMBLE + ping_frame():
            peer.feed(bytes((byte,)))
        self.assertEqual(of_kind(peer.take(PING_CHANNEL), wire.Ping), [wire.Ping(60000)])

    def test_a_peer_without_preamble_is_taken_as_core(self) -> None:
        peer = self.world.peer(handshake=False)
        peer.feed(ping_frame())
        self.assertEqual(len(peer.take(PING_CHANNEL)), 1)

    def test_other_protocols_are_sent_away(self) -> None:
        for data in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"AMQP\x00\x01\x00\x00",
            b"CONNECT\naccept-version:1.2\n\n\x00",
            b"ARTEMIX\x00\x00",
            b"\x16\x03\x01\x02\x00",
        ):
            peer = self.world.peer(handshake=False)
            peer.feed(data)
            self.assertTrue(peer.transport.aborted, data)
            self.assertEqual(bytes(peer.transport.written), b"")

    def test_the_server_never_speaks_first(self) -> None:
        self.assertEqual(self.world.peer().read(), [])

    def test_a_silent_peer_is_closed_after_the_time_out(self) -> None:
        silent, half, done = (self.world.peer(handshake=False) for _ in range(3))
        half.feed(PREAMBLE)
        done.feed(PREAMBLE + ping_frame())
        self.world.clock.advance(9.9)
        self.assertFalse(silent.transport.closed)
        self.world.clock.advance(0.2)
        self.assertTrue(silent.transport.aborted)
        self.assertTrue(half.transport.aborted)
        self.assertFalse(done.transport.closed)
        self.assertEqual(list(self.world.server.connections), [done.connection.connection_id])

    def test_each_acceptor_has_its_own_time_out(self) -> None:
        patient = self.world.peer(handshake=False, handshake_timeout_seconds=0)
        hasty = self.world.peer(handshake=False, handshake_timeout_seconds=0.5)
        self.world.clock.advance(1)
        self.assertTrue(hasty.transport.aborted)
        self.world.clock.advance(50)
        self.assertFalse(patient.transport.closed)

    def test_a_closed_connection_leaves_no_timer(self) -> None:
        before = self.world.clock.pending
        peer = self.world.peer(handshake=False)
        peer.lose()
        self.assertEqual(self.world.clock.pending, before)


class VersionTests(ConnectionCase):
    def test_the_topology_has_the_form_of_the_version(self) -> None:
        for version, kind in (
            (121, wire.ClusterTopology),
            (122, wire.ClusterTopologyV2),
            (130, wire.ClusterTopologyV2),
            (131, wire.ClusterTopologyV4),
        ):
            peer = self.world.peer()
            peer.version = version
            peer.send(wire.SubscribeTopologyV2(False, version), PING_CHANNEL)
            (answer,) = peer.take(PING_CHANNEL)
            self.assertIs(type(answer), kind)
            self.assertTrue(answer.last)  # type: ignore[attr-defined]

    def test_the_notice_of_a_stop_has_the_form_of_the_version(self) -> None:
        peers = []
        for version in (124, 125, 131):
            peer = self.world.peer()
            peer.version = version
            peer.send(wire.SubscribeTopologyV2(False, version), PING_CHANNEL)
            peer.read()
            peers.append(peer)
        self.world.server.stop()
        self.assertEqual([type(peer.take(PING_CHANNEL)[0]) for peer in peers], [wire.Disconnect, wire.DisconnectV2, wire.DisconnectV3])
        self.assertTrue(all(peer.transport.closed and not peer.transport.aborted for peer in peers))

    def test_versions_outside_the_range_are_refused_and_the_connection_stays(self) -> None:
        peer = self.world.peer()
        for version in (120, 137):
            session = peer.session(version=version)
            (answer,) = peer.take(SESSION_CHANNEL)
            self.assertEqual(getattr(answer, "error_code", None), 108)
            self.assertNotIn(session.channel, peer.connection.sessions)
        peer.open(version=136)

    def test_a_failover_check_is_always_answered_with_yes(self) -> None:
        peer = self.world.peer()
        peer.send(wire.CheckForFailover("another node"), SESSION_CHANNEL)
        self.assertEqual(peer.take(SESSION_CHANNEL), [wire.CheckForFailoverReply(True)])
