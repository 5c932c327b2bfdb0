"""Who gets messages of other members, in which order, and how many are under way."""

from __future__ import annotations

from dataclasses import replace

from mqbroker.imq.delivery import remote_consumer, remote_queue
from mqbroker.imq.delivery.remote_queue import HELD_SECONDS
from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_GROUP_ID
from mqclient.wire.properties import INT, STRING
from tests.support.broker import message_id, of_kind
from tests.unit.imq.support import HomeAndConsumer


class FilterTests(HomeAndConsumer):
    def test_each_filter_has_its_own_remote_consumer_and_gets_only_what_it_wants(self) -> None:
        red, also_red, blue = (self.consumer(filter=text) for text in ("c = 1", "c = 1", "c = 2"))
        for number, color in enumerate((1, 2, 3, 1)):
            self.publish(b"%d" % number, properties={"c": (INT, color)})
        self.assertEqual(len(self.b.remotes), 2)
        self.assertEqual((red.bodies(), also_red.bodies(), blue.bodies()), ([b"0"], [b"3"], [b"1"]))
        self.assertEqual(self.a.waiting(), [b"2"])

    def test_the_highest_priority_comes_first(self) -> None:
        self.publish(b"low", priority=1)
        self.publish(b"high", priority=8)
        self.assertEqual(self.consumer().bodies(), [b"high", b"low"])

    def test_messages_of_this_broker_and_of_others_take_turns(self) -> None:
        """What has arrived before the next message of this broker comes before it."""
        slow = self.consumer(credits=1)
        local = self.b.session()
        self.publish(b"remote 1", b"remote 2")
        local.publish(b"local 1")
        self.publish(b"remote 3")
        local.publish(b"local 2")
        slow.send(wire.FlowToken(0, 1_000_000))
        self.cluster.stir()
        self.assertEqual(slow.bodies(), [b"remote 1", b"remote 2", b"local 1", b"local 2", b"remote 3"])

    def test_a_group_stays_with_one_consumer(self) -> None:
        first, second = self.consumer(), self.consumer()
        for number in range(6):
            self.publish(b"%d" % number, properties={KEY_GROUP_ID: (STRING, f"g{number % 2}")})
        self.assertEqual((first.bodies(), second.bodies()), ([b"0", b"2", b"4"], [b"1", b"3", b"5"]))

    def test_what_waits_behind_a_busy_group_is_looked_at_once(self) -> None:
        """However much of it others take meanwhile."""
        busy = self.consumer(credits=1)
        self.publish(*(b"mine" for _ in range(5)), properties={KEY_GROUP_ID: (STRING, "g")})
        other = self.consumer(credits=1_000_000)
        looked: list[int] = []
        merge = remote_queue.merge
        self.patch(remote_queue, "merge", lambda *waiting: looked.append(sum(map(len, waiting))) or merge(*waiting))
        for number in range(3):
            self.sender.publish(b"%d" % number)
        self.cluster.stir()
        self.assertEqual((busy.bodies(), other.bodies()), ([b"mine"], [b"0", b"1", b"2"]))
        self.assertLessEqual(len(looked), 3)

    def test_browsers_and_figures_here_show_what_is_stored_here(self) -> None:
        self.publish(b"1")
        consumer = self.consumer(credits=0)
        browser = self.b.session()
        browser.consume(browse_only=True)
        self.cluster.stir()
        self.assertEqual((browser.received(), self.b.count(), len(consumer.received())), ([], 0, 0))

    def test_queues_that_give_nothing_away_have_no_remote_consumers(self) -> None:
        session = self.b.session()
        session.create_queue("keeps", non_destructive=True)
        session.consume("keeps")
        self.cluster.stir()
        self.assertEqual(self.b.remotes, [])

    def test_a_large_message(self) -> None:
        self.sender.begin_large()
        self.sender.chunk(b"x" * 300_000, 300_000)
        consumer = self.consumer()
        packets = consumer.take()
        self.assertEqual(b"".join(each.chunk for each in of_kind(packets, wire.SessionReceiveContinuation)), b"x" * 300_000)
        (large,) = of_kind(packets, wire.SessionReceiveLarge)
        (body,) = self.b.store.bodies.values()
        (reference,) = next(iter(self.b.remotes)).unsettled.values()
        consumer.send(wire.Acknowledge(0, reference.message.message_id, False))
        self.cluster.stir()
        self.assertEqual((self.a.count(), large.large_message_size), (0, 300_000))
        self.assertEqual(body.holders, 0)


