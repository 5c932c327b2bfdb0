"""Consumers get what other members keep, and those hear how it was settled."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.home_cluster import HomeCluster
from mqbroker.imq.delivery.delivery import Delivery
from mqbroker.imq.links.home_links import HomeLinks
from mqclient.wire import packets as wire
from mqclient.wire.message import decode_message
from tests.support.broker import Session, message_id
from tests.unit.imq.support import Cluster


def publish(session: Session, *bodies: bytes, **headers: object) -> None:
    for body in bodies:
        session.publish(body, **headers)  # type: ignore[arg-type]


class WalkTests(SynchronousTestCase):
    """The message stays with the broker that took it until somebody has consumed it."""

    def setUp(self) -> None:
        self.cluster = Cluster(3)
        self.a, self.b, self.c = (self.cluster[number] for number in (1, 2, 3))
        self.sender = self.a.session()

    def tearDown(self) -> None:
        for broker in self.cluster.brokers.values():
            self.assertEqual(broker.runtime.failures, [])

    def test_a_consumer_elsewhere_gets_messages_in_order(self) -> None:
        publish(self.sender, b"1", b"2", b"3")
        consumer = self.b.session()
        consumer.consume()
        self.cluster.stir()
        publish(self.sender, b"4")
        self.cluster.stir()
        self.assertEqual(consumer.bodies(), [b"1", b"2", b"3", b"4"])

    def test_until_it_is_acknowledged_its_home_keeps_it_and_the_other_store_never_hears_of_it(self) -> None:
        publish(self.sender, b"1", b"2")
        consumer = self.b.session()
        before = len(self.b.store.log)
        consumer.consume()
        self.cluster.stir()
        first, second = consumer.received()
        self.assertEqual((self.a.count(), self.b.count()), (2, 0))
        self.assertEqual((self.a.delivery.held(self.a.world.queue("q")), self.b.delivery.held(self.b.world.queue("q"))), (0, 2))
        self.assertTrue(decode_message(first.message).durable)
        consumer.send(wire.Acknowledge(0, message_id(second), False))
        self.cluster.stir()
        self.assertEqual((self.a.count(), self.b.count(), self.b.store.log[before:]), (0, 0, []))
        self.assertEqual(self.b.delivery.held(self.b.world.queue("q")), 0)

    def test_when_the_broker_of_the_consumer_is_lost_another_one_gets_them_all_in_order(self) -> None:
        publish(self.sender, *(b"%d" % number for number in range(6)))
        consumer = self.b.session()
        consumer.consume()
        self.cluster.stir()
        received = consumer.received()
        consumer.send(wire.Acknowledge(0, message_id(received[1]), False))
        self.cluster.stir()
        self.cluster.crash(2)
        other = self.c.session()
        other.consume()
        self.cluster.stir()
        self.assertEqual(other.bodies(), [b"2", b"3", b"4", b"5"])

    def test_messages_of_several_homes(self) -> None:
        consumer = self.b.session()
        consumer.consume()
        self.cluster.stir()
        for number in (1, 2, 3):
            publish(self.cluster[number].session(), b"from %d" % number)
        self.cluster.stir()
        received = consumer.received()
        self.assertEqual({decode_message(packet.message).body for packet in received}, {b"from 1", b"from 2", b"from 3"})
        self.assertEqual(len({message_id(packet) for packet in received}), 3)
        for packet in received:
            consumer.send(wire.IndividualAcknowledge(0, message_id(packet), False))
        self.cluster.stir()
        self.assertEqual([broker.count() for broker in (self.a, self.b, self.c)], [0, 0, 0])

    def test_consumers_of_links_are_no_reason_to_look_further(self) -> None:
        consumer = self.b.session()
        consumer.consume()
        self.cluster.stir()
        self.assertEqual([len(broker.remotes) for broker in (self.a, self.b, self.c)], [0, 2, 0])
        self.assertEqual([self.cluster[number].world.queue("q").consumer_count for number in (1, 2, 3)], [1, 1, 1])

    def test_consumers_that_were_there_before(self) -> None:
        session = self.b.session()
        session.create_queue("early")
        self.patch(self.b.core, "elsewhere", None)
        session.consume("early")
        Delivery(self.b.world.messaging, HomeLinks(), self.b.store.node_id, self.b.runtime, HomeCluster((), None, ""), self.b.heard)
        self.assertIsNotNone(self.b.world.queue("early").elsewhere)

    def test_who_does_not_wait_for_a_message_gets_one_that_another_home_has(self) -> None:
        for credits in (1, 1_000_000):
            publish(self.sender, b"1")
            consumer = self.b.session()
            consumer.consume(credits=0)
            self.cluster.stir()
            consumer.send(wire.FlowToken(0, credits))
            consumer.send(wire.ForceConsumerDelivery(0, 7))
            self.assertEqual(consumer.received(), [])
            self.cluster.stir()
            message, marker = consumer.received()
            self.assertEqual((decode_message(message.message).body, marker.delivery_count), (b"1", 0))
            consumer.send(wire.Acknowledge(0, message_id(message), False))
            consumer.send(wire.ForceConsumerDelivery(0, 8))
            self.assertEqual([each.delivery_count for each in consumer.received()], [0])
            consumer.send(wire.ConsumerClose(0))
            self.cluster.stir()

    def test_who_does_not_wait_is_answered_when_a_home_cannot_answer(self) -> None:
        self.b.session().create_queue("here")
        for queue in ("here", "q"):
            consumer = self.b.session()
            consumer.consume(queue)
            consumer.send(wire.ForceConsumerDelivery(0, 7))
            self.assertEqual(consumer.received(), [])
            if queue == "q":
                for home in (1, 3):
                    self.cluster.cut(2, home)
            self.cluster.stir()
            self.assertEqual([each.delivery_count for each in consumer.received()], [0])

    def test_nothing_is_left_of_consumers_of_a_queue_that_others_do_not_have(self) -> None:
        """Otherwise each selector of a client would be asked for at each home, again and again."""
        self.b.session().create_queue("here")
        for number in range(3):
            consumer = self.b.session()
            consumer.consume("here", filter=f"c = {number}")
            self.cluster.stir()
            self.cluster.advance(2.5)
            self.assertEqual(len(self.b.remotes), 2)
            consumer.send(wire.ConsumerClose(0))
            self.cluster.stir()
            self.assertEqual(self.b.remotes, [])

    def test_nothing_is_left_of_a_consumer_that_the_home_has_ended(self) -> None:
        consumer = self.b.session()
        consumer.consume()
        self.cluster.stir()
        (home,) = (each for each in self.b.delivery.homes.values() if each.node_id == self.a.store.node_id)
        consuming = home._consuming
        assert consuming is not None
        self.assertEqual(len(consuming.encoded_consumers), 1)
        administration = self.a.world.messaging.administration
        administration.delete_queue(self.a.world.queue("q"), remove_consumers=True)
        self.cluster.stir()
        self.assertEqual(len(consuming.encoded_consumers), 0)
        links = [each for each in self.a.world.server.sessions.by_name.values() if wire.HOME_LINK_KEY in each.metadata]
        self.assertEqual([len(each.consumers.by_id) for each in links], [0, 0])

    def test_without_consumers_nothing_is_left_of_them(self) -> None:
        consumer = self.b.session()
        consumer.consume()
        self.cluster.stir()
        publish(self.sender, b"1")
        self.cluster.stir()
        consumer.send(wire.ConsumerClose(0))
        self.cluster.stir()
        self.assertEqual((self.b.remotes, self.a.world.queue("q").consumer_count), ([], 0))
        self.assertEqual(self.a.waiting(), [b"1"])
        other = self.a.session()
        other.consume()
        (again,) = other.received()
        self.assertEqual(again.delivery_count, 1)
