"""What a hostile peer asks for is bounded, and costs nobody but itself."""

from __future__ import annotations

import struct
from typing import Any

from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.core import STRAY_CACHES_MAX
from mqbroker.messaging.turns import turn
from mqbroker.server.session import overdrafts
from mqbroker.server.transport import partial_frames
from mqbroker.server.transport.limits import (
    CONTROL_FRAME_SIZE_MAX,
    FILTER_PAUSE_SECONDS,
    REFUSALS_MAX,
    REQUESTS_MAX,
    REQUESTS_SECONDS,
    ConnectionLimits,
)
from mqbroker.server.transport.naming import NAME_LENGTH_MAX
from mqbroker.server.transport.reasons import KINDS_MAX, KINDS_NAMED, KINDS_WRITTEN_MAX, REASONS_MAX, REPEATED_REASON_SECONDS, ReasonLog
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL, HEADER, PING_CHANNEL, PREAMBLE, frame
from mqclient.wire.message import KEY_DUPLICATE_ID, encode_headers, encode_message, scan_headers
from mqclient.wire.properties import BYTES, INT, NULL, PROPERTIES_MAX, STRING, TypedValue
from tests.support.clock import FakeClock
from tests.unit.server.support import Session, World, message_id, of_kind


class HostileCase(SynchronousTestCase):
    """Keeps what is logged."""

    def setUp(self) -> None:
        self.lines: list[str] = []
        globalLogPublisher.addObserver(self._observe)
        self.addCleanup(globalLogPublisher.removeObserver, self._observe)

    def _observe(self, event: dict[str, Any]) -> None:
        if event.get("log_namespace") == "mqbroker.server":
            self.lines.append(str(event["log_format"]).format(**event))

    def dropped(self, session: Session) -> bool:
        session.peer.world.clock.advance(0.001)
        return session.peer.transport.aborted


def limited(configuration: Configuration | None = None, **limits: int) -> World:
    world = World(configuration)
    world.server.connection_limits = ConnectionLimits(**limits)
    return world


