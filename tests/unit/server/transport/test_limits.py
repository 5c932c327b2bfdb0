"""What one connection may hold and ask for."""

from __future__ import annotations

import gc

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.message.message import Message
from mqbroker.server.transport.limits import (
    CONTROL_FRAME_SIZE_MAX,
    FILTER_PAUSE_SECONDS,
    REFUSALS_MAX,
    REQUESTS_MAX,
    REQUESTS_SECONDS,
    ConnectionLimits,
)
from mqbroker.server.transport.naming import NAME_LENGTH_MAX
from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.properties import INT, NULL, PROPERTIES_MAX, STRING, TypedValue
from tests.support.broker import Session, World, of_kind
from tests.support.clock import FakeClock
from tests.unit.server.test_hostile import HostileCase


def limited(configuration: Configuration | None = None, **limits: int) -> World:
    world = World(configuration)
    world.server.connection_limits = ConnectionLimits(**limits)
    return world


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

    def test_nothing_is_kept_of_what_was_refused(self) -> None:
        """Before the last piece of a large message, or the end of a transaction, is told of it."""

        def kept() -> list[object]:
            gc.collect()
            return [each for each in gc.get_objects() if isinstance(each, (wire.SessionSendLarge, Message))]

        before = {id(each): each for each in kept()}
        world = World(Configuration())
        peer = world.peer()
        for number in range(3):
            session = peer.open(username="nobody", password="nothing", auto_commit_sends=False)
            session.begin_large(properties={"p": (STRING, str(number))})
            session.publish(b"refused")
        self.assertEqual([each for each in kept() if id(each) not in before], [])

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
