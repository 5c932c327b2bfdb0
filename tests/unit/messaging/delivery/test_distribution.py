"""Who gets a message, and in which order."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire.message import (
    KEY_SCHEDULED_DELIVERY,
)
from mqclient.wire.properties import LONG
from tests.support.clock import START_MS
from tests.unit.messaging.support import Bench, Collector


class DeliveryTests(SynchronousTestCase):
    def test_a_durable_message_is_seen_only_when_it_is_stored(self) -> None:
        bench = Bench()
        consumer = Collector(bench, bench.queue("q"))
        bench.store.held = True
        bench.send(b"one")
        self.assertEqual(consumer.bodies, [])
        bench.store.sync()
        bench.turn()
        self.assertEqual(consumer.bodies, [b"one"])

    def test_a_non_durable_message_waits_behind_an_earlier_durable_one(self) -> None:
        bench = Bench()
        consumer = Collector(bench, bench.queue("q"))
        bench.store.held = True
        bench.send(b"durable")
        bench.send(b"fleeting", durable=False)
        self.assertEqual(consumer.bodies, [])
        bench.store.sync()
        bench.turn()
        self.assertEqual(consumer.bodies, [b"durable", b"fleeting"])

    def test_consumers_share_in_turn_and_the_busy_one_is_passed_over(self) -> None:
        bench = Bench()
        queue = bench.queue("q")
        first, second, full = Collector(bench, queue), Collector(bench, queue), Collector(bench, queue, room=1)
        for number in range(6):
            bench.send(str(number).encode())
        self.assertEqual(len(full.references), 1)
        self.assertEqual(sorted(first.bodies + second.bodies + full.bodies), [str(number).encode() for number in range(6)])
        self.assertLessEqual(abs(len(first.references) - len(second.references)), 1)

    def test_a_lower_consumer_priority_gets_what_the_higher_cannot_take(self) -> None:
        bench = Bench()
        queue = bench.queue("q")
        low, high = Collector(bench, queue, priority=0), Collector(bench, queue, priority=5, room=2)
        for _ in range(3):
            bench.send()
        self.assertEqual((len(high.references), len(low.references)), (2, 1))

    def test_a_filter_takes_only_what_matches_and_leaves_the_rest(self) -> None:
        bench = Bench()
        queue = bench.queue("q")
        for number in range(4):
            bench.send(str(number).encode(), properties={"n": (LONG, number)})
        even = Collector(bench, queue, "n = 0 OR n = 2")
        self.assertEqual(even.bodies, [b"0", b"2"])
        self.assertEqual(queue.message_count, 4)
        bench.send(b"4", properties={"n": (LONG, 2)})
        self.assertEqual(even.bodies, [b"0", b"2", b"4"])
        rest = Collector(bench, queue)
        self.assertEqual(rest.bodies, [b"1", b"3"])

    def test_dispatch_waits_for_enough_consumers_or_for_the_delay(self) -> None:
        bench = Bench()
        queue = bench.queue("q", consumers_before_dispatch=2, delay_before_dispatch=500)
        bench.send(b"m")
        first = Collector(bench, queue)
        self.assertEqual(first.bodies, [])
        bench.clock.advance(0.5)
        bench.turn()
        self.assertEqual(first.bodies, [b"m"])

    def test_a_scheduled_message_comes_at_its_time_and_before_those_that_wait(self) -> None:
        bench = Bench()
        queue = bench.queue("q")
        bench.send(b"later", properties={KEY_SCHEDULED_DELIVERY: (LONG, START_MS + 2000)})
        bench.send(b"now")
        self.assertEqual((queue.message_count, queue.scheduled.count), (2, 1))
        self.assertEqual(bench.store.entries("schedule")[0][3], START_MS + 2000)
        bench.clock.advance(2)
        consumer = Collector(bench, queue)
        self.assertEqual(consumer.bodies, [b"later", b"now"])

    def test_a_schedule_in_the_past_does_not_delay(self) -> None:
        bench = Bench()
        consumer = Collector(bench, bench.queue("q"))
        bench.send(b"m", properties={KEY_SCHEDULED_DELIVERY: (LONG, START_MS - 1)})
        self.assertEqual(consumer.bodies, [b"m"])