class ReasonLogTests(HostileCase):
    def setUp(self) -> None:
        super().setUp()
        self.clock = FakeClock()
        self.reasons = ReasonLog(self.clock)

    def test_the_same_reason_of_one_peer_is_one_line_and_a_count(self) -> None:
        for number in range(1000):
            self.reasons.warn(f"10.0.0.1:{number}", f"AMQ222067: SESS_SEND: cut off at {number}")
        self.assertEqual(self.lines, ["AMQ222067: SESS_SEND: cut off at 0"])
        self.clock.advance(REPEATED_REASON_SECONDS)
        self.assertEqual(len(self.lines), 2)
        self.assertIn("999 more times within 60 s from 10.0.0.1: AMQ222067: SESS_SEND", self.lines[1])
        self.reasons.warn("10.0.0.1:1", "AMQ222067: SESS_SEND: again")
        self.assertEqual(len(self.lines), 3, "a new time begins with a line")

    def test_other_peers_and_other_reasons_have_lines_of_their_own(self) -> None:
        for remote, reason in (
            ("a:1", "AMQ222067: PING: x"),
            ("b:1", "AMQ222067: PING: x"),
            ("a:1", "AMQ222067: COMMIT: x"),
            ("a:1", "words"),
        ):
            self.reasons.warn(remote, reason)
        self.assertEqual(len(self.lines), 4)

    def test_nonsense_of_every_kind_is_some_lines_and_one_with_the_numbers(self) -> None:
        names = [f"PACKET_{chr(65 + number)}" for number in range(26)]
        for number, name in enumerate(names):
            for _ in range(number + 1):
                self.reasons.warn("a:1", f"AMQ222067: {name}: cut off")
        self.assertEqual(self.lines, [f"AMQ222067: {name}: cut off" for name in names[:KINDS_WRITTEN_MAX]])
        self.reasons.warn("a:1", "AMQ229014: another code is not hidden")
        self.reasons.warn("b:1", "AMQ222067: PACKET_Z: another peer is not hidden")
        self.assertEqual(len(self.lines), KINDS_WRITTEN_MAX + 2)
        self.clock.advance(REPEATED_REASON_SECONDS)
        (line,) = self.lines[KINDS_WRITTEN_MAX + 2 :]
        self.assertIn(
            f"{26 * 27 // 2 - KINDS_WRITTEN_MAX} more times within 60 s from a: AMQ222067: PACKET_Z (26), AMQ222067: PACKET_Y (25)", line
        )
        left = 26 - 1 - KINDS_NAMED  # the first kind came once, with a line
        self.assertTrue(line.endswith(f", {left} more kinds ({sum(range(1, left + 1))})"), line)

    def test_the_failed_requests_of_a_peer_are_thinned_by_their_code(self) -> None:
        for name in "ABCDEFGHIJKLMNOP":
            self.reasons.info("a:1", f"PACKET_{name} failed: AMQ229017: Queue {name} does not exist")
        self.reasons.info("a:1", "PACKET_A failed: AMQ229031: another reason")
        self.assertEqual(len(self.lines), KINDS_WRITTEN_MAX + 1)
        self.clock.advance(REPEATED_REASON_SECONDS)
        self.assertIn("8 more times within 60 s from a: PACKET_I failed: AMQ229017 (1)", self.lines[-1])

    def test_what_peers_say_makes_no_line_of_its_own(self) -> None:
        for _ in range(2):
            self.reasons.warn("a:1", "AMQ229017: Queue x\r\n\x1b[2J\u2028\ud800é does not exist")
        self.clock.advance(REPEATED_REASON_SECONDS)
        shown = "AMQ229017: Queue x\\r\\n\\x1b[2J\\u2028\\ud800é does not exist"
        self.assertEqual(self.lines, [shown, f"1 more times within 60 s from a: {shown}"])

    def test_countless_kinds_share_a_count(self) -> None:
        for number in range(2 * KINDS_MAX):
            self.reasons.warn("a:1", f"AMQ222067: {'A' * (4 + number)}: x")
        for _ in range(KINDS_MAX):
            self.reasons.warn("a:1", f"AMQ222067: {'B' * 500}: x")
        self.clock.advance(REPEATED_REASON_SECONDS)
        self.assertIn(f"other reasons ({2 * KINDS_MAX})", self.lines[-1])

    def test_countless_peers_share_a_count(self) -> None:
        for number in range(REASONS_MAX + 500):
            self.reasons.warn(f"10.{number}:1", "words")
        self.assertEqual(len(self.lines), REASONS_MAX + 1)
        self.clock.advance(REPEATED_REASON_SECONDS)
        self.assertIn("499 more times within 60 s from other peers", self.lines[-1])

    def test_a_traceback_is_written_once(self) -> None:
        written: list[int] = []
        for number in range(5):
            self.reasons.failure("a:1", "unexpected failure: ValueError", lambda number=number: written.append(number))
        self.assertEqual(written, [0])

    def test_the_counts_are_told_at_the_end(self) -> None:
        for _ in range(3):
            self.reasons.info("a:1", "words")
        self.reasons.stop()
        self.assertIn("2 more times", self.lines[-1])
        self.clock.advance(1000)
        self.assertEqual(len(self.lines), 2)

    def test_many_refused_messages_of_a_session_are_one_line(self) -> None:
        world = World(Configuration(security_enabled=False, address_settings={"no": {"auto_create_addresses": False}}))
        session = world.peer().open()
        for _ in range(50):
            session.publish(address="no")
        self.assertEqual(len([line for line in self.lines if "was not accepted" in line]), 1)


