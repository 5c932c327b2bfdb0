"""The connection and the session channel without I/O."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import ConnectionTimedOutError, FrameTooLargeError, MalformedPacketError
from mqclient.protocol.connection import (
    ConnectionBroken,
    CoreConnection,
    DisconnectReceived,
    Event,
    FrameReceived,
    ManagementReceived,
    PingSent,
    TopologyReceived,
)
from mqclient.wire.frames import PREAMBLE, frame
from mqclient.wire.packets import (
    ClusterTopologyV4,
    CreateSessionResponse,
    Disconnect,
    DisconnectV2,
    DisconnectV3,
    NullResponse,
    Packet,
    Ping,
    QueueQuery,
    encode_packet,
)


def framed(channel: int, packet: Packet) -> bytes:
    return frame(packet.TYPE, channel, encode_packet(packet, 136))


def opened(ttl: int = 60_000, period: int = 30_000) -> CoreConnection:
    connection = CoreConnection(ttl, period)
    connection.opened(0.0)
    connection.data_to_send()
    return connection


class ConnectionTests(SynchronousTestCase):
    def test_opening(self) -> None:
        connection = CoreConnection(60_000, 30_000)
        connection.opened(0.0)
        self.assertEqual(connection.data_to_send(), PREAMBLE + framed(0, Ping(60_000)))
        self.assertEqual(connection.data_to_send(), b"")

    def test_versions(self) -> None:
        connection = opened()
        connection.receive_data(framed(0, ClusterTopologyV4(False, "n", 1, last=True, server_version=131)), 0.0)
        self.assertEqual(connection.version, 131)
        connection.receive_data(framed(1, CreateSessionResponse(200)), 0.0)
        self.assertEqual(connection.version, 136)

    def test_farewells(self) -> None:
        for packet, expected in (
            (Disconnect("n"), DisconnectReceived("n", 4, None, None)),
            (DisconnectV2("n", "t"), DisconnectReceived("n", 2, "t", None)),
            (DisconnectV3("n", 0, "t"), DisconnectReceived("n", 0, "t", None)),
        ):
            self.assertEqual(opened().receive_data(framed(0, packet), 0.0), [expected])

    def test_before_a_session_frames_are_small(self) -> None:
        [event] = opened().receive_data(bytes.fromhex("00020000"), 0.0)
        assert isinstance(event, ConnectionBroken)
        self.assertIsInstance(event.error, FrameTooLargeError)
        connection = opened()
        connection.receive_data(framed(1, CreateSessionResponse(136)), 0.0)
        self.assertEqual(connection.receive_data(bytes.fromhex("00020000"), 0.0), [])
        connection = opened()
        connection.allow_large_frames()
        self.assertEqual(connection.receive_data(bytes.fromhex("00020000"), 0.0), [])

    def test_events_before_a_bad_packet_are_not_lost(self) -> None:
        events = opened().receive_data(framed(1, CreateSessionResponse(136)) + frame(99, 0, b"") + framed(0, Ping(1)), 0.0)
        self.assertIsInstance(events[0], ManagementReceived)
        assert isinstance(events[1], ConnectionBroken)
        self.assertIsInstance(events[1].error, MalformedPacketError)
        self.assertEqual(len(events), 2)

    @given(st.lists(st.integers(1, 500), max_size=8))
    def test_any_cut_gives_the_same_events(self, sizes: list[int]) -> None:
        stream = b"".join(
            (
                framed(0, Ping(1)),
                framed(0, ClusterTopologyV4(False, "n", 1, last=True, server_version=136)),
                framed(1, CreateSessionResponse(136)),
                framed(10, NullResponse(-2)),
                framed(10, QueueQuery("a" * 3000)),
                framed(0, DisconnectV3("n", 4)),
            )
        )
        whole = opened().receive_data(stream, 0.0)
        self.assertEqual(
            [type(event) for event in whole], [TopologyReceived, ManagementReceived, FrameReceived, FrameReceived, DisconnectReceived]
        )
        connection, events, rest = opened(), list[Event](), stream
        for size in [*sizes, len(stream)]:
            events += connection.receive_data(rest[:size], 0.0)
            rest = rest[size:]
        self.assertEqual(events, whole)


class KeepAliveTests(SynchronousTestCase):
    def run_until_broken(self, connection: CoreConnection, echo_until: float, end: float) -> float | None:
        """The time when the connection broke, with echoes arriving up to a time."""
        while (due := connection.next_timer()) is not None and due <= end:
            for event in connection.timer_due(due):
                if isinstance(event, ConnectionBroken):
                    self.assertIsInstance(event.error, ConnectionTimedOutError)
                    return due
                self.assertIsInstance(event, PingSent)
                if due < echo_until:
                    connection.receive_data(framed(0, Ping(1)), due)
        return None

    def test_answered_pings_keep_it_alive(self) -> None:
        connection = opened()
        connection.receive_data(framed(0, Ping(1)), 0.0)
        self.assertIsNone(self.run_until_broken(connection, 10_000, 9_000))

    def test_silence_is_noticed_after_the_ttl(self) -> None:
        connection = opened()
        connection.receive_data(framed(0, Ping(1)), 0.0)
        self.assertEqual(self.run_until_broken(connection, 100, 1000), 90 + 60)

    def test_ttl_shorter_than_the_period(self) -> None:
        connection = opened(ttl=3_000, period=30_000)
        connection.receive_data(framed(0, Ping(1)), 0.0)
        self.assertEqual(self.run_until_broken(connection, 40, 1000), 63)

    def test_no_ttl_and_no_checks(self) -> None:
        self.assertIsNone(self.run_until_broken(opened(ttl=-1), 0, 1000))
        self.assertIsNone(opened(period=-1).next_timer())
