"""The packets between an active broker and its replica."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.replication import packets as p
from mqclient.errors import MalformedPacketError
from mqclient.wire.frames import HEADER_SIZE, FrameSplitter
from mqclient.wire.primitives import TransportConfiguration

NAMES = st.text(max_size=40).filter(lambda text: not any("\ud800" <= each <= "\udfff" for each in text))
NUMBERS = st.integers(0, (1 << 63) - 1)
BYTES = st.binary(max_size=1000)
CONNECTORS = st.builds(TransportConfiguration, NAMES, NAMES, st.tuples(st.tuples(NAMES, NAMES)))
PACKETS = st.one_of(
    st.builds(p.Hello, st.integers(1, 9), NAMES, NAMES),
    st.builds(p.Welcome, st.integers(1, 9), NAMES, NAMES, CONNECTORS, st.booleans()),
    st.builds(p.Answered, NUMBERS),
    st.builds(p.Complete, NUMBERS),
    st.just(p.Ready()),
    st.just(p.Completed()),
    st.builds(p.Question, st.integers(0, 9), NAMES, BYTES),
    st.builds(p.Reply, st.integers(0, 9), BYTES),
    st.builds(p.ScheduledFailover, st.sampled_from([p.STOP_CALLED, p.FAIL_OVER])),
)


def read(data: bytes) -> list[p.Said | p.Changes]:
    frames = FrameSplitter().feed(data)
    return [p.read_packet(int.from_bytes(each[4:5], "big", signed=True), each[HEADER_SIZE:]) for each in frames]


class PacketTests(SynchronousTestCase):
    @given(PACKETS)
    def test_what_is_written_is_read(self, packet: p.Said) -> None:
        self.assertEqual(read(p.packet_frame(packet)), [packet])

    @given(st.integers(-128, 127), st.binary(max_size=100))
    def test_any_bytes_are_a_packet_or_an_error(self, packet_type: int, body: bytes) -> None:
        try:
            p.read_packet(packet_type, body)
        except MalformedPacketError as error:
            self.assertTrue(str(error))

    @given(st.lists(st.binary(max_size=3 * p.CHANGES_MAX), max_size=3))
    def test_the_stream_of_changes_keeps_its_order_in_frames_that_every_connection_takes(self, buffers: list[bytes]) -> None:
        found = read(b"".join(p.changes_frames(buffers)))
        self.assertEqual(b"".join(each.data for each in found if isinstance(each, p.Changes)), b"".join(buffers))

    def test_what_is_too_long_is_refused_unread(self) -> None:
        for packet_type, size in ((p.Hello.TYPE, p.TEXT_MAX + 1), (p.Changes.TYPE, p.CHANGES_MAX + 1)):
            self.assertIn("are more than", str(self.assertRaises(MalformedPacketError, p.read_packet, packet_type, bytes(size))))