class LimitTests(HostileCase):
    def test_sessions_of_a_connection(self) -> None:
        peer = limited(sessions=3).peer()
        for _ in range(3):
            peer.open()
        refused = peer.session()
        (answer,) = of_kind(peer.take(1), wire.ExceptionResponse)
        self.assertIn("3 sessions", answer.message or "")
        self.assertFalse(self.dropped(refused))
        peer.connection.sessions[10].close()
        peer.world.clock.advance(0.001)
        peer.take(1)
        peer.open()

    def test_a_peer_that_asks_on_is_given_up_and_nobody_else(self) -> None:
        world = limited(sessions=1)
        bystander = world.peer().open()
        peer = world.peer()
        session = peer.open()
        for _ in range(REFUSALS_MAX):
            peer.session()
        self.assertTrue(self.dropped(session))
        self.assertIn("1 sessions", self.lines[-1])
        self.assertFalse(bystander.peer.transport.closed)
        self.assertEqual(len(world.server.sessions.by_name), 1)

    def test_consumers_of_a_connection_over_all_its_sessions(self) -> None:
        peer = limited(consumers=3).peer()
        first, second = peer.open(), peer.open()
        first.create_queue("q")
        for number in range(2):
            first.call(wire.CreateConsumer(number, "q", None, requires_response=True))
        second.call(wire.CreateConsumer(0, "q", None, requires_response=True))
        self.assertEqual(second.error(wire.CreateConsumer(1, "q", None, requires_response=True)), 214)
        first.ok(wire.ConsumerClose(0))
        second.call(wire.CreateConsumer(1, "q", None, requires_response=True))

    def test_long_filters_of_a_connection(self) -> None:
        """Short ones do not count; what a consumer that is closed has used is free again."""
        world = limited(filters_length=5000)
        peer = world.peer()
        first, second = peer.open(), peer.open()
        first.create_queue("q")
        text = "a = 1 OR " * 270 + "a = 2"

        def consume(session: Session, number: int, filter: str = text) -> list[wire.Packet]:
            session.send(wire.CreateConsumer(number, "q", filter, requires_response=True))
            world.clock.advance(1)
            return session.take()

        for session in (first, second):
            self.assertEqual(of_kind(consume(session, 0), wire.ExceptionResponse), [])
        (answer,) = of_kind(consume(second, 1), wire.ExceptionResponse)
        self.assertIn("5000 characters", answer.message or "")
        self.assertEqual(of_kind(consume(second, 2, "a = 1"), wire.ExceptionResponse), [])
        temporary = wire.CreateQueueV2("t", "t", filter_string=text, durable=False, temporary=True, routing_type=1)
        first.send(temporary)
        world.clock.advance(1)
        self.assertEqual(len(of_kind(first.take(), wire.ExceptionResponse)), 1)
        first.ok(wire.ConsumerClose(0))
        self.assertEqual(of_kind(consume(second, 1), wire.ExceptionResponse), [])

    def test_temporary_queues_of_a_connection(self) -> None:
        world = limited(temporary_queues=2)
        session = world.peer().open()
        for number in range(2):
            session.create_queue(f"t{number}", durable=False, temporary=True)
        session.error(wire.CreateQueueV2("t2", "t2", durable=False, temporary=True, routing_type=1))
        self.assertNotIn("t2", world.messaging.core.queues)
        session.create_queue("kept")
        session.ok(wire.DeleteQueue("t0"))
        session.create_queue("t2", durable=False, temporary=True)

    def test_producers_and_requests_for_credits(self) -> None:
        settings = {"q": {"max_size_bytes": 1, "address_full_policy": "BLOCK"}}
        world = limited(Configuration(security_enabled=False, address_settings=settings), producers=2, credit_requests=2)
        session, asker = world.peer().open(), world.peer().open()
        for number in range(3):
            session.send(wire.CreateProducer(number, "q"))
        self.assertTrue(self.dropped(session))
        asker.create_queue("q")
        asker.publish()
        for _ in range(2):
            asker.send(wire.ProducerRequestCredits(1, "q"))
        self.assertFalse(self.dropped(asker))
        asker.send(wire.ProducerRequestCredits(1, "q"))
        self.assertTrue(self.dropped(asker))
        self.assertIn("waiting already", self.lines[-1])

    def test_headers_of_large_messages_that_have_begun(self) -> None:
        world = limited(upload_headers=1000)
        peer = world.peer()
        first, second = peer.open(), peer.open()
        first.create_queue("q")
        first.begin_large(properties={"p": (STRING, "x" * 300)})
        second.begin_large(properties={"p": (STRING, "x" * 300)})
        second.chunk(b"x", 1, reply=True)
        self.assertEqual(len(of_kind(second.take(), wire.ExceptionResponse)), 1)
        first.chunk(b"x", 1, reply=True)
        self.assertEqual(len(of_kind(first.take(), wire.NullResponse)), 1)
        second.begin_large(properties={"p": (STRING, "x" * 300)})
        second.chunk(b"x", 1, reply=True)
        self.assertEqual(len(of_kind(second.take(), wire.NullResponse)), 1)

    def test_a_large_message_without_end(self) -> None:
        world = limited(upload_bodies=10_000)
        peer = world.peer()
        first, second, other = peer.open(), peer.open(), world.session()
        first.create_queue("q")
        for session in (first, second, other):
            session.begin_large()
            session.chunk(bytes(4000))
        second.chunk(bytes(4000))
        self.assertEqual([body.holders for body in world.store.bodies.values()], [1, 0, 1])
        for _ in range(5):
            second.chunk(bytes(4000))
        second.chunk(b"", 32_000, reply=True)
        (answer,) = second.take()
        self.assertIsInstance(answer, wire.ExceptionResponse)
        for session in (first, other):
            session.chunk(bytes(4000), 8000, reply=True)
            self.assertIsInstance(session.take()[-1], wire.NullResponse)
        second.begin_large()
        second.chunk(bytes(9000), 9000, reply=True)
        self.assertIsInstance(second.take()[-1], wire.NullResponse)
        self.assertEqual(world.queue("q").message_count, 3)

    def test_metadata_of_all_sessions(self) -> None:
        peer = limited(metadata_length=100).peer()
        first, second = peer.open(), peer.open()
        first.ok(wire.AddMetadataV2("k", "x" * 60, requires_confirmation=True))
        second.error(wire.AddMetadataV2("k", "x" * 60, requires_confirmation=True))
        second.ok(wire.AddMetadataV2("k", "x" * 30, requires_confirmation=True))

    def test_names(self) -> None:
        world = World()
        session = world.peer().open()
        name = "x" * (NAME_LENGTH_MAX + 1)
        for packet in (
            wire.QueueQuery(name),
            wire.BindingQuery(name),
            wire.CreateAddress(name, (1,), True, False),
            wire.CreateQueueV2(name, "q", durable=True, routing_type=1),
            wire.CreateConsumer(0, name, None, requires_response=True),
        ):
            session.error(packet)
        session.publish(address=name, reply=True)
        self.assertEqual(len(of_kind(session.take(), wire.ExceptionResponse)), 1)
        other = world.peer()
        other.session(name=name)
        self.assertEqual(len(of_kind(other.take(1), wire.ExceptionResponse)), 1)
        session.create_queue("x" * NAME_LENGTH_MAX)

    def test_a_great_frame_without_a_message(self) -> None:
        session = World().peer().open()
        session.send(wire.AddMetadataV2("k", "x" * CONTROL_FRAME_SIZE_MAX, requires_confirmation=True))
        self.assertTrue(self.dropped(session))
        self.assertIn("without a message", self.lines[-1])

    def test_properties_of_a_message(self) -> None:
        world = World()
        good, bad, large = (world.peer().open() for _ in range(3))
        good.create_queue("q")
        good.publish(properties={f"p{number}": (INT, 1) for number in range(PROPERTIES_MAX - 1)}, reply=True)
        self.assertEqual(len(of_kind(good.take(), wire.NullResponse)), 1)
        many: dict[str, TypedValue] = {f"p{number}": (NULL, None) for number in range(PROPERTIES_MAX + 1)}
        bad.publish(properties=many)
        self.assertTrue(self.dropped(bad))
        self.assertIn("entries, at most", self.lines[-1])
        large.begin_large(properties=many)
        self.assertTrue(self.dropped(large))

    def test_the_chunks_of_a_large_delivery_are_bounded_whatever_the_client_asks_for(self) -> None:
        session = World().peer().open(min_large_message_size=2**31 - 1)
        self.assertLessEqual(session.server_session.min_large_message_size, 1024 * 1024)


