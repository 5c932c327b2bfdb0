"""Connections that wait for a login or a reattachment."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.server.security.login import Identity
from mqclient.wire import packets as wire
from mqclient.wire.frames import SESSION_CHANNEL
from mqclient.wire.message import encode_message
from tests.support.broker import Peer, Session, World, of_kind


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