class WindowTests(HomeAndConsumer):
    def test_so_many_are_under_way_and_no_more(self) -> None:
        self.publish(*(b"%d" % number for number in range(50)))
        self.consumer(credits=1)
        self.assertEqual(len(self.a.waiting()), 50 - 8)

    def test_the_window_grows_up_to_the_limit_as_messages_are_taken(self) -> None:
        self.publish(*(b"%d" % number for number in range(3000)))
        consumer = self.consumer()
        self.assertEqual(len(consumer.received()), 3000)
        self.assertEqual(self.b.remotes[0].window, 1000)

    def test_what_nobody_takes_goes_back_for_others(self) -> None:
        self.publish(*(b"%d" % number for number in range(20)))
        slow = self.consumer(credits=1)
        self.assertEqual(slow.bodies(), [b"0"])
        self.cluster.advance(HELD_SECONDS + 0.5)
        self.assertEqual(self.a.waiting(), [b"%d" % number for number in range(1, 20)])
        slow.send(wire.FlowToken(0, 1_000_000))
        self.cluster.stir()
        self.assertEqual(slow.bodies(), [b"%d" % number for number in range(1, 20)])

    def test_what_is_under_way_then_goes_back_too(self) -> None:
        """It would come before what has gone back."""
        slow = self.consumer(credits=1)
        self.publish(b"1", b"2", b"3")
        self.sender.publish(b"4")
        self.cluster.clock.advance(HELD_SECONDS)
        self.sender.publish(b"5")
        slow.send(wire.FlowToken(0, 1_000_000))
        self.cluster.stir()
        self.publish(b"6")
        self.assertEqual(slow.bodies(), [b"1", b"2", b"3", b"4", b"5", b"6"])

    def test_it_is_so_when_the_last_consumer_goes_and_another_one_comes(self) -> None:
        self.publish(b"0")
        holder = self.b.session(auto_commit_acks=False)
        holder.consume()
        self.cluster.stir()
        holder.send(wire.Acknowledge(0, message_id(holder.received()[0]), False))
        holder.send(wire.FlowToken(0, 0))
        self.publish(b"1", b"2")
        self.sender.publish(b"3")
        holder.send(wire.ConsumerClose(0))
        again = self.b.session()
        again.consume()
        self.cluster.stir()
        self.publish(b"4")
        self.assertEqual(again.bodies(), [b"1", b"2", b"3", b"4"])

    def test_a_slow_client_does_not_keep_messages_from_a_fast_one(self) -> None:
        self.consumer(credits=1)
        fast = self.a.session()
        fast.consume()
        self.publish(*(b"%d" % number for number in range(100)))
        self.cluster.advance(HELD_SECONDS + 0.5)
        self.assertGreaterEqual(len(fast.received()), 98)

    def test_a_backlog_of_this_broker_keeps_nobody_waiting_for_ever(self) -> None:
        """Though it lasts longer than messages wait here."""
        consumer = self.consumer(credits=1)
        local = self.b.session()
        for _ in range(100):
            local.publish(b"own")
        self.publish(b"remote 1", b"remote 2")
        for _ in range(20):
            self.cluster.advance(0.4 * HELD_SECONDS)
            consumer.send(wire.FlowToken(0, 400))
        self.cluster.stir()
        bodies = consumer.bodies()
        self.assertEqual([body for body in bodies if body != b"own"], [b"remote 1", b"remote 2"])
        self.assertGreater(bodies.count(b"own"), 10)

    def test_so_many_bytes_are_under_way(self) -> None:
        self.patch(remote_consumer, "WINDOW_BYTES_MAX", 20_000)
        consumer = self.consumer()
        self.publish(*(b"x" * 5000 for _ in range(20)))
        self.assertEqual(len(consumer.received()), 20)
        consumer.send(wire.FlowToken(0, 0))
        slow = self.consumer(credits=1)
        consumer.send(wire.ConsumerClose(0))
        self.cluster.stir()
        self.publish(*(b"x" * 5000 for _ in range(20)))
        self.assertEqual(len(slow.received()), 1)
        self.assertLessEqual(20 - 1 - len(self.a.waiting()), 5)

    def test_the_limit_of_an_address_counts(self) -> None:
        address = self.b.world.queue("q").address
        self.patch(address, "settings", replace(address.settings, consumer_flow_limit=3))
        self.publish(*(b"%d" % number for number in range(10)))
        self.consumer(credits=1)
        self.assertEqual(len(self.a.waiting()), 7)