class DuplicateIdTests(HostileCase):
    def test_ids_for_names_that_are_no_address_are_not_kept_for_ever(self) -> None:
        world = World()
        session = world.peer().open()
        for number in range(STRAY_CACHES_MAX + 50):
            session.publish(address=f"none{number}", routing_type=None, properties={KEY_DUPLICATE_ID: (STRING, "id")})
        kept = [number for number in range(STRAY_CACHES_MAX + 50) if world.messaging.core.known_duplicate_ids(f"none{number}")]
        self.assertEqual(kept, list(range(50, STRAY_CACHES_MAX + 50)))

    def test_a_name_that_has_become_an_address_keeps_its_ids(self) -> None:
        world = World()
        session = world.peer().open()
        session.publish(address="later", routing_type=None, properties={KEY_DUPLICATE_ID: (STRING, "id")})
        session.create_queue("later")
        for number in range(STRAY_CACHES_MAX + 5):
            session.publish(address=f"none{number}", routing_type=None, properties={KEY_DUPLICATE_ID: (STRING, "id")})
        session.publish(address="later", properties={KEY_DUPLICATE_ID: (STRING, "id")})
        self.assertEqual(world.queue("later").message_count, 0)

    def test_a_long_id_is_known_again_and_costs_little(self) -> None:
        world = World()
        session = world.peer().open()
        session.create_queue("q")
        for last in (b"1", b"1", b"2"):
            session.publish(properties={KEY_DUPLICATE_ID: (BYTES, b"x" * 100_000 + last)})
        self.assertEqual(world.queue("q").message_count, 2)
        cache = world.messaging.core.known_duplicate_ids("q")
        assert cache is not None
        self.assertNotIn(b"x" * 100_000 + b"1", cache)


