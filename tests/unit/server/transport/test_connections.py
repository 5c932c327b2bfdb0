"""All connections of one server: made, looked after and ended together."""

from __future__ import annotations

from itertools import pairwise
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.server.transport.connection import ServerConnection
from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL
from tests.support.broker import World


class ConnectionsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()

    def test_each_has_an_id_of_its_own_and_is_counted_also_after_its_end(self) -> None:
        server = self.world.server
        first, second = self.world.peer(), self.world.peer()
        self.assertEqual(set(server.connections), {first.connection.connection_id, second.connection.connection_id})
        first.lose()
        self.assertEqual((set(server.connections), server.total_connections), ({second.connection.connection_id}, 2))

    def test_an_id_that_is_in_use_is_not_given_again(self) -> None:
        """Ids are 32 random bits: the earlier connection was no longer looked after, and a silent peer kept its messages for ever."""
        ids = iter([b"same", b"same", b"same", b"rest"])
        self.world = World(entropy=lambda size: next(ids, bytes(size)))
        first = self.world.peer()
        first.ping(ttl_ms=5000)
        second = self.world.peer()
        self.assertEqual(set(self.world.server.connections), {b"same".hex(), b"rest".hex()})
        for _ in range(10):
            second.ping(ttl_ms=5000)
            self.world.clock.advance(1)
        self.assertEqual((first.transport.closed, second.transport.closed), (True, False))

    def test_a_peer_that_is_silent_for_too_long_is_given_up_and_others_stay(self) -> None:
        silent, alive = self.world.peer(), self.world.peer()
        silent.ping(ttl_ms=5000)
        for _ in range(10):
            alive.ping(ttl_ms=5000)
            self.world.clock.advance(1)
        self.assertEqual((silent.transport.closed, alive.transport.closed), (True, False))

    def test_signs_of_life_that_wait_in_the_socket_of_a_broker_that_stood_still_are_read_first(self) -> None:
        heard, silent = self.world.peer(), self.world.peer()
        heard.ping(ttl_ms=5000)
        silent.ping(ttl_ms=5000)
        self.world.clock.advance(7)
        self.world.clock.call_later(1, heard.ping, 5000)  # after the timer of the check, which is in the same turn
        self.world.clock.advance(1)
        self.assertEqual((heard.transport.closed, silent.transport.closed), (False, True))

    def test_a_check_that_fails_does_not_end_the_others(self) -> None:
        broken, silent = self.world.peer(), self.world.peer()
        silent.ping(ttl_ms=5000)
        plain = ServerConnection.check_alive

        def check(connection: ServerConnection, now: float) -> None:
            if connection is broken.connection:
                raise ValueError("broken")
            plain(connection, now)

        with mock.patch.object(ServerConnection, "check_alive", check):
            self.world.clock.advance(10)
        self.assertTrue(self.flushLoggedErrors(ValueError))
        self.assertTrue(silent.transport.closed)

    def test_a_peer_that_is_not_heard_is_shown_life_in_time_for_its_own_ttl(self) -> None:
        """A client with a TTL of 1.5 s gave its connection up while its commit waited for another broker."""
        hasty, calm, heard = (self.world.peer() for _ in range(3))
        for peer, ttl_ms in ((hasty, 1500), (calm, 60_000), (heard, 1500)):
            peer.ping(ttl_ms)
            peer.connection.hold_back()
            peer.read()
        heard.connection.hear_again()
        signs: list[float] = []
        for step in range(1, 81):
            self.world.clock.advance(0.25)
            if hasty.read():
                signs.append(step / 4)
            if step == 59:
                self.assertEqual(calm.read(), [])
        self.assertEqual(calm.take(PING_CHANNEL), [wire.Ping(60_000)])
        self.assertFalse(hasty.transport.closed)
        self.assertLessEqual(max(later - sooner for sooner, later in pairwise([0.0, *signs])), 0.75)
        self.assertEqual(heard.read(), [])
        for peer in (hasty, calm):
            peer.connection.hear_again()
            peer.read()
        self.world.clock.advance(1.0)
        self.assertEqual(hasty.read(), [])

    def test_nothing_is_due_after_the_end(self) -> None:
        held, late = self.world.peer(), self.world.peer()
        held.connection.hold_back()
        due = self.world.clock.pending
        self.world.server.stop()
        left = self.world.clock.pending
        self.assertLess(left, due)
        late.connection.hold_back()
        self.assertEqual(self.world.clock.pending, left)
