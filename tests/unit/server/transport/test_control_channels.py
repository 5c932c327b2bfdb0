"""What peers say beside their sessions."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqclient.errors import MalformedPacketError
from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL, REPLICATION_CHANNEL, SESSION_CHANNEL, frame
from tests.support.broker import World


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


class KnownLink:
    """Keeps what a broker sends beside the other channels."""

    def __init__(self) -> None:
        self.packets: list[tuple[int, bytes]] = []
        self.ends: list[str] = []

    def received(self, packet_type: int, body: memoryview) -> None:
        if packet_type == 0:
            raise MalformedPacketError("X", "y", "is wrong")
        self.packets.append((packet_type, bytes(body)))

    def ended(self, reason: str) -> None:
        self.ends.append(reason)


class LinkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.peer = self.world.peer()
        self.link = KnownLink()

    def test_without_a_link_there_is_no_such_channel(self) -> None:
        self.peer.feed(frame(1, REPLICATION_CHANNEL, b"x"))
        self.assertTrue(self.peer.transport.aborted)

    def test_a_broker_that_has_not_heard_of_its_refusal_yet_keeps_its_connection(self) -> None:
        self.peer.connection.admit("mqbroker")
        self.peer.feed(frame(1, REPLICATION_CHANNEL, b"x"))
        self.assertFalse(self.peer.transport.aborted)

    def test_a_link_has_the_packets_of_its_channel_and_hears_of_the_end(self) -> None:
        self.peer.connection.use_for(self.link)
        self.peer.feed(frame(-7, REPLICATION_CHANNEL, b"abc"))
        self.assertEqual(self.link.packets, [(-7, b"abc")])
        self.peer.feed(frame(0, REPLICATION_CHANNEL, b""))
        self.assertTrue(self.peer.transport.aborted)
        self.assertIn("is wrong", self.link.ends[0])

    def test_a_peer_that_reads_slowly_is_read_from_all_the_same(self) -> None:
        self.peer.connection.use_for(self.link)
        self.peer.connection.pause_output()
        self.assertTrue(self.peer.transport.reading)

    def test_the_stop_of_the_server_leaves_the_connection_to_the_link(self) -> None:
        self.peer.connection.use_for(self.link)
        self.world.server.stop()
        self.assertFalse(self.peer.transport.closed)
        self.peer.connection.fail("")
        self.assertEqual((self.peer.transport.aborted, len(self.link.ends)), (True, 1))