class StreamTests(HostileCase):
    def test_reserved_channels(self) -> None:
        world = World()
        for channel in (-1, 2, 4, 9):
            session = world.peer().open()
            session.peer.send(wire.SessionStart(), channel)
            self.assertTrue(self.dropped(session), channel)
        session = world.peer().open()
        session.peer.send(wire.Ping(1), CLUSTER_CHANNEL)
        self.assertFalse(self.dropped(session))

    def test_a_frame_by_single_bytes_is_no_sign_of_life(self) -> None:
        world = World()
        peer = world.peer()
        peer.feed(HEADER.pack(60_000, wire.Ping.TYPE, PING_CHANNEL)[:4])
        for _ in range(65):
            peer.feed(b"\x00")
            world.clock.advance(1)
        self.assertTrue(peer.transport.aborted)
        self.assertIn("A frame is not complete", self.lines[-1])

    def test_a_great_frame_on_a_slow_line_is_one(self) -> None:
        world = World()
        session = world.peer().open()
        buffer = wire.encode_packet(wire.SessionSend(b"", False, 0), 136)
        session.peer.feed(HEADER.pack(10_000_000, wire.SessionSend.TYPE, 10) + buffer)
        for _ in range(100):
            session.peer.feed(bytes(5000))
            world.clock.advance(2)
        self.assertFalse(session.peer.transport.aborted)

    def test_half_a_frame_ends_a_peer_that_may_be_silent_for_ever(self) -> None:
        world = World()
        session = world.peer().open()
        session.peer.ping(-1)
        world.clock.advance(500)
        session.peer.feed(HEADER.pack(1000, wire.Ping.TYPE, PING_CHANNEL))
        world.clock.advance(50)
        self.assertFalse(session.peer.transport.aborted)
        world.clock.advance(20)
        self.assertTrue(session.peer.transport.aborted)

    def test_before_a_session_nobody_may_be_silent_for_ever(self) -> None:
        world = World()
        for ttl_ms in (-1, 2**62):
            peer = world.peer()
            peer.ping(ttl_ms)
            world.clock.advance(70)
            self.assertTrue(peer.transport.aborted)

    def test_a_peer_that_does_not_read_is_given_up_with_that_reason(self) -> None:
        world = World()
        session = world.peer().open()
        session.peer.ping(-1)
        session.peer.connection.pause_output()
        world.clock.advance(70)
        self.assertTrue(session.peer.transport.aborted)
        self.assertIn("does not read", self.lines[-1])

    def test_requests_behind_a_full_output_wait(self) -> None:
        """One chunk of small requests may ask for any amount of answers."""
        world = World()
        session = world.peer().open()
        connection, transport = session.peer.connection, session.peer.transport
        for number in range(200):
            session.create_queue(f"queue.with.a.long.name.{number}", "t", routing_type=0)
        session.take()
        write = transport.writeSequence

        def write_and_fill(data: list[bytes]) -> None:
            write(data)
            connection.pause_output()

        transport.writeSequence = write_and_fill  # type: ignore[method-assign]
        query = frame(wire.BindingQuery.TYPE, session.channel, wire.encode_packet(wire.BindingQuery("t"), 136))
        session.peer.feed(query * 500)
        written = len(transport.written)
        self.assertLess(written, 600_000)
        answers = len(session.take())
        for _ in range(1000):
            if answers >= 500:
                break
            connection.resume_output()
            world.clock.advance(0)
            answers += len(session.take())
        self.assertEqual(answers, 500)
        self.assertTrue(connection.writable or not transport.reading)

    def test_half_a_large_message_and_silence_leaves_nothing(self) -> None:
        world = World()
        session = world.peer().open()
        session.create_queue("q")
        session.begin_large()
        session.chunk(b"x" * 1000)
        world.clock.advance(130)
        self.assertTrue(session.peer.transport.aborted)
        self.assertEqual([body.holders for body in world.store.bodies.values()], [0])

    def test_a_preamble_by_single_bytes_has_no_more_time(self) -> None:
        world = World()
        peer = world.peer(handshake=False, handshake_timeout_seconds=10)
        for at in range(6):
            peer.feed(PREAMBLE[at : at + 1])
            world.clock.advance(2)
        self.assertTrue(peer.transport.aborted)


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


