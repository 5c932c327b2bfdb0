"""Connections that say nothing for too long."""

from __future__ import annotations

from mqbroker.config.model.configuration import Configuration
from mqclient.wire import packets as wire
from tests.support.broker import World
from tests.unit.server.transport.test_connection import ConnectionCase


class LivenessTests(ConnectionCase):
    def test_a_silent_client_is_dropped_after_its_ttl(self) -> None:
        peer = self.world.peer()
        peer.ping(3000)
        peer.open()
        self.world.clock.advance(2.5)
        self.assertFalse(peer.transport.closed)
        self.world.clock.advance(5)
        self.assertTrue(peer.transport.aborted)
        self.assertEqual(self.world.server.sessions.by_name, {})

    def test_any_packet_keeps_a_connection_alive(self) -> None:
        peer = self.world.peer()
        peer.ping(3000)
        session = peer.open()
        for _ in range(20):
            self.world.clock.advance(1.5)
            session.send(wire.SessionStart())
        self.assertFalse(peer.transport.closed)

    def test_a_ttl_of_minus_one_never_ends(self) -> None:
        peer = self.world.peer()
        peer.open()
        peer.ping(-1)
        self.world.clock.advance(1000)
        self.assertFalse(peer.transport.closed)

    def test_the_override_beats_the_client(self) -> None:
        world = World(Configuration(security_enabled=False, connection_ttl_override=4000))
        peer = world.peer()
        peer.ping(-1)
        world.clock.advance(9)
        self.assertTrue(peer.transport.aborted)

    def test_sessions_of_a_lost_socket_end_even_without_ttl(self) -> None:
        peer = self.world.peer()
        peer.ping(-1)
        peer.open(window_size=1000)
        peer.lose()
        self.world.clock.advance(50)
        self.assertEqual(len(self.world.server.sessions.by_name), 1)
        self.world.clock.advance(20)
        self.assertEqual(len(self.world.server.sessions.by_name), 0)
