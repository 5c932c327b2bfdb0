"""Connections: handshake, frames, liveness, back-pressure."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.server.security.login import Identity
from mqbroker.server.transport.reasons import ReasonLog
from mqclient.wire import packets as wire
from mqclient.wire.frames import FRAME_SIZE_BEFORE_SESSION, HEADER, PING_CHANNEL, SESSION_CHANNEL, frame
from mqclient.wire.hot import VERSION_CORRELATION
from tests.support.broker import Peer, World, of_kind
from tests.unit.mqclient.wire.vectors import connections, files, load


def ping_frame(ttl_ms: int = 60000) -> bytes:
    return frame(wire.Ping.TYPE, PING_CHANNEL, ttl_ms.to_bytes(8, "big", signed=True))


class ConnectionCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()

    def assert_open(self, peer: Peer) -> None:
        self.assertFalse(peer.transport.closed)
        peer.ping()
        self.assertEqual(len(of_kind(peer.take(PING_CHANNEL), wire.Ping)), 1)

    def reasons(self) -> str:
        """What was logged of closed connections."""

        return "\n".join(formatEvent(event) for event in self.logged)

    def record_log(self) -> None:

        self.logged: list[Any] = []
        publisher: Any = globalLogPublisher
        publisher.addObserver(self.logged.append)
        self.addCleanup(publisher.removeObserver, self.logged.append)


class FrameTests(ConnectionCase):
    def setUp(self) -> None:
        super().setUp()
        self.record_log()

    def test_frames_are_small_before_a_session_exists(self) -> None:
        peer = self.world.peer()
        peer.feed(HEADER.pack(FRAME_SIZE_BEFORE_SESSION + 1, wire.CreateSession.TYPE, SESSION_CHANNEL))
        self.assertTrue(peer.transport.aborted)
        self.assertIn("65541", self.reasons())

    def test_frames_may_be_large_in_a_session(self) -> None:
        session = self.world.session()
        session.create_queue("q")
        session.publish(bytes(200_000), reply=True)
        self.assertEqual(len(of_kind(session.take(), wire.NullResponse)), 1)
        self.assertEqual(self.world.queue("q").message_count, 1)

    def test_frames_have_a_limit_in_a_session(self) -> None:
        world = World()
        world.server.frame_size_max = 1_000_000
        session = world.session()
        session.peer.feed(HEADER.pack(1_000_000, wire.SessionSend.TYPE, session.channel))
        self.assertTrue(session.peer.transport.aborted)
        self.assertEqual(world.server.connections, {})

    def test_a_frame_for_an_unknown_channel_is_dropped(self) -> None:
        """A session that is closed may still be sent to; before there was one, nobody has a reason to."""
        peer = self.world.peer()
        peer.open()
        peer.send(wire.SessionStart(), 77)
        self.assert_open(peer)
        early = self.world.peer()
        early.send(wire.SessionStart(), 77)
        self.assertTrue(early.transport.aborted)

    def test_a_client_that_fails_over_may_confirm_before_its_login(self) -> None:
        """The timer of a Java client confirms on all channels, while the sessions are made anew one after the other."""
        peer = self.world.peer()
        peer.send(wire.PacketsConfirmed(3), 77)
        self.assert_open(peer)
        self.assertEqual(peer.take(77), [])

    def test_the_end_of_an_unknown_session_is_confirmed(self) -> None:
        """A Java client that closes a session while it fails over does not make it anew, and waited 30 s for an answer."""
        for version in (VERSION_CORRELATION - 1, VERSION_CORRELATION):
            for logged_in in (True, False):
                peer = self.world.peer()
                if logged_in:
                    peer.open(version=version)
                    peer.take(77)
                peer.send(wire.SessionClose(), 77)
                [answer] = peer.take(77)
                self.assertIsInstance(answer, wire.NullResponse)
                self.assert_open(peer)

    def test_an_unknown_packet_type_closes_the_connection(self) -> None:
        session = self.world.session()
        session.peer.feed(frame(119, session.channel, b""))
        self.assertTrue(session.peer.transport.aborted)
        self.assertEqual(self.world.server.sessions.by_name, {})

    def test_what_came_before_a_bad_frame_is_handled(self) -> None:
        peer = self.world.peer()
        peer.feed(ping_frame() + b"\x00\x00\x00\x01\x00")
        self.assertEqual(len(peer.take(PING_CHANNEL)), 1)
        self.assertTrue(peer.transport.aborted)


class MalformedPacketTests(ConnectionCase):
    """A packet cut off anywhere closes its connection, says why, and touches no other one."""

    def setUp(self) -> None:
        super().setUp()
        self.record_log()
        self.samples: dict[int, tuple[int, int, bytes]] = {}
        for path in files():
            if path.parent.name != "jms-2.44.0":
                continue
            for connection in connections(load(path)):
                for from_client, data in connection.frames:
                    kind, channel = data[4] - 256 * (data[4] > 127), int.from_bytes(data[5:13], "big")
                    if from_client and len(data) > 13:
                        self.samples.setdefault(kind, (connection.version, channel, data[13:]))

    def test_every_packet_of_a_client_cut_short(self) -> None:
        bystander = self.world.peer()
        self.assertGreater(len(self.samples), 30)
        for kind, (version, channel, body) in self.samples.items():
            peer = self.world.peer()
            if channel >= 10:
                session = peer.open(version=version)
                channel = session.channel
            name = wire.decode_packet(kind, body, version).NAME
            self.logged.clear()
            self.world.server.reasons = ReasonLog(self.world.clock)  # one that has not counted the packets before
            peer.feed(frame(kind, channel, body[:3] if kind not in (wire.Commit.TYPE, wire.Rollback.TYPE) else b""))
            if kind == wire.Commit.TYPE:
                continue  # the short form is a valid commit
            self.assertTrue(peer.transport.aborted, name)
            self.assertIn(name.removesuffix("_V2") if "TOPOLOGY" in name else name, self.reasons())
            self.assert_open(bystander)
        bystander.lose()
        self.assertEqual(len(self.world.server.connections), 1, "the one whose packet was a valid commit")

    @settings(max_examples=150, deadline=None)
    @given(st.data())
    def test_damaged_packets_never_get_past_their_connection(self, data: st.DataObject) -> None:
        world = World()
        bystander = world.peer()
        kind = data.draw(st.sampled_from(sorted(self.samples)))
        version, channel, body = self.samples[kind]
        at = data.draw(st.integers(0, len(body)))
        junk = data.draw(st.binary(max_size=8))
        cut = data.draw(st.integers(0, 8))
        session = world.peer().open(version=version)
        session.peer.feed(frame(kind, session.channel if channel >= 10 else channel, body[:at] + junk + body[at + cut :]))
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assert_open(bystander)


class BackPressureTests(ConnectionCase):
    def test_nothing_is_delivered_while_the_peer_does_not_read(self) -> None:
        session = self.world.session()
        session.create_queue("q")
        session.consume()
        peer = session.peer
        peer.connection.pause_output()
        self.assertFalse(peer.transport.reading)
        other = self.world.session()
        for number in range(3):
            other.publish(b"%d" % number)
        self.assertEqual(session.bodies(), [])
        self.assertEqual(self.world.queue("q").references.count, 3)
        peer.connection.resume_output()
        self.assertTrue(peer.transport.reading)
        self.assertEqual(session.bodies(), [b"0", b"1", b"2"])

    def test_a_large_message_stalls_between_chunks(self) -> None:
        sender = self.world.session()
        sender.create_queue("q")
        sender.begin_large()
        sender.chunk(bytes(300), 300)
        session = self.world.peer().open(min_large_message_size=100)
        session.peer.connection.pause_output()
        session.consume()
        self.assertEqual(session.take(), [])
        session.peer.connection.resume_output()
        self.assertEqual(len(of_kind(session.take(), wire.SessionReceiveContinuation)), 3)

    def test_a_full_transport_in_the_middle_of_a_turn_stops_delivery(self) -> None:
        """The transport says so while it is written to; what was not handed to it stays in the queue."""
        session = self.world.session()
        session.create_queue("q")
        for _ in range(8):
            session.publish(bytes(100_000))
        session.take()
        transport, connection = session.peer.transport, session.peer.connection
        write = transport.writeSequence

        def full(data: list[bytes]) -> None:
            write(data)
            connection.pause_output()

        transport.writeSequence = full  # type: ignore[method-assign]
        session.consume()
        self.assertLess(len(session.received()), 5)
        self.assertGreater(self.world.queue("q").references.count, 3)

    def test_reading_pauses_while_a_login_is_checked(self) -> None:

        waiting: list[Deferred[object]] = []

        def later(function: object, *args: object) -> Deferred[object]:
            waiting.append(Deferred())
            return waiting[-1]

        world = World(Configuration(), defer_to_thread=later)
        peer = world.peer()
        peer.session(username="admin", password="secret")
        peer.ping()
        self.assertFalse(peer.transport.reading)
        self.assertEqual(peer.read(), [])
        waiting[0].callback(Identity("admin", frozenset({"all"})))
        self.assertTrue(peer.transport.reading)
        self.assertEqual([type(packet) for _, packet in peer.read()], [wire.CreateSessionResponse, wire.Ping])

    def test_a_client_that_left_during_the_login_gets_no_session(self) -> None:

        waiting: list[Deferred[object]] = []

        def later(function: object, *args: object) -> Deferred[object]:
            waiting.append(Deferred())
            return waiting[-1]

        world = World(Configuration(), defer_to_thread=later)
        peer = world.peer()
        peer.session(username="admin", password="secret")
        peer.lose()
        waiting[0].callback(Identity("admin", frozenset({"all"})))
        self.assertEqual(world.server.sessions.by_name, {})
        self.assertEqual(world.server.connections, {})
