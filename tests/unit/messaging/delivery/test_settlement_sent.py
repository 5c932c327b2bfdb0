"""Settlement of messages that were sent, over a store that the test syncs by hand."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.administration import reapers
from mqbroker.messaging.queues.references import ReferenceList
from mqclient.wire.message import (
    KEY_ACTUAL_EXPIRY,
    KEY_ORIGINAL_ADDRESS,
    KEY_ORIGINAL_QUEUE,
)
from tests.support.clock import START_MS
from tests.unit.messaging.support import Bench, Collector


class SettlementTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench(
            {"q": {"max_delivery_attempts": 3, "dead_letter_address": "DLQ", "expiry_address": "EXP"}, "slow": {"redelivery_delay": 1000}}
        )
        self.settlement = self.bench.messaging.settlement

    def test_acknowledging_the_last_reference_frees_the_memory(self) -> None:
        first, second = self.bench.queue("s1", "news", 0), self.bench.queue("s2", "news", 0)
        one, two = Collector(self.bench, first), Collector(self.bench, second)
        self.bench.send(address="news", routing_type=0)
        memory = self.bench.core.addresses["news"].memory
        self.assertEqual(memory.messages, 1)
        self.settlement.acknowledge(one.references)
        self.assertEqual(memory.messages, 1)
        self.settlement.acknowledge(two.references)
        self.assertEqual((memory.messages, memory.size, self.bench.core.global_memory.size), (0, 0, 0))
        self.assertEqual(len(self.bench.store.entries("ack")), 2)

    def test_redelivery_keeps_the_order_and_counts(self) -> None:
        queue = self.bench.queue("q")
        consumer = Collector(self.bench, queue, room=3)
        for number in range(4):
            self.bench.send(str(number).encode())
        taken, consumer.references = consumer.references, []
        self.settlement.redeliver(taken)
        consumer.give_room(4)
        self.assertEqual(consumer.bodies, [b"0", b"1", b"2", b"3"])
        self.assertEqual([reference.delivery_count for reference in consumer.references], [2, 2, 2, 1])
        self.assertEqual({entry[3] for entry in self.bench.store.entries("count")}, {1})

    def test_cancelled_deliveries_do_not_count(self) -> None:
        consumer = Collector(self.bench, self.bench.queue("q"), room=1)
        self.bench.send()
        taken, consumer.references = consumer.references, []
        self.settlement.cancel(taken)
        consumer.give_room(1)
        self.assertEqual(consumer.references[0].delivery_count, 1)

    def test_too_many_attempts_end_at_the_dead_letter_address_as_one_step(self) -> None:
        dead = Collector(self.bench, self.bench.queue("DLQ"))
        queue = self.bench.queue("q")
        consumer = Collector(self.bench, queue)
        self.bench.send(b"bad")
        for _ in range(3):
            taken, consumer.references = consumer.references, []
            self.settlement.redeliver(taken)
            self.bench.turn()
        self.assertEqual(consumer.references, [])
        self.assertEqual(dead.bodies, [b"bad"])
        copy = dead.references[0].message
        self.assertEqual((copy.property(KEY_ORIGINAL_ADDRESS), copy.property(KEY_ORIGINAL_QUEUE)), ("q", "q"))
        self.assertEqual((queue.messages_killed, queue.message_count), (1, 0))
        steps = [batch for batch in self.bench.store.log if any(entry[0] == "ack" for entry in batch)]
        self.assertEqual(sorted(entry[0] for entry in steps[-1]), ["ack", "message"])

    def test_redelivery_delay_and_its_growth(self) -> None:
        consumer = Collector(self.bench, self.bench.queue("slow"))
        self.bench.send(address="slow")
        taken, consumer.references = consumer.references, []
        self.settlement.redeliver(taken)
        self.bench.turn()
        self.assertEqual(consumer.references, [])
        self.bench.clock.advance(1)
        self.bench.turn()
        self.assertEqual(consumer.references[0].delivery_count, 2)

    def test_an_expired_message_goes_to_the_expiry_address_when_its_turn_comes(self) -> None:
        expired = Collector(self.bench, self.bench.queue("EXP"))
        queue = self.bench.queue("q")
        self.bench.send(b"old", expiration=START_MS + 10)
        self.bench.clock.advance(1)
        consumer = Collector(self.bench, queue)
        self.assertEqual(consumer.references, [])
        self.assertEqual(expired.bodies, [b"old"])
        message = expired.references[0].message
        self.assertEqual((message.expiration, message.property(KEY_ACTUAL_EXPIRY)), (0, START_MS + 1000))
        self.assertEqual(queue.messages_expired, 1)

    def test_the_reaper_expires_what_nobody_asks_for(self) -> None:
        expired = Collector(self.bench, self.bench.queue("EXP"))
        self.bench.queue("q")
        self.bench.messaging.start()
        self.bench.send(b"old", expiration=START_MS + 10)
        self.bench.clock.advance(31)
        self.assertEqual(expired.bodies, [b"old"])
        self.bench.messaging.stop()
        self.assertEqual(self.bench.clock.pending, 0)

    def test_the_reaper_looks_again_only_at_queues_where_something_may_expire(self) -> None:
        expired = Collector(self.bench, self.bench.queue("EXP"))
        queue = self.bench.queue("q")
        self.bench.messaging.start()
        self.bench.send(b"lasting")
        self.bench.clock.advance(31)
        searches: list[object] = []
        search = ReferenceList.search

        def counted(*args: Any) -> Any:
            searches.append(args)
            return search(*args)

        self.patch(ReferenceList, "search", counted)
        self.bench.clock.advance(31)
        self.assertEqual(searches, [])
        consumer = Collector(self.bench, queue)
        self.bench.send(b"old", expiration=START_MS + 70_000)
        consumer.leave()
        self.bench.clock.advance(31)
        self.assertEqual(expired.bodies, [])
        self.settlement.redeliver(consumer.references)
        self.bench.clock.advance(31)
        self.assertEqual(expired.bodies, [b"old"])
        self.assertTrue(searches)
        self.bench.messaging.stop()

    def test_a_scan_that_is_stopped_on_its_way_leaves_nothing_out_the_next_time(self) -> None:
        expired = Collector(self.bench, self.bench.queue("EXP"))
        self.bench.queue("q")
        self.patch(reapers, "REFERENCES_PER_STEP", 1)
        self.bench.send(b"lasting")
        self.bench.send(b"old", expiration=START_MS + 10)
        reaper = self.bench.messaging.expiry_reaper
        reaper.scan()
        self.assertEqual(expired.bodies, [])
        reaper.stop()
        self.bench.clock.advance(1)
        reaper.scan()
        self.bench.clock.advance(1)
        self.assertEqual(expired.bodies, [b"old"])

    def test_returned_messages_of_a_deleted_queue_are_let_go(self) -> None:
        queue = self.bench.queue("q")
        consumer = Collector(self.bench, queue)
        self.bench.send()
        self.bench.messaging.administration.delete_queue(queue, remove_consumers=True)
        self.assertTrue(consumer.deleted)
        self.settlement.redeliver(consumer.references)
        self.assertEqual(self.bench.core.global_memory.messages, 0)
