"""Delivery when the head of the queue has expired and somebody is busy."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

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
