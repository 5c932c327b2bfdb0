"""What a hostile peer asks for is bounded, and costs nobody but itself."""

from __future__ import annotations

from typing import Any

from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.core import STRAY_CACHES_MAX
from mqbroker.messaging.turns import turn
from mqbroker.server.transport.limits import (
    FILTER_PAUSE_SECONDS,
)
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL, HEADER, PING_CHANNEL, PREAMBLE, frame
from mqclient.wire.message import KEY_DUPLICATE_ID, encode_headers
from mqclient.wire.properties import BYTES, INT, STRING
from tests.support.broker import Session, World, of_kind


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


SCANNED = 50


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
