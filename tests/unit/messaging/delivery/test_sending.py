"""Sending, routing, delivery and settlement over a store that the test syncs by hand."""

from __future__ import annotations

from typing import Any

from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.messaging.administration import reapers
from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.queues.references import ReferenceList
from mqclient.errors import (
    AddressDoesNotExistError,
    AddressFullError,
    DuplicateIdRejectedError,
    IllegalStateError,
    InvalidTransientQueueUseError,
    QueueExistsError,
)
from mqclient.wire.message import (
    KEY_ACTUAL_EXPIRY,
    KEY_DUPLICATE_ID,
    KEY_ORIGINAL_ADDRESS,
    KEY_ORIGINAL_QUEUE,
    KEY_SCHEDULED_DELIVERY,
)
from mqclient.wire.properties import BYTES, LONG, STRING
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


class RoutingTests(SynchronousTestCase):
    def test_multicast_gives_every_queue_a_copy_and_anycast_one(self) -> None:
        bench = Bench()
        topics = [bench.queue(name, "news", 0) for name in ("s1", "s2")]
        shared = [bench.queue(name, "work", 1) for name in ("w1", "w2")]
        bench.send(address="news", routing_type=0)
        for _ in range(4):
            bench.send(address="work", routing_type=1)
        self.assertEqual([queue.message_count for queue in topics], [1, 1])
        self.assertEqual([queue.message_count for queue in shared], [2, 2])

    def test_anycast_prefers_a_queue_with_a_consumer(self) -> None:
        bench = Bench()
        bench.queue("w1", "work", 1)
        consumer = Collector(bench, bench.queue("w2", "work", 1))
        for _ in range(3):
            bench.send(address="work")
        self.assertEqual(len(consumer.references), 3)

    def test_the_routing_type_of_the_message_selects_the_queues(self) -> None:
        bench = Bench()
        any_queue, many_queue = bench.queue("a", "both", 1), bench.queue("m", "both", 0)
        bench.send(address="both", routing_type=1)
        bench.send(address="both", routing_type=0)
        bench.send(address="both", routing_type=None)
        self.assertEqual((any_queue.message_count, many_queue.message_count), (2, 2))

    def test_a_qualified_name_reaches_that_queue_alone(self) -> None:
        bench = Bench()
        queues = [bench.queue(name, "news", 0) for name in ("s1", "s2")]
        bench.send(address="news", queue="s2", routing_type=None)
        self.assertEqual([queue.message_count for queue in queues], [0, 1])

    def test_wildcard_queues_receive_from_matching_addresses(self) -> None:
        bench = Bench()
        one, many = bench.queue("one", "news.*", 0), bench.queue("many", "news.#", 0)
        bench.send(address="news.europe", routing_type=0)
        bench.send(address="news.europe.sport", routing_type=0)
        bench.send(address="news", routing_type=0)
        self.assertEqual((one.message_count, many.message_count), (1, 3))

    def test_queue_filters_decide_at_routing(self) -> None:
        bench = Bench()
        queue = bench.queue("s", "news", 0, filter_string="colour = 'red'")
        bench.send(address="news", routing_type=0, properties={"colour": (STRING, "blue")})
        bench.send(address="news", routing_type=0, properties={"colour": (STRING, "red")})
        self.assertEqual(queue.message_count, 1)
        self.assertEqual(bench.core.addresses["news"].unrouted_messages, 1)

    def test_a_disabled_queue_gets_nothing_new(self) -> None:
        bench = Bench()
        queue = bench.queue("q")
        bench.messaging.administration.update_queue(queue, enabled=False)
        bench.send()
        self.assertEqual(queue.message_count, 0)

    def test_a_message_without_route_goes_to_the_dead_letter_address_where_configured(self) -> None:
        bench = Bench({"#": {"send_to_dla_on_no_route": True, "dead_letter_address": "DLQ"}})
        dead = Collector(bench, bench.queue("DLQ"))
        bench.messaging.administration.create_address("lonely", (0,))
        bench.send(b"m", address="lonely", routing_type=0)
        self.assertEqual(dead.bodies, [b"m"])
        self.assertEqual(dead.references[0].message.property(KEY_ORIGINAL_ADDRESS), "lonely")


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


class TransactionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench()
        self.queue = self.bench.queue("q")

    def test_sends_and_acknowledgements_become_visible_together(self) -> None:
        consumer = Collector(self.bench, self.queue)
        self.bench.send(b"in")
        transaction = Transaction()
        transaction.acknowledged.extend(consumer.references)
        self.bench.send(b"out", transaction=transaction)
        self.assertEqual(consumer.bodies, [b"in"])
        self.bench.store.held = True
        before = len(self.bench.store.log)
        self.bench.messaging.settlement.commit(transaction, self.bench.context)
        self.bench.turn()
        self.assertEqual([entry[0] for entry in self.bench.store.log[before]], ["message", "ack"])
        self.assertEqual(consumer.bodies, [b"in"])
        self.bench.store.sync()
        self.bench.turn()
        self.assertEqual(consumer.bodies, [b"in", b"out"])

    def test_rollback_undoes_sends_and_gives_back(self) -> None:
        consumer = Collector(self.bench, self.queue, room=1)
        self.bench.send(b"in")
        transaction = Transaction()
        transaction.acknowledged.extend(consumer.references)
        self.bench.send(b"out", transaction=transaction)
        self.bench.messaging.settlement.rollback(transaction)
        consumer.references = []
        consumer.give_room(9)
        self.assertEqual(consumer.bodies, [b"in"])
        self.assertEqual(consumer.references[0].delivery_count, 2)
        self.assertEqual(self.bench.core.global_memory.messages, 1)

    def test_a_commit_of_a_failed_transaction_raises_its_cause(self) -> None:
        transaction = Transaction()
        self.bench.send(b"out", transaction=transaction)
        transaction.mark_rollback_only(AddressFullError("full"))
        with self.assertRaises(AddressFullError):
            self.bench.messaging.settlement.commit(transaction, self.bench.context)
        self.assertEqual(self.queue.message_count, 0)


class DuplicateTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench({"tiny": {"id_cache_size": 2}})
        self.queue = self.bench.queue("q")

    def _send(self, value: bytes | str, address: str = "q", transaction: Transaction | None = None) -> int:
        kind = STRING if isinstance(value, str) else BYTES
        return self.bench.send(address=address, transaction=transaction, properties={KEY_DUPLICATE_ID: (kind, value)})

    def test_a_known_id_is_dropped_and_the_sender_waits_for_the_first(self) -> None:
        self.bench.store.held = True
        first = self._send("a")
        second = self._send("a")
        self.assertGreaterEqual(second, first)
        self.bench.store.sync()
        self.bench.turn()
        self.assertEqual(self.queue.message_count, 1)

    def test_a_text_is_compared_by_its_utf16_bytes(self) -> None:
        self._send("a")
        self._send(b"a\x00")
        self._send(b"a")
        self.assertEqual(self.queue.message_count, 2)

    def test_the_oldest_id_is_forgotten_when_the_cache_is_full(self) -> None:
        queue = self.bench.queue("tiny")
        for value in ("1", "2", "3", "1"):
            self._send(value, "tiny")
        self.assertEqual(queue.message_count, 4)
        self.assertEqual(len(self.bench.store.entries("forget duplicate")), 2)

    def test_in_a_transaction_the_commit_fails(self) -> None:
        self._send("a")
        transaction = Transaction()
        self._send("a", transaction=transaction)
        with self.assertRaises(DuplicateIdRejectedError):
            self.bench.messaging.settlement.commit(transaction, self.bench.context)

    def test_ids_of_a_transaction_count_from_its_commit(self) -> None:
        transaction = Transaction()
        self._send("a", transaction=transaction)
        self._send("a", transaction=transaction)
        self.bench.messaging.settlement.commit(transaction, self.bench.context)
        self.bench.turn()
        self.assertEqual(self.queue.message_count, 2)
        self._send("a")
        self.assertEqual(self.queue.message_count, 2)


class LimitTests(SynchronousTestCase):
    def test_fail_refuses_and_drop_drops(self) -> None:
        bench = Bench(
            {"f": {"max_size_bytes": 1000, "address_full_policy": "FAIL"}, "d": {"max_size_bytes": 1000, "address_full_policy": "DROP"}}
        )
        bench.queue("f")
        dropping = bench.queue("d")
        for _ in range(3):
            bench.send(bytes(400), "d")
        with self.assertRaises(AddressFullError):
            for _ in range(3):
                bench.send(bytes(400), "f")
        self.assertEqual(dropping.message_count, 2)

    def test_block_withholds_credits_until_there_is_room(self) -> None:
        bench = Bench({"b": {"max_size_bytes": 600, "address_full_policy": "BLOCK"}})
        consumer = Collector(bench, bench.queue("b"))
        memory = bench.core.addresses["b"].memory
        granted: list[str] = []
        bench.send(bytes(400), "b")
        self.assertFalse(memory.when_free(lambda: granted.append("a")))
        memory.when_free(lambda: granted.append("b"))
        self.assertEqual(granted, [])
        bench.messaging.settlement.acknowledge(consumer.references)
        self.assertEqual(granted, ["a", "b"])

    def test_the_global_limit_makes_every_address_wait(self) -> None:
        bench = Bench({"#": {"address_full_policy": "BLOCK"}}, global_max_size=600)
        consumer = Collector(bench, bench.queue("x"))
        bench.queue("y")
        granted: list[str] = []
        bench.send(bytes(400), "x")
        bench.core.addresses["y"].memory.when_free(lambda: granted.append("y"))
        self.assertEqual(granted, [])
        bench.messaging.settlement.acknowledge(consumer.references)
        self.assertEqual(granted, ["y"])


class AdministrationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench({"closed": {"auto_create_addresses": False, "auto_create_queues": False}})
        self.administration = self.bench.messaging.administration

    def _auto(self, address: str, routing_type: int | None, queue: str | None = None) -> None:
        self.administration.auto_create_for_send(address, routing_type, queue, lambda *permission: None)

    def test_a_queue_name_is_unique_in_the_broker(self) -> None:
        self.bench.queue("q", "a")
        with self.assertRaises(QueueExistsError):
            self.bench.queue("q", "b")

    def test_sending_creates_what_the_routing_type_needs(self) -> None:
        self._auto("work", 1)
        self._auto("news", 0)
        self._auto("nothing", None)
        self.assertTrue(self.bench.core.queues["work"].definition.auto_created)
        self.assertEqual(set(self.bench.core.addresses), {"work", "news"})
        self.assertEqual(set(self.bench.core.queues), {"work"})

    def test_nothing_is_created_where_it_is_forbidden(self) -> None:
        with self.assertRaises(AddressDoesNotExistError):
            self._auto("closed", 1)

    def test_a_missing_permission_stops_auto_creation(self) -> None:
        def refuse(permission: str, address: str, queue: str | None) -> None:
            raise IllegalStateError(permission)

        with self.assertRaises(IllegalStateError):
            self.administration.auto_create_for_send("work", 1, None, refuse)
        self.assertEqual(self.bench.core.addresses, {})

    def test_a_shared_queue_must_be_the_same(self) -> None:
        first = QueueConfiguration(name="s", address="news", routing_type=0, filter_string="a = 1")
        queue = self.administration.create_shared_queue(first)
        self.assertIs(self.administration.create_shared_queue(first), queue)
        with self.assertRaises(InvalidTransientQueueUseError):
            self.administration.create_shared_queue(QueueConfiguration(name="s", address="other", filter_string="a = 1"))
        with self.assertRaises(InvalidTransientQueueUseError):
            self.administration.create_shared_queue(QueueConfiguration(name="s", address="news", filter_string="a = 2"))

    def test_a_queue_with_consumers_is_not_deleted(self) -> None:
        queue = self.bench.queue("q")
        consumer = Collector(self.bench, queue)
        with self.assertRaises(IllegalStateError):
            self.administration.delete_queue(queue)
        consumer.leave()
        self.administration.delete_queue(queue)
        self.assertEqual(self.bench.core.queues, {})

    def test_a_dropped_routing_type_must_have_no_queues(self) -> None:
        self.bench.queue("q", "a", 1)
        with self.assertRaises(IllegalStateError):
            self.administration.create_address("a", (0,))


class ReaperTests(SynchronousTestCase):
    def test_an_unused_auto_created_queue_goes_at_the_second_scan(self) -> None:
        bench = Bench()
        bench.messaging.start()
        queue = bench.queue("q", auto_created=True)
        Collector(bench, queue).leave()
        bench.clock.advance(31)
        self.assertIn("q", bench.core.queues)
        bench.clock.advance(30)
        self.assertNotIn("q", bench.core.queues)
        bench.clock.advance(60)
        self.assertNotIn("q", bench.core.addresses)

    def test_the_log_names_each_queue_and_address_that_is_removed_because_nobody_uses_it(self) -> None:
        bench = Bench()
        bench.messaging.start()
        with capturedLogs() as events:
            Collector(bench, bench.queue("q", auto_created=True)).leave()
            bench.clock.advance(121)
        told = [formatEvent(event) for event in events if event["log_namespace"] == "mqbroker"]
        self.assertEqual(told, ["AMQ224113: q was not in use and has been removed"] * 2)

    def test_what_is_in_use_or_was_never_used_stays(self) -> None:
        bench = Bench()
        bench.messaging.start()
        Collector(bench, bench.queue("used", auto_created=True))
        bench.queue("unused", auto_created=True)
        bench.queue("explicit")
        busy = bench.queue("full", auto_created=True)
        Collector(bench, busy, room=0).leave()
        bench.send(address="full")
        bench.clock.advance(200)
        self.assertEqual(set(bench.core.queues), {"used", "unused", "explicit", "full"})

    def test_settings_that_forbid_auto_delete_are_obeyed(self) -> None:
        bench = Bench({"#": {"auto_delete_queues": False}})
        bench.messaging.start()
        Collector(bench, bench.queue("q", auto_created=True)).leave()
        bench.clock.advance(200)
        self.assertIn("q", bench.core.queues)
