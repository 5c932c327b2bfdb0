"""What comes of a message that a consumer here was given: its home hears of it, unless the link is lost."""

from __future__ import annotations

from dataclasses import replace

from mqclient.wire import packets as wire
from mqclient.wire.message import decode_message
from tests.support.broker import Session, message_id
from tests.unit.imq.support import HomeAndConsumer


class ReturnTests(HomeAndConsumer):
    def test_what_a_consumer_has_not_used_another_one_here_gets(self) -> None:
        self.publish(b"1", b"2")
        first = self.consumer()
        self.assertEqual(len(first.received()), 2)
        second = self.consumer()
        first.send(wire.ConsumerClose(0))
        self.cluster.stir()
        self.assertEqual([(decode_message(each.message).body, each.delivery_count) for each in second.received()], [(b"1", 1), (b"2", 1)])

    def test_without_another_one_it_goes_back_uncounted_and_in_order(self) -> None:
        self.publish(b"1", b"2", b"3")
        consumer = self.consumer()
        consumer.send(wire.IndividualAcknowledge(0, message_id(consumer.received()[1]), False))
        consumer.send(wire.ConsumerClose(0))
        self.cluster.stir()
        self.assertEqual((self.a.waiting(), self.b.remotes), ([b"1", b"3"], []))
        other = self.a.session()
        other.consume()
        self.assertEqual([each.delivery_count for each in other.received()], [1, 1])

    def test_the_home_counts_what_was_consumed_in_vain(self) -> None:
        self.publish(b"1")
        consumer = self.b.session(auto_commit_acks=False)
        consumer.consume()
        self.cluster.stir()
        (first,) = consumer.received()
        consumer.send(wire.Acknowledge(0, message_id(first), False))
        consumer.ok(wire.Rollback(False))
        self.cluster.stir()
        self.assertEqual([each.delivery_count for each in consumer.received()], [2])

    def rolled_back(self, consumer: Session, count: int) -> list[tuple[bytes, int]]:
        """Bodies and counts of what comes after ``count`` messages were acknowledged and rolled back."""
        for packet in consumer.received()[:count]:
            consumer.send(wire.IndividualAcknowledge(0, message_id(packet), False))
        consumer.ok(wire.Rollback(False))
        consumer.send(wire.FlowToken(0, 1_000_000))
        self.cluster.stir()
        return [(decode_message(each.message).body, each.delivery_count) for each in consumer.received()]

    def transacted(self, credits: int) -> Session:
        consumer = self.b.session(auto_commit_acks=False)
        consumer.consume(credits=credits)
        self.cluster.stir()
        return consumer

    def test_it_comes_again_before_what_waits_here(self) -> None:
        self.publish(b"1", b"2", b"3")
        consumer = self.transacted(1)
        self.assertEqual(len(self.b.remotes[0].waiting), 2)
        self.assertEqual(self.rolled_back(consumer, 1), [(b"1", 2), (b"2", 1), (b"3", 1)])

    def test_and_before_what_the_client_has_not_used(self) -> None:
        self.publish(b"1", b"2", b"3", b"4")
        self.assertEqual(self.rolled_back(self.transacted(1_000_000), 2), [(b"1", 2), (b"2", 2), (b"3", 1), (b"4", 1)])

    def test_and_before_what_is_under_way(self) -> None:
        self.publish(b"1", b"2")
        consumer = self.transacted(1)
        for body in (b"3", b"4"):
            self.sender.publish(body)
        self.assertEqual(self.rolled_back(consumer, 1), [(b"1", 2), (b"2", 1), (b"3", 1), (b"4", 1)])

    def test_what_another_consumer_here_gives_back_then_does_not_come_before_it(self) -> None:
        self.publish(b"1", b"2", b"3")
        consumer, other = self.transacted(1), self.transacted(1)
        self.cluster.stir()
        (packet,) = consumer.received()
        consumer.send(wire.IndividualAcknowledge(0, message_id(packet), False))
        consumer.ok(wire.Rollback(False))
        other.send(wire.ConsumerClose(0))
        consumer.send(wire.FlowToken(0, 1_000_000))
        self.cluster.stir()
        self.assertEqual(consumer.bodies(), [b"1", b"2", b"3"])

    def test_the_home_sends_it_to_its_dead_letters(self) -> None:
        self.sender.create_queue("dead")
        address = self.a.world.queue("q").address
        self.patch(address, "settings", replace(address.settings, max_delivery_attempts=1, dead_letter_address="dead"))
        self.publish(b"1")
        consumer = self.b.session(auto_commit_acks=False)
        consumer.consume()
        self.cluster.stir()
        consumer.send(wire.Acknowledge(0, message_id(consumer.received()[0]), False))
        consumer.ok(wire.Rollback(False))
        self.cluster.stir()
        self.assertEqual((self.a.waiting("dead"), self.a.count(), consumer.received()), ([b"1"], 0, []))

    def test_an_expired_one_is_the_homes_to_deal_with(self) -> None:
        consumer = self.consumer(credits=0)
        remote = self.b.remotes[0]
        consumer.send(wire.FlowToken(0, 1))
        self.publish(b"0")
        self.publish(b"1", expiration=self.cluster.clock.wall_ms() + 500)
        self.assertEqual(len(remote.waiting), 1)
        self.cluster.clock.seconds += 0.6
        consumer.send(wire.FlowToken(0, 100_000))
        self.cluster.stir()
        self.assertEqual((consumer.bodies(), self.a.world.queue("q").messages_expired, self.a.count()), ([b"0"], 1, 1))


