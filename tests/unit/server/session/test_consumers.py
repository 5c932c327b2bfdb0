"""Consumers: credits, forced delivery, browsing, acknowledgements, rollback, large messages."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.turns.turn import SCAN_SECONDS
from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_FORCED_DELIVERY, KEY_ROUTING_TYPE, decode_headers, decode_message
from mqclient.wire.properties import BYTE, INT, LONG
from tests.unit.server.support import Session, World, message_id, of_kind


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
        clock, queue = self.world.clock, self.world.queue("q")
        expire = queue.on_expired

        def takes_long(reference: Reference) -> None:
            expire(reference)
            clock.seconds += SCAN_SECONDS

        for _ in range(40):
            self.session.publish(b"expired", expiration=clock.wall_ms() + 10)
        self.session.publish(b"x")
        clock.advance(1)
        queue.on_expired = takes_long
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


class BrowserTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q")
        for number in range(3):
            self.session.publish(b"%d" % number, properties={"n": (INT, number)})
        self.session.take()

    def test_a_browser_takes_nothing_and_needs_no_start(self) -> None:
        self.session.consume(browse_only=True, start=False)
        packets = self.session.received()
        self.assertEqual([decode_message(packet.message).body for packet in packets], [b"0", b"1", b"2"])
        self.assertEqual([packet.delivery_count for packet in packets], [0, 0, 0])
        queue = self.world.queue("q")
        self.assertEqual((queue.references.count, queue.delivering, queue.consumer_count), (3, 0, 0))

    def test_a_browser_with_a_filter(self) -> None:
        self.session.consume(browse_only=True, filter="n <> 1")
        self.assertEqual(self.session.bodies(), [b"0", b"2"])

    def test_a_browser_sees_what_comes_later_when_it_asks(self) -> None:
        self.session.consume(browse_only=True)
        self.session.bodies()
        self.session.publish(b"new")
        self.session.send(wire.ForceConsumerDelivery(0, 0))
        self.assertEqual(self.session.bodies()[0], b"new")

    def test_acknowledgements_of_a_browser_are_ignored(self) -> None:
        self.session.consume(browse_only=True)
        (first, *_) = self.session.received()
        self.session.ok(wire.Acknowledge(0, message_id(first), True))
        self.assertEqual(self.world.queue("q").references.count, 3)

    def test_a_browser_of_a_deleted_queue_is_told(self) -> None:
        self.session.consume(browse_only=True)
        self.session.take()
        self.session.ok(wire.DeleteQueue("q"))
        self.session.send(wire.ForceConsumerDelivery(0, 0))
        self.assertEqual(len(self.session.take()), 1)


class CreationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q", max_consumers=1)

    def test_a_qualified_name_without_a_queue_means_none(self) -> None:
        for name in ("q::", "::", "q::missing"):
            self.assertEqual(self.session.error(wire.CreateConsumer(1, name)), 100, name)
        self.session.consume("::q", 1)

    def test_errors(self) -> None:
        self.assertEqual(self.session.error(wire.CreateConsumer(0, "missing")), 100)
        self.assertEqual(self.session.error(wire.CreateConsumer(0, "q", "a = ")), 103)
        self.session.consume()
        self.assertEqual(self.session.error(wire.CreateConsumer(1, "q")), 214)
        answer = self.session.call(wire.CreateConsumer(1, "q", browse_only=True))
        self.assertIsInstance(answer, wire.QueueQueryResponseV3)

    def test_the_answer_describes_the_queue_with_its_new_consumer(self) -> None:
        answer = self.session.call(wire.CreateConsumer(0, "q"))
        assert isinstance(answer, wire.QueueQueryResponseV3)
        self.assertEqual((answer.name, answer.consumer_count, answer.max_consumers), ("q", 1, 1))

    def test_a_failed_silent_request_is_not_answered_and_its_consumer_is_ended(self) -> None:
        self.session.send(wire.CreateConsumer(0, "missing", requires_response=False))
        self.assertEqual(self.session.take(), [wire.DisconnectConsumer(0)])
        self.session.send(wire.ForceConsumerDelivery(0, 1))
        self.assertEqual(self.session.take(), [])

    def test_a_consumer_that_is_made_twice_lives_on(self) -> None:
        self.session.call(wire.CreateConsumer(0, "q"))
        self.session.send(wire.CreateConsumer(0, "q", requires_response=False))
        self.assertEqual(self.session.take(), [])

    def test_closing_an_unknown_consumer_is_answered(self) -> None:
        self.session.ok(wire.ConsumerClose(42))


class AcknowledgementTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()

    def start(self, count: int = 4, **request: object) -> tuple[Session, list[int]]:
        session = self.world.peer().open(**request)
        session.create_queue("q")
        sender = self.world.session()
        for number in range(count):
            sender.publish(b"%d" % number)
        session.consume()
        return session, [message_id(packet) for packet in session.received()]

    @property
    def left(self) -> int:
        return self.world.queue("q").message_count

    def test_cumulative(self) -> None:
        session, ids = self.start()
        session.send(wire.Acknowledge(0, ids[2], False))
        self.assertEqual(session.take(), [])
        self.assertEqual(self.left, 1)
        self.assertEqual(len(self.world.store.entries("ack")), 3)

    def test_individual(self) -> None:
        session, ids = self.start()
        session.ok(wire.IndividualAcknowledge(0, ids[1], True))
        self.assertEqual(self.left, 3)
        session.peer.lose()
        other = self.world.session()
        other.consume()
        self.assertEqual(other.bodies(), [b"0", b"2", b"3"])

    def test_unknown_messages_are_an_error_and_change_nothing(self) -> None:
        session, ids = self.start()
        self.assertEqual(session.error(wire.Acknowledge(0, 5, True)), 104)
        self.assertEqual(session.error(wire.IndividualAcknowledge(9, ids[0], True)), 104)
        session.send(wire.Acknowledge(0, 5, False))
        self.assertEqual(session.take(), [])
        self.assertEqual(self.left, 4)

    def test_an_unknown_message_makes_the_transaction_fail(self) -> None:
        session, ids = self.start(auto_commit_acks=False)
        session.send(wire.Acknowledge(0, ids[0], False))
        session.send(wire.Acknowledge(0, 5, False))
        self.assertEqual(session.error(wire.Commit(-2)), 104)
        self.assertEqual(self.left, 4)

    def test_close_returns_the_rest_uncounted_and_loss_counted(self) -> None:
        session, _ = self.start(2)
        session.send(wire.ConsumerClose(0))
        session.consume(consumer=1)
        packets = [packet for packet in session.take() if isinstance(packet, wire.SessionReceive)]
        self.assertEqual([packet.delivery_count for packet in packets], [1, 1])
        session.peer.lose()
        other = self.world.session()
        other.consume()
        self.assertEqual([packet.delivery_count for packet in other.received()], [2, 2])

    def test_pre_acknowledged_messages_are_gone_before_they_are_sent(self) -> None:
        session, ids = self.start(pre_acknowledge=True)
        self.assertEqual((self.left, len(ids)), (0, 4))
        session.peer.lose()
        self.assertEqual(self.left, 0)

    def test_expired_by_the_client(self) -> None:
        session, ids = self.start()
        session.send(wire.Expired(0, ids[1]))
        session.send(wire.Expired(0, 77))
        self.assertEqual(session.take(), [])
        self.assertEqual((self.left, self.world.queue("q").messages_expired), (3, 1))


class TransactionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.sender = self.world.session()
        self.sender.create_queue("q")
        for number in range(4):
            self.sender.publish(b"%d" % number)
        self.session = self.world.peer().open(auto_commit_sends=False, auto_commit_acks=False)
        self.session.consume()

    def counts(self) -> list[tuple[bytes, int]]:
        return [(decode_message(packet.message).body, packet.delivery_count) for packet in self.session.received()]

    def test_rollback_counts_what_was_acknowledged(self) -> None:
        ids = [message_id(packet) for packet in self.session.received()]
        self.session.send(wire.Acknowledge(0, ids[1], False))
        self.session.ok(wire.SessionStop(), wire.Rollback(False))
        self.session.send(wire.SessionStart())
        self.assertEqual(self.counts(), [(b"0", 2), (b"1", 2), (b"2", 1), (b"3", 1)])

    def test_recover_counts_the_first_of_the_others_too(self) -> None:
        ids = [message_id(packet) for packet in self.session.received()]
        self.session.send(wire.Acknowledge(0, ids[0], False))
        self.session.ok(wire.SessionStop(), wire.Rollback(True))
        self.session.send(wire.SessionStart())
        self.assertEqual(self.counts(), [(b"0", 2), (b"1", 2), (b"2", 1), (b"3", 1)])

    def test_commit_shows_sends_and_takes_acknowledgements_together(self) -> None:
        ids = [message_id(packet) for packet in self.session.received()]
        self.session.send(wire.Acknowledge(0, ids[3], False))
        self.session.publish(b"new")
        self.assertEqual(self.session.take(), [])
        self.session.ok(wire.Commit(-4))
        self.assertEqual(self.session.bodies(), [b"new"])
        self.assertEqual(self.world.queue("q").message_count, 1)

    def test_a_lost_connection_rolls_back(self) -> None:
        ids = [message_id(packet) for packet in self.session.received()]
        self.session.send(wire.Acknowledge(0, ids[3], False))
        self.session.publish(b"never")
        self.session.peer.lose()
        self.sender.take()
        self.sender.consume()
        packets = self.sender.received()
        self.assertEqual([(decode_message(p.message).body, p.delivery_count) for p in packets], [(b"%d" % n, 2) for n in range(4)])

    def test_close_rolls_back_too(self) -> None:
        ids = [message_id(packet) for packet in self.session.received()]
        self.session.send(wire.Acknowledge(0, ids[0], False))
        self.session.ok(wire.SessionClose())
        self.assertEqual(self.world.queue("q").references.count, 4)

    def test_a_failed_request_spoils_an_open_transaction_only(self) -> None:
        self.session.take()
        self.assertEqual(self.session.error(wire.DeleteQueue("missing")), 100)
        self.session.ok(wire.Commit(-2))
        self.session.publish(b"x")
        self.assertEqual(self.session.error(wire.DeleteQueue("missing")), 100)
        self.assertEqual(self.session.error(wire.Commit(-3)), 100)


class LargeDeliveryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.sender = self.world.session()
        self.sender.create_queue("q")
        self.body = bytes(range(250))
        self.sender.begin_large()
        self.sender.chunk(self.body[:100])
        self.sender.chunk(self.body[100:], 250, reply=True)
        self.assertEqual(len(of_kind(self.sender.take(), wire.NullResponse)), 1)
        self.session = self.world.peer().open(min_large_message_size=100)

    @property
    def holders(self) -> int:
        (body,) = self.world.store.bodies.values()
        return int(body.holders)

    def chunks(self) -> list[tuple[int, bool]]:
        return [(len(packet.chunk), packet.continues) for packet in of_kind(self.session.take(), wire.SessionReceiveContinuation)]

    def test_it_comes_in_chunks_of_the_session(self) -> None:
        self.session.consume()
        first, *chunks = self.session.take()
        assert isinstance(first, wire.SessionReceiveLarge)
        self.assertEqual((first.large_message_size, first.delivery_count), (250, 1))
        content = decode_headers(first.headers)
        self.assertEqual(content.properties["_AMQ_LARGE_SIZE"], (LONG, 250))
        self.assertEqual(b"".join(packet.chunk for packet in of_kind(chunks, wire.SessionReceiveContinuation)), self.body)
        self.assertEqual([packet.continues for packet in of_kind(chunks, wire.SessionReceiveContinuation)], [True, True, False])

    def test_credits_stall_it_between_chunks(self) -> None:
        self.session.consume(credits=1)
        self.assertEqual(self.chunks(), [])
        self.session.send(wire.FlowToken(0, 1000))
        self.session.send(wire.FlowToken(0, 0))
        self.session.send(wire.FlowToken(0, 1))
        self.assertEqual(self.chunks(), [(100, True), (100, True), (50, False)])

    def test_each_chunk_is_charged(self) -> None:
        self.session.consume(credits=1)
        (header,) = self.session.take()
        self.session.send(wire.FlowToken(0, 13 + len(wire.encode_packet(header, 136))))
        self.assertEqual(self.chunks(), [(100, True)])
        self.session.send(wire.FlowToken(0, 1))
        self.assertEqual(self.chunks(), [], "the balance is below zero")

    def test_other_messages_wait_behind_it(self) -> None:
        self.sender.publish(b"behind")
        self.session.consume(credits=1)
        self.assertEqual(self.session.received(), [])
        self.session.send(wire.FlowToken(0, -1))
        self.assertEqual(self.session.bodies(), [b"behind"])

    def test_an_acknowledgement_before_the_end_does_not_cut_it_off(self) -> None:
        self.session.consume(credits=1)
        (header,) = self.session.take()
        assert isinstance(header, wire.SessionReceiveLarge)
        self.session.send(wire.Acknowledge(0, decode_headers(header.headers).message_id, False))
        self.assertEqual(self.holders, 1, "the delivery still holds the body")
        self.session.send(wire.FlowToken(0, -1))
        self.assertEqual(self.chunks(), [(100, True), (100, True), (50, False)])
        self.assertEqual(self.holders, 0)

    def test_a_consumer_closed_in_the_middle_gives_it_back(self) -> None:
        self.session.consume(credits=1)
        self.session.take()
        self.session.ok(wire.ConsumerClose(0))
        self.assertEqual((self.world.queue("q").references.count, self.holders), (1, 1))
        self.session.consume(consumer=1)
        self.assertEqual(len(self.chunks()), 3)

    def test_a_connection_lost_in_the_middle_gives_it_back(self) -> None:
        self.session.consume(credits=1)
        self.session.peer.lose()
        self.assertEqual((self.world.queue("q").references.count, self.holders), (1, 1))

    def test_rollback_in_the_middle(self) -> None:
        session = self.world.peer().open(min_large_message_size=100, auto_commit_acks=False)
        session.consume(credits=1)
        session.take()
        session.ok(wire.Rollback(False))
        self.session = session
        session.send(wire.FlowToken(0, -1))
        self.assertEqual(len(self.chunks()), 3)
        self.assertEqual(self.holders, 1)

    def test_pre_acknowledge_holds_the_body_until_it_is_out(self) -> None:
        session = self.world.peer().open(min_large_message_size=100, pre_acknowledge=True)
        session.consume(credits=1)
        self.assertEqual((self.world.queue("q").message_count, self.holders), (0, 1))
        session.send(wire.FlowToken(0, -1))
        self.assertEqual(self.holders, 0)

    def test_a_browser_gets_it_whole(self) -> None:
        self.session.consume(browse_only=True)
        self.assertEqual(len(self.chunks()), 3)
        self.assertEqual(self.world.queue("q").references.count, 1)

    def test_an_empty_one(self) -> None:
        self.session.consume()
        self.session.take()
        self.sender.begin_large()
        self.sender.chunk(b"", 0)
        self.assertEqual(self.chunks(), [(0, False)])


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