class SlowClock(FakeClock):
    """Time passes whenever somebody looks."""

    passes = 0.0

    def monotonic(self) -> float:
        self.seconds += self.passes
        return super().monotonic()


class RequestTests(HostileCase):
    def test_many_requests_at_once_give_others_their_turn(self) -> None:
        world = World()
        session = world.peer().open()
        query = wire.QueueQuery("q")
        data = frame(query.TYPE, session.channel, wire.encode_packet(query, 136))
        count = 3 * REQUESTS_MAX + 7
        session.peer.feed(data * count)
        self.assertEqual(len(session.peer.take(session.channel)), REQUESTS_MAX)
        answers: list[int] = []
        world.clock.call_later(0, lambda: answers.append(len(session.peer.take(session.channel))))
        world.clock.advance(0)
        self.assertEqual(answers, [REQUESTS_MAX])
        self.assertEqual(len(session.peer.take(session.channel)), count - 2 * REQUESTS_MAX)

    def test_requests_that_take_long_give_others_their_turn_sooner(self) -> None:
        clock = SlowClock()
        session = World(clock=clock).peer().open()
        clock.passes = REQUESTS_SECONDS / 4
        query = wire.QueueQuery("q")
        session.peer.feed(frame(query.TYPE, session.channel, wire.encode_packet(query, 136)) * REQUESTS_MAX)
        answered = len(session.peer.take(session.channel))
        self.assertTrue(1 < answered < 8, answered)
        clock.advance(1)
        self.assertEqual(answered + len(session.peer.take(session.channel)), REQUESTS_MAX)

    def test_long_filters_one_after_the_other_leave_time_for_others(self) -> None:
        text = " OR ".join(["a = 1"] * 1000)
        pause = len(text) * FILTER_PAUSE_SECONDS
        for name, wrong in (("right", ""), ("wrong", " OR")):
            world = World()
            session, other = world.peer().open(), world.peer().open()
            session.create_queue(name)
            requests = [wire.CreateConsumer(number, name, text + wrong, requires_response=True) for number in range(2)]
            session.peer.feed(b"".join(frame(each.TYPE, session.channel, wire.encode_packet(each, 136)) for each in requests))
            self.assertEqual(len(session.peer.take(session.channel)), 1)
            other.create_queue("others")
            world.clock.advance(pause * 0.9)
            self.assertEqual(session.peer.take(session.channel), [])
            world.clock.advance(pause * 0.2)
            self.assertEqual(len(session.peer.take(session.channel)), 1)

    def test_sessions_too(self) -> None:
        world = World()
        peer = world.peer()
        requests = [
            wire.CreateSession(f"s{number}", 10 + number, 136, None, None, auto_commit_sends=True, auto_commit_acks=True)
            for number in range(2 * REQUESTS_MAX)
        ]
        peer.feed(b"".join(frame(packet.TYPE, 1, wire.encode_packet(packet, 136)) for packet in requests))
        self.assertEqual(len(peer.connection.sessions), REQUESTS_MAX)
        world.clock.advance(0)
        self.assertEqual(len(peer.connection.sessions), 2 * REQUESTS_MAX)


SCANNED = 50