class LossTests(HomeAndConsumer):
    def test_waiting_messages_are_dropped_and_come_again(self) -> None:
        self.publish(b"1", b"2", b"3")
        slow = self.consumer(credits=1)
        self.assertEqual(slow.bodies(), [b"1"])
        self.cluster.cut(2, 1)
        self.assertEqual((self.b.remotes, self.a.waiting()), ([], [b"1", b"2", b"3"]))
        slow.send(wire.FlowToken(0, 1_000_000))
        self.cluster.link(2, 1)
        self.assertEqual(
            [(decode_message(each.message).body, each.delivery_count) for each in slow.received()], [(b"1", 2), (b"2", 2), (b"3", 2)]
        )

    def test_an_acknowledgement_after_the_loss_has_no_effect(self) -> None:
        self.publish(b"1")
        consumer = self.consumer()
        (first,) = consumer.received()
        self.cluster.cut(2, 1)
        consumer.send(wire.Acknowledge(0, message_id(first), False))
        self.cluster.stir()
        self.assertEqual((self.a.waiting(), self.b.store.failed), ([b"1"], False))

    def test_a_confirmed_one_is_refused(self) -> None:
        self.publish(b"1")
        consumer = self.consumer()
        (first,) = consumer.received()
        self.cluster.cut(2, 1)
        self.assertEqual(consumer.error(wire.Acknowledge(0, message_id(first), True)), 104)

    def test_a_transaction_that_holds_one_can_only_be_rolled_back(self) -> None:
        self.publish(b"1")
        consumer = self.b.session(auto_commit_acks=False, auto_commit_sends=False)
        consumer.consume()
        self.cluster.stir()
        (first,) = consumer.received()
        consumer.send(wire.Acknowledge(0, message_id(first), False))
        consumer.publish(b"answer")
        self.cluster.cut(2, 1)
        self.assertEqual(consumer.error(wire.Commit()), 111)
        self.assertEqual((self.a.waiting(), self.b.count()), ([b"1"], 0))

    def test_a_queue_deleted_at_the_home_is_looked_for_again(self) -> None:
        consumer = self.consumer()
        self.a.world.messaging.administration.delete_queue(self.a.world.queue("q"), remove_consumers=True)
        self.cluster.stir()
        self.sender.create_queue("q")
        self.publish(b"1")
        self.cluster.advance(2)
        self.assertEqual(consumer.bodies(), [b"1"])

    def test_a_queue_deleted_here_needs_nothing_any_more(self) -> None:
        self.publish(b"1")
        self.consumer(credits=0)
        self.b.world.messaging.administration.delete_queue(self.b.world.queue("q"), remove_consumers=True)
        self.cluster.stir()
        self.assertEqual((self.b.remotes, self.a.world.queue("q").consumer_count, self.a.waiting()), ([], 0, [b"1"]))
