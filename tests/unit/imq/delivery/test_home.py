"""Confirmed acknowledgements, and the queues that are made at a home for consumers here."""

from __future__ import annotations

from mqclient.wire import packets as wire
from mqclient.wire.properties import INT
from tests.support.broker import message_id
from tests.unit.imq.support import HomeAndConsumer


class ConfirmedTests(HomeAndConsumer):
    """A blocking acknowledgement is answered when the home has stored it."""

    def setUp(self) -> None:
        super().setUp()
        self.publish(b"1", b"2")
        self.consumer_session = self.consumer()
        self.received = self.consumer_session.received()
        self.a.store.held = True

    def acknowledge(self, number: int) -> None:
        self.consumer_session.send(wire.IndividualAcknowledge(0, message_id(self.received[number]), True))

    def test_the_answer_waits_for_the_disk_of_the_home(self) -> None:
        self.acknowledge(0)
        self.cluster.stir()
        self.assertEqual(self.consumer_session.take(), [])
        self.a.store.sync()
        self.cluster.stir()
        self.assertEqual([type(each) for each in self.consumer_session.take()], [wire.NullResponse])

    def test_other_sessions_do_not_wait(self) -> None:
        self.acknowledge(0)
        self.cluster.stir()
        other = self.consumer_session.peer.open()
        other.ok(wire.SessionStop())

    def test_several_are_answered_together(self) -> None:
        self.acknowledge(0)
        self.acknowledge(1)
        self.cluster.stir()
        self.a.store.sync()
        self.cluster.stir()
        self.a.store.sync()
        self.cluster.stir()
        self.assertEqual([type(each) for each in self.consumer_session.take()], [wire.NullResponse, wire.NullResponse])

    def test_a_consumer_that_is_closed_behind_them_does_not_matter(self) -> None:
        """A client need not wait for an answer before it closes its consumer, the last one here."""
        self.acknowledge(0)
        self.acknowledge(1)
        self.consumer_session.send(wire.ConsumerClose(0))
        self.cluster.stir()
        self.assertEqual((self.b.remotes, self.consumer_session.take()), ([], []))
        for _ in range(4):
            self.a.store.sync()
            self.cluster.stir()
        self.assertEqual([type(each) for each in self.consumer_session.take()], 3 * [wire.NullResponse])
        self.assertEqual(self.a.count(), 0)

    def test_a_link_that_is_lost_meanwhile_is_told(self) -> None:
        self.acknowledge(0)
        self.cluster.stir()
        self.cluster.cut(2, 1)
        self.assertEqual([type(each) for each in self.consumer_session.take()], [wire.ExceptionResponse])


class TopicTests(HomeAndConsumer):
    def test_a_subscriber_without_a_durable_subscription_has_a_temporary_queue_at_each_home(self) -> None:
        subscriber = self.b.session()
        subscriber.create_queue("s-1", "topic", durable=False, temporary=True, routing_type=0, filter_string="c = 1")
        subscriber.consume("s-1")
        self.cluster.stir()
        there = self.a.world.queue("s-1").definition
        self.assertEqual((there.address, there.temporary, there.durable, there.filter_string), ("topic", True, False, "c = 1"))
        for number in (1, 2):
            self.publish(b"%d" % number, address="topic", routing_type=0, properties={"c": (INT, number)})
        self.assertEqual(subscriber.bodies(), [b"1"])
        subscriber.send(wire.ConsumerClose(0))
        self.b.world.messaging.administration.delete_queue(self.b.world.queue("s-1"))
        self.cluster.stir()
        self.assertNotIn("s-1", self.a.core.queues)

    def test_it_ends_with_a_subscriber_that_goes_while_it_is_made(self) -> None:
        """Otherwise it would collect messages as long as there is the link."""
        for rounds in range(12):
            name = f"s-{rounds}"
            subscriber = self.b.session()
            subscriber.create_queue(name, "topic", durable=False, temporary=True, routing_type=0)
            subscriber.consume(name)
            self.cluster.stir(rounds)
            subscriber.send(wire.ConsumerClose(0))
            self.b.world.messaging.administration.delete_queue(self.b.world.queue(name))
            self.cluster.stir()
            self.assertNotIn(name, self.a.core.queues, rounds)

    def test_it_ends_with_the_link(self) -> None:
        subscriber = self.b.session()
        subscriber.create_queue("s-1", "topic", durable=False, temporary=True, routing_type=0)
        subscriber.consume("s-1")
        self.cluster.stir()
        self.assertIn("s-1", self.a.core.queues)
        self.cluster.cut(2, 1)
        self.assertNotIn("s-1", self.a.core.queues)

    def test_a_durable_subscription_collects_at_each_home(self) -> None:
        for broker in (self.a, self.b):
            broker.session().create_queue("client.sub", "topic", routing_type=0)
        self.publish(b"1", address="topic", routing_type=0)
        self.assertEqual((self.a.waiting("client.sub"), self.b.waiting("client.sub")), ([b"1"], []))
        subscriber = self.consumer(queue="client.sub")
        self.b.session().publish(b"2", "topic", routing_type=0)
        self.cluster.stir()
        self.assertEqual(subscriber.bodies(), [b"1", b"2"])

    def test_contents_of_a_subscription_that_ends_are_not_kept(self) -> None:
        for at_home in (True, False):
            for broker in (self.a, self.b):
                broker.session().create_queue("client.sub", "topic", routing_type=0)
            subscriber = self.consumer(queue="client.sub")
            self.publish(b"1", address="topic", routing_type=0)
            self.assertEqual(subscriber.bodies(), [b"1"])
            (home,) = self.b.delivery.homes.values()
            self.assertEqual(len(home.contents), 1)
            for broker in (self.a, self.b) if at_home else (self.b, self.a):
                administration = broker.world.messaging.administration
                administration.delete_queue(broker.world.queue("client.sub"), remove_consumers=True)
                self.cluster.stir()
            self.assertEqual(len(home.contents), 0, at_home)

    def test_nothing_comes_from_a_home_that_has_not_heard_of_the_queue(self) -> None:
        """It may have a former queue of that name."""
        for broker in (self.a, self.b):
            broker.session().create_queue("client.sub", "topic", routing_type=0)
        self.publish(b"old", address="topic", routing_type=0)
        self.b.heard.unheard.add("client.sub")
        subscriber = self.consumer(queue="client.sub")
        self.cluster.advance(1.5)
        self.assertEqual((subscriber.received(), self.a.world.queue("client.sub").consumer_count), ([], 0))
        self.a.world.messaging.administration.delete_queue(self.a.world.queue("client.sub"))
        self.sender.create_queue("client.sub", "topic", routing_type=0)
        self.b.heard.unheard.clear()
        self.publish(b"new", address="topic", routing_type=0)
        self.cluster.advance(1)
        self.assertEqual(subscriber.bodies(), [b"new"])

    def test_who_does_not_wait_is_not_held_up_by_it(self) -> None:
        self.b.heard.unheard.add("q")
        consumer = self.consumer()
        consumer.send(wire.ForceConsumerDelivery(0, 7))
        self.assertEqual([each.delivery_count for each in consumer.received()], [0])
        self.cluster.cut(2, 1)
        self.cluster.advance(1.5)
        self.assertEqual(self.b.remotes, [])

    def test_an_auto_created_queue_is_made_where_its_consumers_look_for_it(self) -> None:
        session = self.b.session()
        session.create_queue("auto", auto_created=True)
        session.consume("auto")
        self.cluster.stir()
        self.assertTrue(self.a.world.queue("auto").definition.auto_created)