class OverdraftTests(HostileCase):
    """Senders that ignore that they have no credits."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(overdrafts, "SLICE", 5000)
        self.patch(overdrafts, "OVERDRAFT_MAX", 100_000)
        settings = {"q": {"max_size_bytes": 20_000, "address_full_policy": "BLOCK"}}
        self.world = World(Configuration(security_enabled=False, address_settings=settings))
        self.session = self.world.peer().open()
        self.session.create_queue("q")
        self.queue = self.world.queue("q")

    @property
    def reading(self) -> bool:
        return self.session.peer.transport.reading

    def send(self, count: int = 1) -> None:
        for _ in range(count):
            self.session.publish(bytes(1000), durable=False)

    def test_the_connection_is_not_read_from_until_there_is_room(self) -> None:
        self.send(15)
        self.assertTrue(self.reading)
        self.send(50)
        self.assertFalse(self.reading)
        count = self.queue.message_count
        self.assertLess(self.queue.address.memory.size, 32_000)
        self.assertTrue(any("AMQ222183" in line for line in self.lines))
        consumer = self.world.peer().open()
        consumer.consume()
        for _ in range(5):
            for packet in consumer.received():
                consumer.send(wire.IndividualAcknowledge(0, message_id(packet), False))
            self.world.clock.advance(0.01)
        self.assertEqual(self.queue.messages_acknowledged, 65, "nothing is lost")
        self.assertGreater(65, count)
        self.assertTrue(self.reading)

    def test_who_has_credits_may_use_them(self) -> None:
        self.session.send(wire.ProducerRequestCredits(20_000, "q"))
        self.send(30)
        self.assertTrue(self.reading)
        self.send(30)
        self.assertFalse(self.reading)

    def test_credits_without_measure_are_not_honoured(self) -> None:
        self.patch(overdrafts, "CREDITS_HONOURED_MAX", 10_000)
        self.session.send(wire.ProducerRequestCredits(0x7FFFFFFF, "q"))
        self.send(40)
        self.assertFalse(self.reading)

    def test_it_lives_meanwhile_and_is_told_so(self) -> None:
        self.session.peer.ping(5000)
        self.send(40)
        self.session.peer.read()
        peers = [self.session.peer.connection]
        for _ in range(20):
            self.world.clock.advance(0.999)
            self.session.peer.ping(5000)
        self.assertFalse(peers[0].closed)
        self.assertIn((PING_CHANNEL, wire.Ping(5000)), self.session.peer.read())

    def test_an_acknowledgement_behind_it_is_heard(self) -> None:
        self.session.consume(credits=10_000_000)
        received = self.session.received()
        self.send(60)
        received = self.session.received()
        for packet in received:
            self.session.send(wire.IndividualAcknowledge(0, message_id(packet), False))
        self.assertFalse(self.reading)
        for _ in range(30):
            self.world.clock.advance(overdrafts.HELD_BACK_SECONDS)
            for packet in self.session.received():
                self.session.send(wire.IndividualAcknowledge(0, message_id(packet), False))
        self.assertEqual((self.queue.messages_acknowledged, self.reading), (60, True))

    def test_a_large_message_while_the_disk_is_full(self) -> None:
        self.session.begin_large()
        self.session.chunk(bytes(50_000))
        self.assertTrue(self.reading)
        self.world.messaging.core.global_memory.disk_full = True
        for _ in range(3):
            self.session.chunk(bytes(4000))
        self.assertFalse(self.reading)
        (body,) = self.world.store.bodies.values()
        self.assertEqual(body.size, 58_000)
        self.world.messaging.core.global_memory.disk_full = False
        self.world.clock.advance(overdrafts.HELD_BACK_SECONDS)
        self.assertEqual((body.size, self.reading), (62_000, True))

    def test_one_that_goes_on_for_ever_is_given_up(self) -> None:
        for _ in range(200):
            self.send(10)
            self.world.clock.advance(overdrafts.HELD_BACK_SECONDS)
        self.assertTrue(self.session.peer.transport.aborted)
        self.assertLess(self.queue.address.memory.size, 140_000)
        self.assertTrue(any("sends without credits" in line for line in self.lines))

    def test_its_end_leaves_no_timer(self) -> None:
        before = self.world.clock.pending
        self.send(60)
        self.session.peer.lose()
        self.world.clock.advance(REPEATED_REASON_SECONDS + 1)
        self.assertLessEqual(self.world.clock.pending, before)
        self.assertEqual(self.queue.address.memory.waiting, 0)


class FilterTests(HostileCase):
    def setUp(self) -> None:
        super().setUp()
        self.patch(turn, "SCANNED_MAX", SCANNED)

    def test_a_search_over_many_messages_gives_others_their_turn(self) -> None:
        world = World()
        session, searcher = world.peer().open(), world.peer().open()
        session.create_queue("q")
        session.create_queue("other")
        total = 10 * SCANNED
        for _ in range(total):
            session.publish(durable=False)
        session.publish(b"found", properties={"wanted": (INT, 1)})
        searcher.consume(filter="wanted = 1")
        self.assertEqual(searcher.bodies(), [])
        session.publish(address="other")
        session.consume("other")
        self.assertEqual(session.bodies(), [b"body"])
        self.assertEqual(searcher.bodies(), [])
        world.clock.advance(0)
        self.assertEqual(searcher.bodies(), [b"found"])

    def test_a_forced_delivery_waits_for_the_search(self) -> None:
        world = World()
        session, searcher, browser = (world.peer().open() for _ in range(3))
        session.create_queue("q")
        for _ in range(10 * SCANNED):
            session.publish(durable=False)
        session.publish(b"found", properties={"wanted": (INT, 1)})
        browser.consume(filter="wanted = 1", browse_only=True)
        browser.send(wire.ForceConsumerDelivery(0, 1))
        searcher.consume(filter="wanted = 1")
        searcher.send(wire.ForceConsumerDelivery(0, 1))
        self.assertEqual((searcher.bodies(), browser.bodies()), ([], []))
        world.clock.advance(0)
        self.assertEqual(searcher.bodies(), [b"found", bytes(4)])
        self.assertEqual(browser.bodies()[-1], bytes(4))

    def test_several_searches_go_on_beside_each_other(self) -> None:
        world = World()
        session = world.peer().open()
        for name in ("a", "b"):
            session.create_queue(name)
            for _ in range(3 * SCANNED):
                session.publish(address=name, durable=False)
            session.publish(name.encode(), address=name, properties={"wanted": (INT, 1)})
        first, second = world.peer().open(), world.peer().open()
        first.consume("a", filter="wanted = 1")
        second.consume("b", filter="wanted = 1")
        world.clock.advance(0)
        self.assertEqual((first.bodies(), second.bodies()), ([b"a"], [b"b"]))

    def test_a_search_on_a_paused_queue_does_not_spin(self) -> None:
        world = World()
        session, searcher = world.peer().open(), world.peer().open()
        session.create_queue("q")
        for _ in range(10 * SCANNED):
            session.publish(durable=False)
        searcher.consume(filter="wanted = 1")
        world.queue("q").paused = True
        searcher.send(wire.ForceConsumerDelivery(0, 1))
        world.clock.advance(0)
        self.assertEqual(searcher.bodies(), [bytes(4)])

    def test_expired_messages_at_the_head_are_not_all_removed_in_one_turn(self) -> None:
        world = World(Configuration(security_enabled=False, message_expiry_scan_period=-1))
        session, reader = world.peer().open(), world.peer().open()
        session.create_queue("q")
        expiration = world.clock.wall_ms() + 5
        for _ in range(SCANNED + 10):
            session.publish(durable=False, expiration=expiration)
        session.publish(b"good")
        world.clock.advance(1)
        reader.consume()
        self.assertEqual(world.queue("q").message_count, 11)
        world.clock.advance(0)
        self.assertEqual(reader.bodies(), [b"good"])

    def test_a_long_filter_lets_others_go_first(self) -> None:
        session = World().peer().open()
        session.create_queue("q")
        text = " OR ".join(f"p{number} = {number}" for number in range(200))
        session.peer.feed(
            b"".join(
                frame(packet.TYPE, session.channel, wire.encode_packet(packet, 136))
                for packet in (wire.CreateConsumer(0, "q", text, requires_response=False), wire.QueueQuery("q"))
            )
        )
        self.assertEqual(session.take(), [])
        self.assertFalse(session.peer.transport.reading)
        session.peer.world.clock.advance(len(text) * FILTER_PAUSE_SECONDS)
        self.assertEqual(len(session.take()), 1)
        self.assertTrue(session.peer.transport.reading)

    def test_encoded_headers_of_a_large_message_without_address(self) -> None:
        session = World().peer().open()
        content = session.message(b"")
        content.address = None
        session.send(wire.SessionSendLarge(encode_headers(content)))
        session.chunk(b"x", 1, reply=True)
        self.assertEqual(len(of_kind(session.take(), wire.ExceptionResponse)), 1)
