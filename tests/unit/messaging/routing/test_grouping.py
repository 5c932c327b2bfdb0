"""Messages of groups that are not decided yet wait in their connection, in order, and nobody else does."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.turns.undecided import Undecided
from mqclient.wire import packets as wire
from mqclient.wire.properties import STRING
from tests.support.broker import Session, World


class Decisions:
    """A grouping handler that knows what a test tells it."""

    ticket = 0

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.waiting: list[Any] = []

    def select(self, route: Any, message: Any, may_wait: bool) -> Any:
        if may_wait and message.property("_AMQ_GROUP_ID") not in self.known:
            raise Undecided(self.waiting.append)
        return route.select(message)

    def decide(self, group: str) -> None:
        self.known.add(group)
        waiting, self.waiting = self.waiting, []
        for function in waiting:
            function()


def group(name: str) -> dict[str, Any]:
    return {"properties": {"_AMQ_GROUP_ID": (STRING, name)}}


class UndecidedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session: Session = self.world.peer().open(window_size=1)
        self.session.create_queue("q")
        self.session.take()
        self.decisions = self.world.messaging.core.routing.grouping = Decisions()

    def count(self) -> int:
        return self.world.queue("q").message_count

    def test_what_follows_waits_too_and_everything_is_answered_in_order(self) -> None:
        session = self.session
        session.publish(b"1", reply=True, number=-2)
        session.publish(b"2", reply=True, number=-3, **group("a"))
        session.publish(b"3", reply=True, number=-4)
        session.publish(b"4", reply=True, number=-5, **group("b"))
        session.publish(b"5", reply=True, number=-6)
        self.assertEqual(self.count(), 1)
        self.assertFalse(session.peer.transport.reading)
        other = self.world.session()
        other.take()
        other.publish(b"other", reply=True)
        self.assertEqual(self.count(), 2)
        self.decisions.decide("a")
        self.assertEqual(self.count(), 4)
        self.decisions.decide("b")
        self.assertEqual([each.correlation_id for each in session.take() if isinstance(each, wire.NullResponse)], [-2, -3, -4, -5, -6])
        self.assertEqual(self.count(), 6)
        self.assertTrue(session.peer.transport.reading)
        self.assertEqual(session.server_session.sends.messages_sent, 5)

    def test_each_frame_is_confirmed_once(self) -> None:
        session = self.session
        window = session.server_session.window
        before = window.last_confirmed_command_id
        session.publish(b"1", **group("a"))
        self.decisions.decide("other")
        self.assertEqual(window.last_confirmed_command_id, before)
        self.decisions.decide("a")
        self.assertEqual(window.last_confirmed_command_id, before + 1)

    def test_a_large_message(self) -> None:
        session = self.session
        session.begin_large(**group("a"))
        session.chunk(b"x" * 1000)
        session.chunk(b"y" * 1000, 2000, reply=True, number=-3)
        session.publish(b"next", reply=True, number=-4)
        self.assertEqual(self.count(), 0)
        self.decisions.decide("a")
        self.assertEqual(self.count(), 2)
        first = next(iter(self.world.queue("q").references)).message
        self.assertEqual((first.large.size, first.large.read(999, 2)), (2000, b"xy"))
        self.assertEqual([each.correlation_id for each in session.take() if isinstance(each, wire.NullResponse)], [-3, -4])

    def test_a_transaction(self) -> None:
        session = self.world.peer().open(auto_commit_sends=False)
        session.publish(b"1", **group("a"))
        session.send(wire.Commit())
        self.assertEqual(self.count(), 0)
        self.decisions.decide("a")
        self.assertEqual(self.count(), 1)
        self.assertIsInstance(session.take()[-1], wire.NullResponse)

    def test_the_connection_lives_while_it_waits_and_may_end(self) -> None:
        peer = self.session.peer
        peer.ping(10_000)
        self.session.begin_large(**group("a"))
        self.session.chunk(b"x", 1)
        for _ in range(30):
            self.world.clock.advance(2)
        self.assertFalse(peer.transport.closed)
        self.assertTrue([packet for packet in peer.take(0) if isinstance(packet, wire.Ping)])
        peer.connection.fail("enough")
        self.decisions.decide("a")
        self.assertEqual(self.count(), 0)
        self.assertEqual([body.holders for body in self.world.store.bodies.values()], [0])

    def test_who_may_not_send_asks_nothing(self) -> None:
        self.world = World(Configuration(security_enabled=True))
        self.world.session(username="admin", password="secret").create_queue("q")
        decisions = self.world.messaging.core.routing.grouping = Decisions()
        session = self.world.peer().open(username="nobody", password="nothing")
        session.publish(b"1", reply=True, **group("a"))
        self.assertIsInstance(session.take()[-1], wire.ExceptionResponse)
        self.assertEqual(decisions.waiting, [])
