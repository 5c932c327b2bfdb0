"""Sessions: order of replies, confirmation and reattachment, metadata, permissions, queues that come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration, ResourceLimit
from mqbroker.server.security.login import GuestLoginModule, Identity, LoginStep
from mqclient.wire import packets as wire
from mqclient.wire.frames import SESSION_CHANNEL
from mqclient.wire.message import encode_message
from tests.unit.server.support import Peer, Session, World, of_kind


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
