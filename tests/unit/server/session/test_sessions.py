"""Sessions: order of replies, confirmation and reattachment, metadata, permissions, queues that come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred, succeed
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration, ResourceLimit
from mqbroker.server import session_state
from mqbroker.server.security.login import GuestLoginModule, Identity, LoginStep
from mqbroker.server.transport.naming import Naming
from mqclient.wire import packets as wire
from mqclient.wire.frames import SESSION_CHANNEL
from mqclient.wire.message import decode_message, encode_message
from tests.unit.server.support import PERMISSIONS, Peer, Session, World, message_id, of_kind


def names(packets: list[wire.Packet]) -> list[str]:
    return [packet.NAME for packet in packets]


class AddressTests(SynchronousTestCase):
    def test_an_address_that_is_made_again_without_routing_types_keeps_those_that_it_has(self) -> None:
        world = World()
        session = world.peer().open()
        session.ok(wire.CreateAddress("a", (0, 1)))
        session.ok(wire.CreateAddress("a", ()))
        self.assertEqual(world.messaging.core.addresses["a"].routing_types, {0, 1})
        session.ok(wire.CreateAddress("a", (1,)))
        self.assertEqual(world.messaging.core.addresses["a"].routing_types, {1})


class SilentRequestTests(SynchronousTestCase):
    """Nobody waits for an answer: a failure is told in the log, unless it is what a client does each time that it comes back."""

    def setUp(self) -> None:
        lines: list[str] = []
        self.lines = lines

        def observe(event: Any) -> None:
            lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.session = World().session()
        self.session.create_queue("q")

    def failures(self) -> list[str]:
        return [line for line in self.lines if " failed: " in line]

    def test_a_queue_that_is_made_again_is_not_told(self) -> None:
        self.session.send(wire.CreateQueueV2("q", "q", requires_response=False))
        self.assertEqual(self.failures(), [])

    def test_a_queue_that_cannot_be_made_is_told(self) -> None:
        self.session.send(wire.CreateQueueV2("q", "other", filter_string="a =", requires_response=False))
        (line,) = self.failures()
        self.assertIn("CREATE_QUEUE_V2 failed: AMQ229020", line)


class OrderTests(SynchronousTestCase):
    """Nothing is answered or delivered before what it depends on is on the disk, and answers keep the order of the requests."""

    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q")
        self.world.store.held = True

    def test_a_durable_send_is_answered_when_it_is_stored(self) -> None:
        self.session.publish(reply=True, number=-9)
        self.assertEqual(self.session.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(self.session.take(), [wire.NullResponse(-9)])

    def test_no_consumer_sees_a_message_before_it_is_stored(self) -> None:
        other = self.world.session()
        other.consume()
        self.session.publish(b"x")
        self.assertEqual(other.bodies(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(other.bodies(), [b"x"])

    def test_a_query_waits_behind_an_earlier_durable_send(self) -> None:
        self.session.publish(reply=True, number=-2)
        self.session.send(wire.QueueQuery("q"))
        self.session.publish(b"soft", durable=False, reply=True, number=-3)
        self.assertEqual(self.session.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(names(self.session.take()), ["NULL_RESPONSE", "SESS_QUEUEQUERY_RESP_V3", "NULL_RESPONSE"])

    def test_another_session_does_not_wait(self) -> None:
        self.session.publish(reply=True)
        other = self.session.peer.open()
        self.assertIsInstance(other.call(wire.QueueQuery("q")), wire.QueueQueryResponseV3)

    def test_messages_of_one_session_keep_their_order_whatever_their_durability(self) -> None:
        other = self.world.session()
        other.consume()
        for number in range(6):
            self.session.publish(b"%d" % number, durable=number % 2 == 0)
        self.assertEqual(other.bodies(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(other.bodies(), [b"%d" % number for number in range(6)])

    def test_a_blocking_acknowledgement_waits_for_the_disk(self) -> None:
        self.world.store.held = False
        self.session.publish()
        self.session.take()
        self.session.consume()
        (message,) = self.session.received()
        self.world.store.held = True
        self.session.send(wire.Acknowledge(0, message_id(message), True))
        self.assertEqual(self.session.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(self.session.take(), [wire.NullResponse(-1)])

    def test_close_is_answered_after_everything_else(self) -> None:
        self.session.publish(reply=True, number=-2)
        self.session.send(wire.SessionClose())
        self.assertEqual(self.session.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(self.session.take(), [wire.NullResponse(-2), wire.NullResponse(-1)])
        self.assertEqual(self.session.peer.connection.sessions, {})

    def test_a_closing_session_takes_no_more_packets(self) -> None:
        self.session.publish()
        self.session.send(wire.SessionClose())
        self.session.send(wire.CreateConsumer(0, "q"))
        self.session.publish(b"late")
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(names(self.session.take()), ["NULL_RESPONSE"])
        self.assertEqual((self.world.queue("q").consumer_count, self.world.queue("q").message_count), (0, 1))

    def test_a_commit_is_answered_with_its_number_when_it_is_stored(self) -> None:
        session = self.world.peer().open(auto_commit_sends=False, auto_commit_acks=False)
        session.publish()
        session.send(wire.Commit(-7))
        self.assertEqual(session.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(session.take(), [wire.NullResponse(-7)])
        session.send(wire.Commit(None))
        self.assertEqual(session.take(), [wire.NullResponse(-1)])

    def test_replies_to_a_lost_client_are_dropped(self) -> None:
        self.session.publish(reply=True)
        self.session.peer.lose()
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual(self.session.take(), [])
        self.assertEqual(self.world.queue("q").message_count, 1)


class CreationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.peer = self.world.peer()

    def refused(self, **request: Any) -> int:
        self.peer.session(**request)
        (answer,) = self.peer.take(SESSION_CHANNEL)
        assert isinstance(answer, wire.ExceptionResponse), answer
        return answer.error_code

    def test_a_channel_below_ten_or_in_use_is_refused(self) -> None:
        self.peer.open(channel=10)
        self.assertEqual(self.refused(channel=9), 112)
        self.assertEqual(self.refused(channel=10, name="other"), 112)

    def test_a_name_in_use_is_refused(self) -> None:
        self.world.peer().open(name="n")
        self.assertEqual(self.refused(name="n"), 112)

    def test_nobody_is_admitted_before_the_start_and_after_the_stop(self) -> None:
        self.world.server.started = False
        self.assertEqual(self.refused(), 112)

    def test_two_logins_at_once_cannot_take_the_same_name(self) -> None:
        waiting: list[Deferred[Any]] = []

        def later(function: Any, *args: Any) -> Deferred[Any]:
            waiting.append(Deferred())
            return waiting[-1]

        world = World(Configuration(), defer_to_thread=later)
        peers = [world.peer(), world.peer()]
        for peer in peers:
            peer.session(name="n", username="admin", password="secret")
        for login in waiting:
            login.callback(Identity("admin", frozenset({"all"})))
        kinds = [type(peer.take(SESSION_CHANNEL)[0]) for peer in peers]
        self.assertEqual(kinds, [wire.CreateSessionResponse, wire.ExceptionResponse])

    def test_sessions_of_one_user_are_limited(self) -> None:
        self.world = World(Configuration(resource_limits={"admin": ResourceLimit(max_connections=1)}))
        self.peer = self.world.peer()
        user = {"username": "admin", "password": "secret"}
        first = self.peer.open(**user)
        self.assertEqual(self.refused(**user), 112)
        first.ok(wire.SessionClose())
        self.peer.open(**user)

    def test_queues_of_one_user_are_limited(self) -> None:
        world = World(Configuration(resource_limits={"admin": ResourceLimit(max_queues=1)}))
        session = world.peer().open(username="admin", password="secret")
        session.create_queue("one")
        self.assertEqual(session.error(wire.CreateQueueV2("two", "two")), 105)
        session.ok(wire.DeleteQueue("one"))
        session.create_queue("two")


class WindowTests(SynchronousTestCase):
    """Confirmation window and reattachment."""

    def setUp(self) -> None:
        self.world = World()
        self.peer = self.world.peer()
        self.session = self.peer.open(window_size=1000, name="w")
        self.session.create_queue("q")
        self.session.take()

    def confirmed(self) -> list[int]:
        return [packet.command_id for packet in of_kind(self.session.take(), wire.PacketsConfirmed)]

    def test_a_full_window_is_confirmed_before_the_answer(self) -> None:
        self.session.publish(bytes(2000), reply=True)
        self.assertEqual(names(self.session.take()), ["PACKETS_CONFIRMED", "NULL_RESPONSE"])

    def test_a_partial_window_is_confirmed_at_a_tick_and_at_the_end(self) -> None:
        self.assertEqual(self.confirmed(), [])
        self.world.clock.advance(2.1)
        self.assertEqual(self.confirmed(), [0])
        self.world.clock.advance(10)
        self.assertEqual(self.confirmed(), [], "nothing new")
        self.session.publish(durable=False)
        self.session.send(wire.SessionClose())
        self.assertEqual(self.session.take(), [wire.PacketsConfirmed(2), wire.NullResponse(-1)])

    def test_what_was_refused_is_confirmed_with_a_later_frame(self) -> None:
        session = self.world.peer().open(window_size=1)
        session.send(wire.DeleteQueue("missing"))
        session.send(wire.DeleteQueue("missing"))
        session.publish(reply=True)
        kinds = [(packet.NAME, getattr(packet, "command_id", None)) for packet in session.take()]
        refused, confirmed, answered = "EXCEPTION", "PACKETS_CONFIRMED", "NULL_RESPONSE"
        self.assertEqual(kinds, [(refused, None), (confirmed, 0), (refused, None), (confirmed, 2), (answered, None)])

    def test_a_window_of_nothing_confirms_each_packet(self) -> None:
        session = self.world.peer().open(window_size=0)
        for number in range(3):
            session.send(wire.SessionStart())
            self.assertEqual(session.take(), [wire.PacketsConfirmed(number)])

    def test_a_failed_request_is_counted_too(self) -> None:
        session = self.world.peer().open(window_size=0)
        session.send(wire.QueueQuery("q"))
        session.send(wire.DeleteQueue("missing"))
        session.send(wire.QueueQuery("q"))
        self.assertEqual([packet.command_id for packet in of_kind(session.take(), wire.PacketsConfirmed)], [0, 2])

    def test_metadata_is_counted_only_when_it_is_answered(self) -> None:
        session = self.world.peer().open(window_size=0)
        session.send(wire.AddMetadataV2("a", "b", False))
        session.send(wire.AddMetadataV2("a", "b", True))
        self.assertEqual([packet.command_id for packet in of_kind(session.take(), wire.PacketsConfirmed)], [0])

    def reattach(self, last: int, name: str = "w") -> tuple[Peer, list[tuple[int, wire.Packet]]]:
        peer = self.world.peer()
        peer.version = 136
        peer.send(wire.ReattachSession(name, last), SESSION_CHANNEL)
        return peer, peer.read()

    def test_unseen_packets_are_sent_again_before_the_answer(self) -> None:
        self.session.consume()
        self.session.publish(b"one", durable=False)
        self.session.publish(b"two", durable=False)
        sent = self.session.take()
        self.assertEqual(names(sent), ["SESS_RECEIVE_MSG", "SESS_RECEIVE_MSG"])
        self.peer.lose()
        # The client has seen the answer to CREATE_QUEUE and the first message.
        peer, packets = self.reattach(1)
        self.assertEqual([packet.NAME for _, packet in packets], ["SESS_RECEIVE_MSG", "REATTACH_SESSION_RESP"])
        self.assertEqual(packets[0][1], sent[1])
        self.assertEqual(packets[1][1], wire.ReattachSessionResponse(5, True))
        moved = Session(peer, self.session.channel, "w")
        moved.ok(wire.SessionStop())

    def test_a_reattached_session_goes_on(self) -> None:
        self.session.consume(credits=10_000)
        self.peer.lose()
        other = self.world.session()
        other.publish(b"meanwhile")
        peer, packets = self.reattach(0)
        moved = Session(peer, self.session.channel, "w")
        self.assertEqual(
            [decode_message(packet.message).body for packet in of_kind([p for _, p in packets], wire.SessionReceive)], [b"meanwhile"]
        )
        moved.publish(b"after")
        self.assertEqual(moved.bodies(), [b"after"])
        self.assertEqual(len(self.world.server.connections), 2)

    def test_a_session_that_came_back_leaves_no_old_connection(self) -> None:
        """Also when the broker has not noticed yet that the old socket is dead."""
        self.reattach(0)
        self.assertTrue(self.peer.transport.aborted)
        self.assertEqual(len(self.world.server.connections), 1)
        self.peer.feed(b"\x00\x00\x00\x09")
        self.assertEqual(len(self.world.server.sessions.by_name), 1)

    def test_temporary_queues_move_along(self) -> None:
        self.session.ok(wire.CreateQueueV2("t", "t", durable=False, temporary=True))
        self.peer.lose()
        peer, _ = self.reattach(1)
        self.assertIn("t", self.world.messaging.core.queues)
        peer.lose()
        self.world.clock.advance(70)
        self.assertNotIn("t", self.world.messaging.core.queues)

    def test_unknown_sessions_and_those_without_window_are_not_reattached(self) -> None:
        self.world.peer().open(name="plain")
        for name in ("plain", "unknown"):
            _, packets = self.reattach(0, name)
            self.assertEqual(packets, [(SESSION_CHANNEL, wire.ReattachSessionResponse(-1, False))])

    def test_without_window_a_lost_socket_ends_the_session_at_once(self) -> None:
        session = self.world.peer().open()
        session.create_queue("q2")
        session.publish(b"x", "q2")
        session.consume("q2")
        session.take()
        session.peer.lose()
        self.assertEqual(self.world.queue("q2").consumer_count, 0)
        self.assertEqual(self.world.queue("q2").references.count, 1)

    def test_after_the_ttl_the_session_is_gone(self) -> None:
        self.session.publish(b"x")
        self.session.consume()
        self.peer.lose()
        self.world.clock.advance(65)
        self.assertEqual(self.world.server.sessions.by_name, {})
        self.assertEqual(self.world.queue("q").references.count, 1)
        _, packets = self.reattach(0)
        self.assertEqual(packets, [(SESSION_CHANNEL, wire.ReattachSessionResponse(-1, False))])

    def test_confirmed_packets_are_let_go(self) -> None:
        self.session.consume()
        for _ in range(5):
            self.session.publish(durable=False)
        window = self.session.server_session.window
        self.assertEqual(window.cached, 6)
        self.session.send(wire.PacketsConfirmed(3))
        self.assertEqual(window.cached, 2)


class PausedConnectionTests(SynchronousTestCase):
    """Frames that wait on the old connection while its session is reattached: the client sends them again, so they must not be handled."""

    def begin(self, world: World) -> Session:
        """A session that has sent "one", which is not durable yet, and "two", which waits behind a request with a long filter."""
        session = world.peer().open(window_size=1000, name="w", username="admin", password="secret")
        session.create_queue("q")
        world.store.held = True
        session.publish(b"one")
        asked = session.frame(wire.CreateConsumer(0, "q", " or ".join(["a = 1"] * 500), requires_response=False))
        sent = session.frame(wire.SessionSend(encode_message(session.message(b"two")), False, 0))
        session.peer.feed(asked + sent)
        return session

    def ask(self, world: World) -> Peer:
        peer = world.peer()
        peer.version = 136
        peer.send(wire.ReattachSession("w", -1), SESSION_CHANNEL)
        return peer

    def finish(self, world: World, peer: Peer, session: Session) -> None:
        """The disk is done; the client sends again as much as the answer says."""
        world.clock.advance(5)
        world.store.sync()
        (answer,) = of_kind(peer.take(SESSION_CHANNEL), wire.ReattachSessionResponse)
        self.assertEqual(answer, wire.ReattachSessionResponse(2, True), "queue, first message and consumer")
        Session(peer, session.channel, "w").publish(b"two")
        world.store.sync()
        reader = world.peer().open(username="admin", password="secret")
        reader.consume(browse_only=True)
        self.assertEqual(reader.bodies(), [b"one", b"two"])

    def test_a_reattachment_that_is_given_up_does_not_end_the_pause_of_a_later_one(self) -> None:
        world = World()
        session = self.begin(world)
        given_up, later = self.ask(world), self.ask(world)
        given_up.lose()
        self.finish(world, later, session)

    def test_the_end_of_a_login_does_not_end_the_pause_of_a_reattachment(self) -> None:
        waiting: list[Deferred[Identity]] = []

        def decide_later(function: Callable[..., object], *args: object) -> Deferred[Identity]:
            waiting.append(Deferred())
            return waiting[-1] if len(waiting) == 2 else succeed(Identity("admin", frozenset({"all"})))

        world = World(Configuration(), defer_to_thread=decide_later)
        session = world.peer().open(window_size=1000, name="w", username="admin", password="secret")
        session.create_queue("q")
        world.store.held = True
        session.publish(b"one")
        session.send(wire.CreateConsumer(0, "q", None, requires_response=False))
        session.peer.session(username="other", password="secret")
        session.publish(b"two")
        again = self.ask(world)
        waiting[1].callback(Identity("admin", frozenset({"all"})))
        self.finish(world, again, session)


class KeptTests(SynchronousTestCase):
    """What is kept for a client that confirms late is bounded, whatever window it has asked for."""

    def setUp(self) -> None:
        self.patch(session_state, "KEPT_MAX", 200_000)
        self.world = World()
        self.peer = self.world.peer()
        self.session = self.peer.open(window_size=0x7FFFFFFF, name="late")
        self.session.create_queue("q")
        self.small = self.peer.open(window_size=1000, name="small")
        self.plain = self.peer.open(name="plain")
        self.session.consume()

    def send(self, count: int) -> None:
        other = self.world.session()
        for _ in range(count):
            other.publish(bytes(50_000), durable=False)

    @property
    def kept(self) -> int:
        return sum(each.window.cached_bytes for each in self.peer.connection.sessions.values() if each.window is not None)

    def reattach(self, name: str) -> wire.ReattachSessionResponse:
        peer = self.world.peer()
        peer.version = 136
        peer.send(wire.ReattachSession(name, -1), SESSION_CHANNEL)
        (answer,) = of_kind(peer.take(SESSION_CHANNEL), wire.ReattachSessionResponse)
        return answer

    def test_below_the_limit_everything_is_sent_again(self) -> None:
        self.send(3)
        self.assertEqual(len(self.session.received()), 3)
        self.peer.lose()
        self.assertTrue(self.reattach("late").reattached)

    def test_beyond_it_the_session_goes_on_and_cannot_be_reattached(self) -> None:
        self.send(20)
        self.assertEqual(len(self.session.received()), 20)
        self.assertLessEqual(self.kept, 300_000)
        self.assertFalse(self.peer.connection.closed)
        self.session.send(wire.PacketsConfirmed(20))
        self.assertEqual(self.reattach("late"), wire.ReattachSessionResponse(-1, False))
        self.assertEqual((self.world.queue("q").consumer_count, self.world.queue("q").references.count), (0, 20))
        self.assertEqual(sorted(self.world.server.sessions.by_name), ["00000002-10", "plain", "small"])

    def test_with_its_socket_the_session_is_gone_and_others_are_not(self) -> None:
        self.send(20)
        self.peer.lose()
        self.assertEqual(self.world.queue("q").references.count, 20)
        self.assertEqual(sorted(self.world.server.sessions.by_name), ["00000002-10", "small"])
        again = self.world.peer().open(window_size=1000, name="late")
        again.consume()
        self.assertEqual(len(again.received()), 20)
        self.assertTrue(self.reattach("small").reattached)

    def test_alone_it_leaves_no_connection(self) -> None:
        for session in (self.small, self.plain):
            session.ok(wire.SessionClose())
        self.send(20)
        self.peer.lose()
        self.assertNotIn(self.peer.connection, self.world.server.connections)
        self.assertEqual(self.world.queue("q").references.count, 20)

    def test_many_small_sessions_count_together(self) -> None:
        sessions = [self.peer.open(window_size=0x7FFFFFFF) for _ in range(10)]
        for number, session in enumerate(sessions):
            session.create_queue(f"q{number}")
            session.consume(f"q{number}")
            self.world.session().publish(bytes(70_000), f"q{number}", durable=False)
        self.assertLess(self.kept, 350_000)


class MetadataTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()

    def test_unique_metadata_is_unique_in_the_whole_broker(self) -> None:
        first, second = self.world.session(), self.world.session()
        claim = wire.UniqueAddMetadata("jms-client-id", "me", True)
        first.ok(claim)
        first.ok(claim)
        self.assertEqual(second.error(claim), 114)
        second.ok(wire.UniqueAddMetadata("jms-client-id", "you", True))
        first.peer.lose()
        second.ok(claim)

    def test_plain_metadata_needs_no_uniqueness_and_is_answered_on_demand(self) -> None:
        first, second = self.world.session(), self.world.session()
        for session in (first, second):
            session.ok(wire.AddMetadataV2("jms-client-id", "me", True), wire.AddMetadata("k", "v"))
            session.send(wire.AddMetadataV2("x", "y", False))
            self.assertEqual(session.take(), [])
        self.assertEqual(first.peer.connection.client_id, "me")

    def test_a_session_cannot_hoard(self) -> None:
        session = self.world.session()
        for number in range(500):
            session.send(wire.AddMetadataV2(f"k{number}", "v", False))
        self.assertLessEqual(len(session.server_session.metadata), 100)


class PermissionTests(SynchronousTestCase):
    """Each request is refused to a user who lacks its permission, and leaves nothing behind."""

    def setUp(self) -> None:
        self.world = World(Configuration())
        self.admin = self.world.peer().open(username="admin", password="secret")
        self.admin.create_queue("q")
        self.admin.ok(wire.CreateQueueV2("t", "temp", durable=False))
        self.nobody = self.world.peer().open(username="nobody", password="nothing")

    def test_requests(self) -> None:
        for request in (
            wire.CreateAddress("new", (1,), True, False),
            wire.CreateQueueV2("q", "new", durable=True),
            wire.CreateQueueV2("q", "new", durable=False),
            wire.CreateQueueV2("new", "new", durable=False, temporary=True),
            wire.CreateSharedQueueV2("q", "new", None, True),
            wire.CreateSharedQueueV2("q", "new", None, False),
            wire.DeleteQueue("q"),
            wire.DeleteQueue("temp"),
            wire.CreateConsumer(0, "q"),
            wire.CreateConsumer(0, "q", browse_only=True),
        ):
            self.assertEqual(self.nobody.error(request), 105, request)
        self.assertEqual(set(self.world.messaging.core.queues), {"q", "temp"})
        self.assertEqual(self.world.queue("q").consumer_count, 0)

    def test_sends(self) -> None:
        for address in ("q", "q::q", "activemq.management", "new"):
            self.nobody.publish(address=address, reply=True, number=-5)
            (answer,) = self.nobody.take()
            assert isinstance(answer, wire.ExceptionResponse)
            self.assertEqual((answer.error_code, answer.correlation_id), (105, -5))
        self.nobody.publish()
        self.assertEqual(self.nobody.take(), [], "nobody asked for an answer")
        self.assertEqual(self.world.queue("q").message_count, 0)

    def test_a_refused_send_makes_the_transaction_fail(self) -> None:
        self.world.configuration.security_settings["secret.#"] = {}
        world = World(Configuration(security_settings={"#": dict.fromkeys(PERMISSIONS, frozenset({"all"})), "no.#": {}}))
        session = world.peer().open(username="admin", password="secret", auto_commit_sends=False)
        session.create_queue("q")
        session.publish()
        session.publish(address="no.way")
        self.assertEqual(session.error(wire.Commit(-3)), 105)
        self.assertEqual(world.queue("q").message_count, 0)

    def test_a_large_message_is_refused_before_it_fills_the_disk(self) -> None:
        self.nobody.begin_large()
        for _ in range(3):
            self.nobody.chunk(bytes(1000))
        self.assertEqual(self.world.store.bodies, {})
        self.nobody.chunk(b"", 3000, reply=True)
        (answer,) = self.nobody.take()
        self.assertEqual(getattr(answer, "error_code", None), 105)

    def test_wrong_passwords(self) -> None:
        peer = self.world.peer()
        users: list[dict[str, Any]] = [
            {},
            {"username": "admin"},
            {"username": "admin", "password": "x"},
            {"username": "who", "password": "secret"},
        ]
        for user in users:
            peer.session(**user)
            (answer,) = peer.take(SESSION_CHANNEL)
            self.assertEqual(getattr(answer, "error_code", None), 105)
        self.assertFalse(peer.transport.closed)
        peer.open(username="admin", password="secret")


class QueueLifeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()

    def exists(self, name: str) -> bool:
        return name in self.world.messaging.core.queues

    def test_temporary_queues_live_as_long_as_their_connection(self) -> None:
        self.session.ok(wire.CreateQueueV2("t", "t", durable=False, temporary=True))
        other = self.session.peer.open()
        self.session.ok(wire.SessionClose())
        self.assertTrue(self.exists("t"))
        other.consume("t")
        self.session.peer.lose()
        self.assertFalse(self.exists("t"))
        self.assertNotIn("t", self.world.messaging.core.addresses)

    @mock.patch("mqbroker.config.model.matching.CACHED_NAMES_MAX", 20)
    def test_names_of_clients_that_are_gone_are_forgotten(self) -> None:
        core = self.world.messaging.core
        sizes = []
        for number in range(50):
            visitor, name = self.world.session(), f"t{number}"
            visitor.ok(wire.CreateQueueV2(name, name, durable=False, temporary=True, routing_type=number % 2))
            visitor.publish(address=name)
            visitor.peer.lose()
            sizes.append((len(core.routing._positions), len(core.settings._resolved), len(self.world.security.repository._resolved)))
        self.assertEqual({size[0] for size in sizes}, {0})
        self.assertLessEqual(max(max(size) for size in sizes), 20)

    def test_the_consumers_of_a_vanished_temporary_queue_are_told(self) -> None:
        self.session.ok(wire.CreateQueueV2("t", "t", durable=False, temporary=True))
        other = self.world.session()
        other.consume("t", 7)
        self.session.peer.lose()
        self.assertEqual(other.take(), [wire.DisconnectConsumer(7)])

    @mock.patch("mqbroker.server.transport.departing.DELETED_TOGETHER", 2)
    def test_many_temporary_queues_go_a_few_at_a_time(self) -> None:
        names = [f"t{number}" for number in range(7)]
        for name in names:
            self.session.ok(wire.CreateQueueV2(name, name, durable=False, temporary=True))
        last = self.world.queue("t6")
        self.session.peer.lose()
        self.assertEqual([name for name in names if self.exists(name)], names[2:])
        other = self.world.session()
        other.ok(wire.DeleteQueue("t5"))
        other.ok(wire.CreateQueueV2("t6", "t6", durable=False, temporary=True))  # as a client that has come back
        self.assertTrue(last.deleted)
        while self.world.server.departing:
            self.world.clock.advance(0)
        self.assertEqual([name for name in names if self.exists(name)], ["t6"])
        other.peer.lose()
        self.assertFalse(self.exists("t6"))

    @mock.patch("mqbroker.server.transport.departing.DELETED_TOGETHER", 2)
    def test_one_that_cannot_be_deleted_does_not_keep_the_others(self) -> None:
        for number in range(5):
            self.session.ok(wire.CreateQueueV2(f"t{number}", f"t{number}", durable=False, temporary=True))
        self.session.peer.lose()
        delete = self.world.messaging.administration.delete_queue
        with mock.patch.object(self.world.messaging.administration, "delete_queue", side_effect=[OSError("a fault"), delete]):
            self.assertRaisesRegex(OSError, "a fault", self.world.clock.advance, 0)
        for _ in range(5):
            self.world.clock.advance(0)
        self.assertEqual([number for number in range(5) if self.exists(f"t{number}")], [2])

    @mock.patch("mqbroker.server.transport.departing.DELETED_TOGETHER", 1)
    def test_departing_queues_get_nothing_more(self) -> None:
        """It would be lost with them, although another queue of the address could take it."""
        other = self.world.session()
        other.create_queue("stays", "shared")
        for number in range(4):
            self.session.ok(wire.CreateQueueV2("shared", f"t{number}", durable=False, temporary=True, routing_type=1))
        self.session.peer.lose()
        self.assertGreater(len(self.world.server.departing), 0)
        for _ in range(6):
            other.publish(b"x", "shared")
        self.assertEqual(self.world.queue("stays").message_count, 6)
        departing = {name for name in self.world.messaging.core.queues if name.startswith("t")}
        self.assertEqual({queue.name for queue in self.world.server.departing.others()} & departing, set())

    def test_a_shared_queue_lives_as_long_as_it_has_consumers(self) -> None:
        request = wire.CreateSharedQueueV2("news", "shared", None, False, routing_type=0)
        self.session.ok(request)
        second = self.world.session()
        second.ok(request)
        self.session.consume("shared")
        second.consume("shared")
        self.session.ok(wire.ConsumerClose(0))
        self.assertTrue(self.exists("shared"))
        second.peer.lose()
        self.assertFalse(self.exists("shared"))

    def test_a_shared_queue_with_another_filter_or_address_is_refused(self) -> None:
        self.session.ok(wire.CreateSharedQueueV2("news", "shared", "a = 1", True, routing_type=0))
        self.assertEqual(self.session.error(wire.CreateSharedQueueV2("news", "shared", "a = 2", True, routing_type=0)), 118)
        self.assertEqual(self.session.error(wire.CreateSharedQueueV2("olds", "shared", "a = 1", True, routing_type=0)), 118)

    def test_deleting_a_queue_in_use_is_refused(self) -> None:
        self.session.create_queue("q")
        self.session.consume()
        self.assertEqual(self.session.error(wire.DeleteQueue("q")), 104)
        self.assertEqual(self.session.error(wire.DeleteQueue("missing")), 100)
        self.session.ok(wire.ConsumerClose(0), wire.DeleteQueue("q"))

    def test_a_message_without_address_is_refused(self) -> None:
        self.session.publish(address="", reply=True)
        (answer,) = self.session.take()
        self.assertEqual(getattr(answer, "error_code", None), 106)
        self.assertEqual(self.world.messaging.core.addresses, {})

    def test_a_wildcard_query_names_the_queues_of_all_its_addresses(self) -> None:
        for name in ("a.one", "a.two", "b.one"):
            self.session.create_queue(name)
        self.session.create_queue("all", "a.#")
        answer = self.session.call(wire.BindingQuery("a.#"))
        assert isinstance(answer, wire.BindingQueryResponseV5)
        self.assertEqual(set(answer.queue_names), {"a.one", "a.two", "all"})

    def test_the_extension_of_readers_is_recognised_without_side_effects(self) -> None:
        before = set(self.world.messaging.core.addresses)
        answer = self.session.call(wire.BindingQuery(wire.READERS_ADDRESS))
        assert isinstance(answer, wire.BindingQueryResponseV5)
        self.assertEqual((answer.exists, answer.queue_names), (True, ()))
        self.assertEqual(set(self.world.messaging.core.addresses), before)


class PrefixTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.peer(Naming(("queue/",), ("topic/",))).open()

    def test_prefixes_choose_the_routing_type_and_are_taken_off(self) -> None:
        self.session.publish(b"q", "queue/a", routing_type=None)
        self.session.publish(b"t", "topic/b", routing_type=None)
        core = self.world.messaging.core
        self.assertEqual({name: set(address.routing_types) for name, address in core.addresses.items()}, {"a": {1}, "b": {0}})
        self.session.consume("queue/a")
        (message,) = self.session.received()
        self.assertEqual(decode_message(message.message).address, "a")

    def test_queries_and_credits_use_the_same_names(self) -> None:
        self.session.create_queue("a")
        answer = self.session.call(wire.QueueQuery("queue/a"))
        self.assertEqual((answer.exists, answer.name), (True, "a"))  # type: ignore[attr-defined]
        self.session.send(wire.ProducerRequestCredits(10, "queue/a"))
        self.assertEqual(self.session.take(), [wire.ProducerCredits(10, "queue/a")])

    def test_without_prefixes_the_names_are_plain(self) -> None:
        session = self.world.session()
        session.publish(b"x", "queue/a")
        self.assertIn("queue/a", self.world.messaging.core.addresses)


class SettingsLookupTests(SynchronousTestCase):
    def test_addresses_named_by_a_uuid_have_settings_of_their_own(self) -> None:
        settings = {"uuids.#": {"default_max_consumers": 7}}
        world = World(Configuration(security_enabled=False, uuid_namespace="uuids", address_settings=settings))
        session = world.session()
        for name, expected in (("2f1d3c4b-aaaa-bbbb-cccc-0123456789ab", 7), ("2f1d3c4b", -1)):
            answer = session.call(wire.QueueQuery(name))
            self.assertEqual(answer.max_consumers, expected)  # type: ignore[attr-defined]

    def test_acceptors_may_have_users_of_their_own(self) -> None:
        world = World(Configuration(), domains={"guests": [LoginStep("required", GuestLoginModule(roles=frozenset({"all"})))]})
        world.peer(security_domain="guests").open()
        peer = world.peer()
        peer.session()
        (answer,) = peer.take(SESSION_CHANNEL)
        self.assertEqual(getattr(answer, "error_code", None), 105)
