"""How long the content of a message is kept that its home may refer to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.delivery.contents import Contents
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.not_yet import NotYet
from mqclient.errors import MQError
from mqclient.wire import packets as wire
from mqclient.wire.message import CoreMessage, decode_message, encode_headers
from tests.support.broker import Session, message_id, of_kind
from tests.support.held_store import FakeBody
from tests.unit.imq.support import HomeAndConsumer


class ContentsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.asked: list[Callable[[MQError | None], object]] = []
        self.contents = Contents(self.asked.append)
        self.body = FakeBody(1)
        self.message: Any = Message.read(encode_headers(CoreMessage(1, "q")), 0, large=self.body)
        self.contents.keep(1, self.message)

    def test_a_large_body_is_held_as_long(self) -> None:
        self.contents.keep(1, self.message)
        self.assertEqual(self.body.holders, 2)
        self.contents.settled(1)
        self.contents.settled(1)
        self.assertEqual(self.body.holders, 2)
        self.asked.pop()(None)
        self.assertEqual(self.body.holders, 1)

    def test_until_the_home_has_confirmed_what_it_was_told_last(self) -> None:
        self.contents.keep(1, object())  # type: ignore[arg-type]
        self.contents.settled(1)
        self.assertEqual(self.asked, [])
        self.contents.settled(1)
        self.assertIs(self.contents.find(1), self.message)
        self.asked.pop()(None)
        self.assertIsNone(self.contents.find(1))

    def test_one_that_is_referred_to_meanwhile_stays(self) -> None:
        self.contents.settled(1)
        self.contents.keep(1, object())  # type: ignore[arg-type]
        self.asked.pop()(None)
        self.assertIs(self.contents.find(1), self.message)
        self.contents.settled(1)
        self.asked.pop()(None)
        self.assertEqual(len(self.contents), 0)

    def test_one_that_is_settled_again_before_the_answer_waits_for_the_next(self) -> None:
        self.contents.settled(1)
        self.contents.keep(1, object())  # type: ignore[arg-type]
        self.contents.settled(1)
        self.asked.pop()(None)
        self.assertIs(self.contents.find(1), self.message)
        self.asked.pop()(None)
        self.assertIsNone(self.contents.find(1))

    def test_one_question_for_many(self) -> None:
        for number in (2, 3):
            self.contents.keep(number, self.message)
        for number in (1, 2, 3):
            self.contents.settled(number)
        self.assertEqual(len(self.asked), 1)
        self.asked.pop()(None)
        self.assertEqual((len(self.asked), len(self.contents)), (1, 2))
        self.asked.pop()(None)
        self.assertEqual((len(self.asked), len(self.contents)), (0, 0))

    def test_what_is_not_kept_cannot_be_settled(self) -> None:
        self.contents.settled(9)
        self.assertEqual((self.asked, self.contents.find(9)), ([], None))


class SubscriberTests(HomeAndConsumer):
    """Three subscribers at B of a topic at A."""

    def setUp(self) -> None:
        super().setUp()
        self.subscribers = [self.subscribe(f"s{number}") for number in range(3)]
        self.link = self.b.connections[1]

    def subscribe(self, name: str) -> Session:
        session = self.b.session()
        session.create_queue(name, "topic", durable=False, temporary=True, routing_type=0)
        session.consume(name)
        self.cluster.stir()
        return session

    def send(self, body: bytes) -> int:
        """Returns the number of bytes that the link has carried for it."""
        before = self.link.carried
        self.publish(body, address="topic", routing_type=0)
        return self.link.carried - before

    @property
    def contents(self) -> Contents:
        return self.b.delivery.homes[self.a.store.node_id].contents


class OnceTests(SubscriberTests):
    """A message for several subscribers of one broker crosses the link once."""

    def test_each_gets_it_and_it_is_sent_once(self) -> None:
        body = b"x" * 20_000
        carried = self.send(body)
        received = [subscriber.received() for subscriber in self.subscribers]
        self.assertEqual([[decode_message(each.message).body for each in found] for found in received], [[body]] * 3)
        self.assertLess(carried, 2 * len(body))
        self.assertEqual(len({message_id(found[0]) for found in received}), 3)
        for subscriber, (packet,) in zip(self.subscribers, received, strict=True):
            subscriber.send(wire.Acknowledge(0, message_id(packet), False))
        self.cluster.stir()
        self.assertEqual([self.a.count(f"s{number}") for number in range(3)], [0, 0, 0])
        self.assertEqual(len(self.contents), 0)

    def test_one_that_comes_when_others_have_settled_it_comes_whole(self) -> None:
        for subscriber in self.subscribers[1:]:
            subscriber.send(wire.FlowToken(0, 0))
        late = self.b.session()
        late.create_queue("late", "topic", durable=False, temporary=True, routing_type=0)
        late.consume("late", credits=1)
        self.cluster.stir()
        self.send(b"1")
        self.send(b"2")
        self.assertEqual(late.bodies(), [b"1"])
        late.send(wire.FlowToken(0, 1_000_000))
        self.cluster.stir()
        self.assertEqual(late.bodies(), [b"2"])
        self.assertEqual(self.subscribers[0].bodies(), [b"1", b"2"])

    def go(self, number: int) -> None:
        """A subscriber goes while a message is under way; all others get it, and nothing of it is left."""
        self.sender.publish(b"1", "topic", routing_type=0)
        gone = self.subscribers.pop(number)
        gone.send(wire.ConsumerClose(0))
        self.cluster.stir()
        self.assertEqual((gone.bodies(), [each.bodies() for each in self.subscribers]), ([], [[b"1"]] * 2))
        self.assertTrue(self.link.open)
        for subscriber in self.subscribers:
            subscriber.send(wire.ConsumerClose(0))
        self.cluster.stir()
        self.assertEqual(len(self.contents), 0)

    def test_whoever_goes_while_the_content_is_under_way_takes_nothing_along(self) -> None:
        self.go(0)

    def test_nor_does_one_to_whom_only_the_id_is_under_way(self) -> None:
        self.go(2)

    def test_nothing_of_it_is_left_when_the_link_is_lost_meanwhile(self) -> None:
        home = self.b.delivery.homes[self.a.store.node_id]
        self.sender.publish(b"1", "topic", routing_type=0)
        self.subscribers[0].send(wire.ConsumerClose(0))
        self.cluster.stir(rounds=1)
        self.cluster.cut(2, 1)
        self.assertEqual(len(home.contents), 0)

    def test_a_reference_to_what_is_not_here_costs_the_link(self) -> None:
        remote = next(self.b.delivery.remote_consumers())
        remote.held_received(12345, 1)
        self.cluster.stir()
        self.assertEqual((self.link.open, self.b.remotes), (False, []))


class LargeTests(SubscriberTests):
    """So does a large one."""

    BODY = b"x" * 300_000

    def publish_large(self) -> None:
        self.sender.begin_large("topic", routing_type=0)
        self.sender.chunk(self.BODY, len(self.BODY))

    def stop_after_a_chunk(self) -> None:
        """The link takes no more than the beginning of the next large message, until it is told to go on."""
        read = FakeBody.read

        def read_and_stop(body: FakeBody, offset: int, size: int) -> bytes:
            self.link.connection.pause_output()
            self.patch(FakeBody, "read", read)
            return read(body, offset, size)

        self.patch(FakeBody, "read", read_and_stop)
        self.publish_large()
        self.cluster.stir()

    def go_on(self) -> None:
        self.link.connection.resume_output()
        self.cluster.stir()

    def received(self) -> list[list[bytes]]:
        """The bodies that each subscriber has got, in order; the messages are acknowledged."""
        found = [self.acknowledged(subscriber) for subscriber in self.subscribers]
        self.cluster.stir()
        return found

    def acknowledged(self, subscriber: Session) -> list[bytes]:
        bodies: list[bytes] = []
        chunks = b""
        for packet in subscriber.take():
            if isinstance(packet, wire.SessionReceive):
                bodies.append(decode_message(packet.message).body)
                subscriber.send(wire.Acknowledge(0, message_id(packet), False))
            elif isinstance(packet, wire.SessionReceiveLarge):
                subscriber.send(wire.Acknowledge(0, Message.read(packet.headers, 0).message_id, False))
            elif isinstance(packet, wire.SessionReceiveContinuation):
                chunks += packet.chunk
                if not packet.continues:
                    bodies.append(chunks)
                    chunks = b""
        return bodies

    def assert_nothing_is_left(self) -> None:
        self.assertEqual(len(self.contents), 0)
        self.assertEqual({body.holders for body in (*self.a.store.bodies.values(), *self.b.store.bodies.values())}, {0})

    def test_each_gets_it_and_it_is_sent_once(self) -> None:
        before = self.link.carried
        self.publish_large()
        self.cluster.stir()
        self.assertLess(self.link.carried - before, 2 * len(self.BODY))
        self.assertEqual(self.received(), [[self.BODY]] * 3)
        self.assert_nothing_is_left()

    def test_the_others_wait_until_it_has_been_sent(self) -> None:
        before = self.link.carried
        self.stop_after_a_chunk()
        self.assertEqual(self.received(), [[]] * 3)
        self.send(b"2")
        self.go_on()
        self.assertLess(self.link.carried - before, 2 * len(self.BODY))
        self.assertEqual(self.received(), [[self.BODY, b"2"]] * 3)

    def test_many_that_wait_go_on_one_after_the_other(self) -> None:
        """Once each let the next one go on before it had ended itself, in depth."""
        session = self.b.session()
        for number in range(300):
            session.create_queue(f"many{number}", "topic", durable=False, temporary=True, routing_type=0)
            session.consume(f"many{number}", number)
        self.cluster.stir()
        session.take()
        read, waiting = FakeBody.read, []

        def read_later(body: FakeBody, offset: int, size: int) -> bytes:
            self.patch(FakeBody, "read", read)
            raise NotYet(waiting.append)

        self.patch(FakeBody, "read", read_later)
        self.publish_large()
        self.cluster.stir()
        (go_on,) = waiting
        self.a.core.turn.run(go_on)
        self.cluster.stir()
        self.assertTrue(self.link.open)
        self.assertEqual(len(of_kind(session.take(), wire.SessionReceiveLarge)), 300)

    def test_one_of_them_gets_it_whole_when_the_first_one_goes_meanwhile(self) -> None:
        self.stop_after_a_chunk()
        gone = self.subscribers.pop(0)
        self.b.world.messaging.administration.delete_queue(self.b.world.queue("s0"), remove_consumers=True)
        self.cluster.stir()
        self.go_on()
        self.assertEqual((of_kind(gone.take(), wire.SessionReceiveLarge), self.received()), ([], [[self.BODY]] * 2))
        self.assertTrue(self.link.open)
        self.assert_nothing_is_left()

    def test_nothing_is_left_when_the_link_is_lost_meanwhile(self) -> None:
        self.stop_after_a_chunk()
        contents = self.contents
        self.cluster.cut(2, 1)
        self.assertEqual((len(contents), [body.holders for body in self.b.store.bodies.values()]), (0, [0]))
