"""Delivery when the head of the queue has expired and somebody is busy."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.turns.turn import SCAN_SECONDS
from tests.unit.messaging.support import Bench, Collector


class ExpiredHeadTests(SynchronousTestCase):
    def test_an_expired_message_at_the_head_does_not_stall_a_ready_consumer_beside_a_busy_one(self) -> None:
        bench = Bench()
        queue = bench.queue("q")
        Collector(bench, queue, room=0)
        ready = Collector(bench, queue, room=0)
        bench.send(b"expired", expiration=bench.clock.wall_ms() + 10)
        bench.send(b"good")
        bench.clock.advance(1)
        ready.give_room(5)
        self.assertEqual(ready.bodies, [b"good"])

    def test_many_of_them_that_take_long_give_others_their_turn(self) -> None:
        """Each may be copied to an expiry address, which costs more than to look at one."""
        for attributes in ({}, {"exclusive": True}):
            bench = Bench()
            queue = bench.queue("q", **attributes)
            for _ in range(100):
                bench.send(b"expired", expiration=bench.clock.wall_ms() + 10)
            bench.clock.advance(1)

            def takes_long(reference: Reference, bench: Bench = bench) -> None:
                bench.clock.seconds += SCAN_SECONDS / 20

            bench.core.expired.subscribe(takes_long)
            Collector(bench, queue)
            self.assertTrue(40 <= queue.message_count < 100, queue.message_count)
            bench.clock.advance(0.1)
            self.assertEqual(queue.message_count, 0)

    def test_the_end_of_the_budget_changes_no_priority_of_consumers(self) -> None:
        for count in range(40):
            bench = Bench()
            queue = bench.queue("q")
            for _ in range(count):
                bench.send(b"expired", expiration=bench.clock.wall_ms() + 10)
            bench.send(b"good")
            bench.clock.advance(1)

            def takes_long(reference: Reference, bench: Bench = bench) -> None:
                bench.clock.seconds += SCAN_SECONDS

            bench.core.expired.subscribe(takes_long)
            high, low = (Collector(bench, queue, priority=priority, room=0) for priority in (9, 1))
            low.room, low.ready = 5, True
            high.give_room(5)
            bench.clock.advance(1)
            self.assertEqual((high.bodies, low.bodies, queue.messages_expired), ([b"good"], [], count))

    def test_an_expired_message_at_the_end_of_the_budget(self) -> None:
        """Nobody looks on in this turn."""
        bench = Bench()
        queue = bench.queue("q", non_destructive=True)
        bench.send(b"expired", expiration=bench.clock.wall_ms() + 10)
        for _ in range(50):
            bench.send(b"other")
        bench.clock.advance(1)
        looked_at: list[int] = []

        class Filter:
            text = ""

            def matches(self, message: Message) -> bool:
                looked_at.append(message.message_id)
                return bool(message.expiration)

        taker = Collector(bench, queue, room=0)
        taker.filter = Filter()  # type: ignore[assignment]
        turn = bench.core.turn
        turn.scan.take()
        turn.scan.left = 1
        turn.run(taker.give_room, 5)
        self.assertEqual((len(looked_at), queue.messages_expired), (1, 1))
        bench.clock.advance(0.1)
        self.assertEqual(len(looked_at), 51)
