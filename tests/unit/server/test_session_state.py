"""Confirmations, what is kept for a reattachment, and reattaching."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.server import session_state
from mqclient.wire import packets as wire
from mqclient.wire.frames import SESSION_CHANNEL
from mqclient.wire.message import decode_message
from tests.support.broker import Peer, Session, World, of_kind


def names(packets: list[wire.Packet]) -> list[str]:
    return [packet.NAME for packet in packets]


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

    def test_a_client_that_asks_again_for_a_session_gets_it(self) -> None:
        """The broker has not noticed yet that the connection of the first try is dead."""
        first = self.world.peer().open(name="again")
        first.create_queue("q2")
        first.consume("q2")
        second = self.world.peer().open(name="again")
        self.assertEqual(self.world.queue("q2").consumer_count, 0)
        second.publish(b"x", "q2")
        self.assertIs(self.world.server.sessions.by_name["again"].connection, list(self.world.server.connections.values())[-1])
        first.peer.lose()
        self.assertIn("again", self.world.server.sessions.by_name)

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
        self.assertEqual(sorted(self.world.server.sessions.by_name), ["00000002-10", "small"], "none that the client cannot go on with")

    def test_one_that_comes_to_be_beyond_it_while_it_is_asked_for_is_gone(self) -> None:
        self.world.store.held = True
        self.session.publish(b"not stored yet", "other")
        peer = self.world.peer()
        peer.version = 136
        peer.send(wire.ReattachSession("late", -1), SESSION_CHANNEL)
        self.send(20)
        self.world.store.sync()
        self.assertEqual(of_kind(peer.take(SESSION_CHANNEL), wire.ReattachSessionResponse), [wire.ReattachSessionResponse(-1, False)])
        self.assertEqual((self.world.queue("q").consumer_count, self.world.queue("q").references.count), (0, 20))

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
