"""Messages that move to another broker, over links that are cut at any byte."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import ScaleDownConfiguration
from mqbroker.ha import moving, scale_down
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY
from mqclient.wire.properties import LONG
from tests.support.clock import START_MS
from tests.unit.ha.test_scale_down import HEIR, Leaving


class MovingTests(SynchronousTestCase):
    def test_behind_what_is_there(self) -> None:
        pair = Leaving()
        pair.receiver.publish(b"there")
        pair.publish(b"1", b"2", b"3")
        self.assertEqual(pair.find(), HEIR)
        pair.run()
        self.assertEqual((pair.arrived(), pair.waiting()), ([b"there", b"1", b"2", b"3"], []))
        self.assertEqual(pair.leaving.progress.queues, {"q": 3})

    def test_a_delay_that_only_this_broker_knows(self) -> None:
        """A message that waits for its redelivery is not tried earlier elsewhere."""
        pair = Leaving()
        pair.publish(b"1")
        queue = pair.a.queue("q")
        reference = queue.references.head()
        assert reference is not None
        queue.take(reference)
        queue.put_back_later(reference, START_MS + 60_000)
        pair.find()
        pair.run()
        self.assertEqual([each.scheduled for each in pair.b.queue("q").scheduled], [START_MS + 60_000])

    def test_many_scheduled_messages(self) -> None:
        pair = Leaving()
        for number in range(50):
            pair.publish(b"%d" % number, properties={KEY_SCHEDULED_DELIVERY: (LONG, START_MS + 3_600_000 - number)})
        pair.find()
        pair.run()
        self.assertEqual((pair.a.queue("q").message_count, pair.b.queue("q").scheduled.count), (0, 50))

    def test_transactions_are_no_longer_than_asked_for(self) -> None:
        pair = Leaving(ScaleDownConfiguration(commit_interval=4))
        pair.publish(*[b"%d" % number for number in range(30)])
        pair.find()
        pair.run()
        steps = [sum(entry[0] == "ack" for entry in batch) for batch in pair.a.store.log]
        self.assertEqual((sum(steps), max(steps) <= 4), (30, True))

    def test_only_so_many_are_under_way_without_a_commit_interval(self) -> None:
        self.patch(scale_down, "IN_FLIGHT_MESSAGES_MAX", 7)
        self.patch(moving, "MESSAGES_PER_TURN", 5)
        pair = Leaving()
        pair.publish(*[b"%d" % number for number in range(100)])
        pair.find()
        pair.run()
        self.assertEqual(pair.arrived(), [b"%d" % number for number in range(100)])
        self.assertLessEqual(max(sum(entry[0] == "ack" for entry in batch) for batch in pair.a.store.log), 7)

    def test_messages_of_several_addresses_in_one_queue(self) -> None:
        """Large ones among them, too: the order stays."""
        pair = Leaving()
        pair.sender.create_queue("w", "w.#", routing_type=0)
        addresses = ["w.a", "w.a", "w.b", "w.a", "w.b", "w.b", "w.a"]
        sizes = [1, 120_000, 5, 1, 120_000, 130_000, 2]
        for number, (address, size) in enumerate(zip(addresses, sizes, strict=True)):
            pair.publish(b"%03d" % number + bytes(size), address=address, routing_type=0)
        pair.find()
        pair.run()
        messages = [reference.message for reference in pair.b.queue("w").references]
        found = [(each.address, (each.large.read(0, 3) if each.large else each.decoded().body[:3])) for each in messages]
        self.assertEqual(found, [(address, b"%03d" % number) for number, address in enumerate(addresses)])

    def test_many_messages_leave_together(self) -> None:
        pair = Leaving()
        pair.publish(*[b"%d" % number for number in range(600)])
        pair.find()
        pair.run()
        steps = [sum(entry[0] == "ack" for entry in batch) for batch in pair.a.store.log]
        self.assertEqual(sum(steps), 600)
        self.assertLess(sum(step > 0 for step in steps), 10)

    def test_a_full_target_keeps_what_it_refuses_here(self) -> None:
        pair = Leaving(max_size_bytes=5_000, address_full_policy="FAIL")
        pair.publish(*[bytes([number]) * 1000 for number in range(20)])
        pair.find()
        pair.run()
        arrived, waiting = pair.arrived(), pair.waiting()
        self.assertTrue(arrived and waiting)
        self.assertEqual(arrived + waiting, [bytes([number]) * 1000 for number in range(20)])

    def test_a_target_that_is_full_while_the_next_message_waits_for_room(self) -> None:
        """The message is to another address, and the run before it is refused."""
        pair = Leaving(max_size_bytes=5_000, address_full_policy="FAIL")
        pair.sender.create_queue("w", "w.#", routing_type=0)
        pair.receiver.create_queue("w", "w.#", routing_type=0)
        bodies = [bytes([number]) * 1000 for number in range(20)]
        for body in bodies:
            pair.publish(body, address="w.a", routing_type=0)
        pair.publish(b"aside", address="w.b", routing_type=0)
        pair.find()
        begin = moving.QueueMove.run

        def begin_without_room(move: moving.QueueMove) -> object:
            pair.link.handler.link_paused()
            pair.clock.call_later(1.0, pair.link.handler.link_resumed)
            return begin(move)

        self.patch(moving.QueueMove, "run", begin_without_room)
        pair.run()
        moved, kept = ([each.message.decoded().body for each in world.queue("w").references] for world in (pair.b, pair.a))
        self.assertEqual((moved + kept, kept[-1]), ([*bodies, b"aside"], b"aside"))

    def test_a_target_that_gives_no_credits_for_one_address_gets_the_others(self) -> None:
        pair = Leaving(max_size_bytes=50_000, address_full_policy="FAIL")
        pair.sender.create_queue("z")
        bodies = [bytes([number]) * 30_000 for number in range(60)]
        pair.publish(*bodies)
        pair.publish(b"other", address="z")
        pair.find()
        pair.run(seconds=300)
        arrived, waiting = pair.arrived(), pair.waiting()
        self.assertTrue(arrived and waiting)
        self.assertEqual(arrived + waiting, bodies)
        self.assertEqual([each.queue("z").message_count for each in (pair.a, pair.b)], [0, 1])

    def test_what_is_due_before_the_link_is_back_is_known_by_the_same_id(self) -> None:
        """Also where a message of a queue with readers gets another id when it is due: the target may have it."""
        pair = Leaving()
        pair.a.messaging.readers.open(pair.a.queue("q"), "r", -1, lambda *told: None, self.fail)
        pair.stir()
        pair.publish(b"1", properties={KEY_SCHEDULED_DELIVERY: (LONG, START_MS + 300)})
        pair.find()
        pair.a.messaging.stop()
        link, queue, done = pair.link, pair.a.queue("q"), pair.leaving.run()
        while not queue.delivering:
            pair.clock.advance(0)
            link.move(1 << 20)
        pair.clock.advance(0)
        link.connection.received(bytes(link.to_broker))
        link.cut()
        pair.advance(30, step=0.1)
        self.assertTrue(done.called)
        self.assertEqual((pair.arrived(), queue.message_count), ([b"1"], 0))
