"""Consumers: credits, forced delivery, browsing, acknowledgements, rollback, large messages."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.turns.turn import SCAN_SECONDS
from mqbroker.server.session.consumers import FORCED_MAX
from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_FORCED_DELIVERY, KEY_ROUTING_TYPE, decode_message
from mqclient.wire.properties import BYTE
from tests.support.broker import World


def frame_size(packet: wire.SessionReceive) -> int:
    return 13 + len(wire.encode_packet(packet, 136))


class CreditTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q")
        for number in range(5):
            self.session.publish(b"%d" % number)
        self.session.take()

    def test_nothing_without_credits_and_nothing_before_the_start(self) -> None:
        self.session.consume(credits=0)
        self.assertEqual(self.session.take(), [])
        self.session.send(wire.SessionStop())
        self.session.take()
        self.session.send(wire.FlowToken(0, -1))
        self.assertEqual(self.session.take(), [])
        self.session.send(wire.SessionStart())
        self.assertEqual(len(self.session.bodies()), 5)

    def test_a_message_may_go_while_any_credit_is_left(self) -> None:
        self.session.consume(credits=1)
        (first,) = self.session.received()
        self.session.send(wire.FlowToken(0, frame_size(first) - 1))
        self.assertEqual(self.session.received(), [], "the balance is zero")
        self.session.send(wire.FlowToken(0, frame_size(first) + 1))
        self.assertEqual(self.session.bodies(), [b"1", b"2"])

    def test_zero_takes_all_credits_away(self) -> None:
        self.session.consume(credits=1_000_000, start=False)
        self.session.send(wire.FlowToken(0, 0))
        self.session.send(wire.SessionStart())
        self.assertEqual(self.session.received(), [])

    def test_credits_for_unknown_consumers_are_ignored(self) -> None:
        self.session.send(wire.FlowToken(99, 100))
        self.session.ok(wire.SessionStop())

    def test_stop_holds_deliveries_back_before_its_answer(self) -> None:
        self.session.consume(credits=1)
        self.session.send(wire.SessionStop())
        self.session.send(wire.FlowToken(0, -1))
        self.assertEqual([packet.NAME for packet in self.session.take()], ["SESS_RECEIVE_MSG", "NULL_RESPONSE"])

    def test_messages_are_shared_in_turn(self) -> None:
        other = self.world.session()
        self.session.consume(credits=-1, start=False)
        other.consume(credits=-1, start=False)
        self.session.send(wire.SessionStart())
        other.send(wire.SessionStart())
        self.session.take()
        for number in range(4):
            self.session.publish(b"n%d" % number)
        self.assertEqual((len(self.session.bodies()), len(other.bodies())), (2, 2))


class ForcedDeliveryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q")
        self.session.take()

    def marker(self, packet: wire.Packet) -> object:
        assert isinstance(packet, wire.SessionReceive)
        content = decode_message(packet.message)
        self.assertEqual((content.address, content.durable, content.priority, packet.delivery_count), ("q", False, 0, 0))
        return content.get(KEY_FORCED_DELIVERY)

    def test_the_marker_comes_after_what_is_there(self) -> None:
        self.session.consume()
        self.session.publish(b"x", durable=False)
        self.session.send(wire.ForceConsumerDelivery(0, 3))
        first, second = self.session.take()
        self.assertEqual((decode_message(first.message).body, self.marker(second)), (b"x", 3))  # type: ignore[attr-defined]

    def test_the_marker_costs_no_credits_and_needs_none(self) -> None:
        self.session.consume(credits=0)
        self.session.send(wire.ForceConsumerDelivery(0, 1))
        self.session.send(wire.ForceConsumerDelivery(0, 2))
        self.assertEqual([self.marker(packet) for packet in self.session.take()], [1, 2])

    def test_a_session_waits_for_its_own_sends(self) -> None:
        self.world.store.held = True
        self.session.consume()
        self.session.publish(b"x")
        self.session.send(wire.ForceConsumerDelivery(0, 0))
        self.assertEqual(self.session.take(), [])
        self.world.store.sync()
        self.world.clock.advance(0)
        self.assertEqual([packet.NAME for packet in self.session.take()], ["SESS_RECEIVE_MSG"] * 2)

    def test_the_marker_comes_after_what_stands_behind_many_expired_messages(self) -> None:
        clock = self.world.clock
        self.world.queue("q")

        def takes_long(reference: Reference) -> None:
            clock.seconds += SCAN_SECONDS

        for _ in range(40):
            self.session.publish(b"expired", expiration=clock.wall_ms() + 10)
        self.session.publish(b"x")
        clock.advance(1)
        self.world.server.messaging.core.expired.subscribe(takes_long)
        self.session.take()
        self.session.consume(credits=0)
        self.session.send(wire.FlowToken(0, 1))
        self.session.send(wire.ForceConsumerDelivery(0, 3))
        clock.advance(1)
        first, second = self.session.take()
        self.assertEqual((decode_message(first.message).body, self.marker(second)), (b"x", 3))  # type: ignore[attr-defined]

    def test_the_marker_waits_for_a_peer_that_does_not_read(self) -> None:
        self.session.consume()
        self.session.peer.connection.pause_output()
        self.session.send(wire.ForceConsumerDelivery(0, 4))
        self.assertEqual(self.session.take(), [])
        self.session.peer.connection.resume_output()
        self.assertEqual([self.marker(packet) for packet in self.session.take()], [4])

    def test_the_newest_of_many_that_wait_answers_for_all(self) -> None:
        self.session.begin_large("q")
        self.session.chunk(bytes(1000), 1000)
        self.session.consume(credits=1)
        for number in range(FORCED_MAX + 5):
            self.session.send(wire.ForceConsumerDelivery(0, number))
        self.session.take()
        self.session.send(wire.FlowToken(0, 100_000))
        markers = [packet for packet in self.session.take() if isinstance(packet, wire.SessionReceive)]
        self.assertEqual([self.marker(packet) for packet in markers], [*range(FORCED_MAX, FORCED_MAX + 5)])


class RecordedCountTests(SynchronousTestCase):
    def test_counts_are_stored_before_delivery_when_asked(self) -> None:
        world = World(Configuration(security_enabled=False, persist_delivery_count_before_delivery=True))
        session = world.session()
        session.create_queue("q")
        session.publish()
        session.consume()
        self.assertEqual(len(world.store.entries("count")), 1)

    def test_a_delivery_that_does_not_count_is_taken_back_in_the_store_too(self) -> None:
        world = World(Configuration(security_enabled=False, persist_delivery_count_before_delivery=True))
        session = world.session()
        session.create_queue("q")
        session.publish()
        session.consume()
        session.ok(wire.ConsumerClose(0))
        self.assertEqual([entry[-1] for entry in world.store.entries("count")], [1, 0])

    def test_routing_type_of_sends(self) -> None:
        world = World()
        session = world.session()
        session.publish(routing_type=None, properties={KEY_ROUTING_TYPE: (BYTE, 0)}, address="t")
        self.assertEqual(set(world.messaging.core.addresses["t"].routing_types), {0})
