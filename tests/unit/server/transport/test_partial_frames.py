"""Frames that come in pieces, from peers that may never finish them."""

from __future__ import annotations

import struct

from mqbroker.server.transport import partial_frames
from mqclient.wire import packets as wire
from mqclient.wire.frames import HEADER, PING_CHANNEL, frame
from mqclient.wire.message import encode_message, scan_headers
from tests.support.broker import Session, World
from tests.unit.server.test_hostile import HostileCase


class PartialFrameTests(HostileCase):
    """Great frames of several peers, of which only so much is held in memory."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(partial_frames, "HELD_MAX", 300_000)
        self.world = World()
        self.reader = self.world.peer().open()
        self.reader.create_queue("q")
        self.account = self.world.server.partial_frames

    def frame(self, session: Session, size: int = 200_000) -> bytes:
        buffer = encode_message(session.message(bytes([session.channel]) * size))
        return frame(wire.SessionSend.TYPE, session.channel, wire.encode_packet(wire.SessionSend(buffer, False, 0), 136))

    def test_what_is_too_much_goes_on_in_files_and_is_complete_in_the_end(self) -> None:
        sessions = [self.world.peer().open() for _ in range(4)]
        frames = [self.frame(session) for session in sessions]
        for step in range(0, len(frames[0]), 65536):
            for session, data in zip(sessions, frames, strict=True):
                if step + 65536 < len(data):
                    session.peer.feed(data[step : step + 65536])
                else:
                    self.assertLessEqual(self.account.held, 300_000)
                    session.peer.feed(data[step:] + frame(wire.SessionSend.TYPE, session.channel, data[13:]))
        self.assertGreater(len(self.world.store.bodies), 0)
        self.assertEqual((self.account.held, self.account.on_disk), (0, 0))
        self.reader.consume()
        self.assertEqual([len(body) for body in self.reader.bodies()], [200_000] * 8)
        self.assertEqual({body.holders for body in self.world.store.bodies.values()}, {0})

    def test_those_that_are_lost_leave_nothing(self) -> None:
        sessions = [self.world.peer().open() for _ in range(4)]
        for session in sessions:
            session.peer.feed(self.frame(session)[:150_000])
        self.assertGreater(self.account.held, 0)
        self.assertGreater(self.account.on_disk, 0)
        for session in sessions:
            session.peer.lose()
        self.assertEqual((self.account.held, self.account.on_disk), (0, 0))
        self.assertEqual({body.holders for body in self.world.store.bodies.values()}, {0})

    def test_one_that_waits_for_its_client_holds_no_half_frame(self) -> None:
        session = self.world.peer().open(window_size=1000)
        session.peer.feed(self.frame(session)[:150_000])
        session.peer.lose()
        self.assertEqual(self.account.held, 0)
        self.assertIn(session.name, self.world.server.sessions.by_name)

    def test_files_have_a_limit_too(self) -> None:
        self.patch(partial_frames, "ON_DISK_MAX", 400_000)
        sessions = [self.world.peer().open() for _ in range(4)]
        for session in sessions:
            session.peer.feed(self.frame(session)[:190_000])
        self.assertEqual([session.peer.transport.aborted for session in sessions], [False, False, False, True])
        self.assertIn("incomplete frames of all peers", self.lines[-1])

    def test_a_great_frame_that_is_no_message_is_refused_when_it_begins(self) -> None:
        for packet_type, channel in ((wire.Ping.TYPE, PING_CHANNEL), (wire.SessionSend.TYPE, 55), (wire.QueueQuery.TYPE, 10)):
            session = self.world.peer().open()
            session.peer.feed(HEADER.pack(50_000_000, packet_type, channel) + bytes(70_000))
            self.assertTrue(session.peer.transport.aborted)
            self.assertIn("without a message", self.lines[-1])
            self.lines.append("")
            self.world.server.reasons.stop()

    def test_too_many_properties_are_refused_when_they_begin(self) -> None:
        buffer = encode_message(self.reader.message(b"body"))
        at = 4 + len(b"body")
        for packet, start in ((wire.SessionSend(buffer, False, 0), 0), (wire.SessionSendLarge(buffer[at:]), at)):
            session = self.world.peer().open()
            table = scan_headers(buffer, at).properties - start
            body = wire.encode_packet(packet, 136)[:table] + struct.pack(">?i", True, 2_000_000) + bytes(70_000)
            session.peer.feed(HEADER.pack(20_000_000, packet.TYPE, session.channel) + body)
            self.assertTrue(session.peer.transport.aborted)
            self.assertIn(f"{packet.NAME}: properties: 2000000 entries", self.lines[-1].replace(".properties", ": properties"))
        self.assertEqual((self.account.held, self.account.on_disk), (0, 0))

    def test_a_great_body_before_the_properties_is_waited_for(self) -> None:
        session = self.world.peer().open()
        data = self.frame(session, 90_000)
        for at in range(0, len(data), 30_000):
            session.peer.feed(data[at : at + 30_000])
        self.reader.consume()
        self.assertEqual([len(body) for body in self.reader.bodies()], [90_000])

    def test_headers_that_are_cut_off_are_named_when_the_frame_is_complete(self) -> None:
        session = self.world.peer().open()
        body = struct.pack(">i", 4 + 9) + bytes(8) + struct.pack(">?i", True, -1) + bytes(80_000)
        session.peer.feed(HEADER.pack(9 + len(body), wire.SessionSend.TYPE, session.channel) + body[:70_000])
        self.assertFalse(session.peer.transport.aborted)
        session.peer.feed(body[70_000:])
        self.assertTrue(session.peer.transport.aborted)
        self.assertIn("SESS_SEND", self.lines[-1])
