"""Large messages on their way to a consumer."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as wire
from mqclient.wire.message import decode_headers
from mqclient.wire.properties import LONG
from tests.support.broker import World, of_kind


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
