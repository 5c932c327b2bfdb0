"""Dead letters, expiry, moves and returns in the cases where something is missing or odd."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.address_settings import AddressSettings
from mqbroker.messaging.delivery.settlement import redelivery_delay
from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.queues.references import Reference, ReferenceList
from mqclient.errors import MalformedPacketError
from mqclient.wire.message import KEY_ROUTING_TYPE
from mqclient.wire.properties import LONG, STRING, TypedValue
from tests.forms import pure_only
from tests.support.clock import START_MS
from tests.unit.messaging.support import Bench, Collector


def damage_properties(bench: Bench, address: str) -> Any:
    """A message whose property table is cut off: it announces one entry and holds none."""
    message = bench.message(b"poison", address, routing_type=None, properties={"a": (LONG, 1)})
    at = message.properties_offset
    message.buffer = message.buffer[: at + 1] + struct.pack(">i", 1)
    message._properties = None
    return message


class DeadLetterTests(SynchronousTestCase):
    def test_a_dead_letter_address_that_only_a_wildcard_queue_is_bound_to_takes_dead_letters(self) -> None:
        bench = Bench({"q": {"max_delivery_attempts": 1, "dead_letter_address": "dead.q"}})
        queue = bench.queue("q")
        graves = bench.queue("graves", "dead.#", 0)
        consumer = Collector(bench, queue)
        bench.send(b"x")
        consumer.ready = False
        bench.messaging.settlement.redeliver(consumer.references)
        self.assertEqual((queue.message_count, graves.message_count), (0, 1))

    def test_unroutable_messages_reach_a_dead_letter_address_that_only_a_wildcard_queue_is_bound_to(self) -> None:
        bench = Bench({"q": {"send_to_dla_on_no_route": True, "dead_letter_address": "dead.q"}})
        bench.messaging.administration.create_address("q", (1,))
        graves = bench.queue("graves", "dead.#", 0)
        bench.send(b"x")
        self.assertEqual(graves.message_count, 1)

    def test_dead_letter_resources_are_made_although_clients_may_not_create_addresses(self) -> None:
        settings = {
            "#": {
                "max_delivery_attempts": 1,
                "dead_letter_address": "DLQ",
                "auto_create_dead_letter_resources": True,
                "auto_create_addresses": False,
            }
        }
        bench = Bench(settings)
        for name in ("q", "DLQ"):
            bench.messaging.administration.create_address(name, (1,))
            bench.queue(name)
        queue = bench.core.queues["q"]
        consumer = Collector(bench, queue)
        for body in (b"a", b"b"):
            bench.send(body)
        consumer.ready = False
        bench.messaging.settlement.redeliver(consumer.references)
        self.assertEqual(queue.message_count, 0)
        self.assertEqual(bench.core.queues["DLQ.q"].message_count, 2)

    def test_dead_letter_resources_of_a_message_to_a_fully_qualified_name_are_those_of_its_address(self) -> None:
        settings = {"max_delivery_attempts": 1, "dead_letter_address": "DLQ", "auto_create_dead_letter_resources": True}
        bench = Bench({"#": settings})
        consumer = Collector(bench, bench.queue("q", "a"))
        for name in ("a", "a::q"):
            bench.messaging.sending.send(bench.message(b"x", name), "a", "q", 1, bench.context)
        bench.turn()
        consumer.ready = False
        bench.messaging.settlement.redeliver(consumer.references)
        self.assertEqual({queue.name: queue.message_count for queue in bench.core.queues.values()}, {"q": 0, "DLQ.a": 2})

    def test_a_message_whose_routing_type_is_none_goes_to_the_dead_letter_and_expiry_addresses_as_others(self) -> None:
        bench = Bench({"q": {"max_delivery_attempts": 1, "dead_letter_address": "DLQ", "expiry_address": "DLQ"}})
        queue, letters = bench.queue("q"), bench.queue("DLQ")
        consumer = Collector(bench, queue)
        odd: dict[str, TypedValue] = {KEY_ROUTING_TYPE: (STRING, "ANYCAST")}
        bench.send(b"odd", properties=odd, routing_type=None)
        bench.send(b"good")
        consumer.leave()
        bench.messaging.settlement.redeliver(consumer.references)
        self.assertEqual((letters.message_count, queue.delivering), (2, 0))
        for _ in range(2):
            bench.send(b"late", properties=odd, routing_type=None, expiration=bench.clock.wall_ms() + 10)
        bench.clock.advance(1)
        bench.messaging.expiry_reaper.scan()
        self.assertEqual((letters.message_count, queue.message_count), (4, 0))

    def test_one_damaged_message_does_not_keep_the_others_from_coming_back(self) -> None:
        bench = Bench({"q": {"max_delivery_attempts": 1, "dead_letter_address": "DLQ"}})
        queue = bench.queue("q")
        letters = bench.queue("DLQ")
        consumer = Collector(bench, queue)
        bench.send(b"first")
        bench.send_message(damage_properties(bench, "q"))
        bench.send(b"last")
        self.assertEqual(len(consumer.references), 3)
        consumer.ready = False
        bench.messaging.settlement.redeliver(consumer.references)
        self.assertEqual((queue.delivering, queue.message_count), (0, 0))
        self.assertGreaterEqual(letters.message_count, 2)

    @pure_only
    def test_a_scan_gives_others_their_turn_when_expiring_takes_long(self) -> None:
        bench = Bench({"q": {"expiry_address": "E"}})
        queue, expired = bench.queue("q"), bench.queue("E")
        for number in range(10):
            bench.send(str(number).encode(), expiration=START_MS + 10)
        bench.clock.advance(1)
        expire = bench.messaging.settlement.expire

        def takes_long(reference: Reference) -> None:
            expire(reference)
            bench.clock.seconds += 0.004

        with mock.patch.object(bench.messaging.settlement, "expire", takes_long):
            bench.messaging.expiry_reaper.scan()
            self.assertEqual((queue.message_count, expired.message_count), (7, 3))
            bench.clock.advance(0.1)
        self.assertEqual((queue.message_count, expired.message_count), (0, 10))

    def test_a_message_damaged_in_its_properties_expires_without_stopping_the_scan(self) -> None:
        bench = Bench({"q": {"expiry_address": "E"}})
        queue = bench.queue("q")
        expired = bench.queue("E")
        damaged = damage_properties(bench, "q")
        damaged.expiration = START_MS + 10
        bench.send_message(damaged)
        bench.messaging.start()
        for _ in range(2):
            try:
                bench.clock.advance(31)
            except MalformedPacketError:
                pass
            bench.send(b"good", expiration=bench.clock.wall_ms() + 10)
        bench.clock.advance(31)
        self.assertEqual((queue.message_count, expired.message_count > 0), (0, True))


class RedeliveryTests(SynchronousTestCase):
    def test_messages_that_come_back_with_a_delay_keep_their_order(self) -> None:
        bench = Bench({"q": {"redelivery_delay": 1000}})
        queue = bench.queue("q")
        consumer = Collector(bench, queue)
        for body in (b"1", b"2", b"3"):
            bench.send(body)
        consumer.leave()
        bench.messaging.settlement.redeliver(consumer.references)
        again = Collector(bench, queue)
        bench.clock.advance(2)
        bench.turn()
        self.assertEqual(again.bodies, [b"1", b"2", b"3"])

    def test_a_delay_that_multiplies_ends_at_its_limit_or_else_at_ten_times_the_first(self) -> None:
        for limit, ends_at in ((None, 1000), (2500, 2500)):
            settings = AddressSettings(redelivery_delay=100, redelivery_delay_multiplier=3.0, max_redelivery_delay=limit)
            delays = [redelivery_delay(settings, count, 0.5) for count in range(5)]
            self.assertEqual(delays, [0, 100, 300, 900, min(ends_at, 2700)])
            for count in (30, 650, 5000):
                self.assertEqual(redelivery_delay(settings, count, 0.5), ends_at)
            spread = replace(settings, redelivery_collision_avoidance_factor=0.5)
            self.assertEqual({redelivery_delay(spread, count, random) for count in (650, 5000) for random in (0.0, 0.5, 0.9)}, {ends_at})

    def test_a_delay_without_an_end_is_a_time_that_the_store_can_keep(self) -> None:
        endless = AddressSettings(redelivery_delay=2**63 - 1)
        growing = AddressSettings(redelivery_delay=2**61, redelivery_delay_multiplier=9.0, max_redelivery_delay=2**63 - 1)
        for settings in (endless, growing):
            delays = [redelivery_delay(settings, count, 0.5) for count in (1, 2, 5000)]
            self.assertTrue(all(START_MS + delay < 2**63 for delay in delays), delays)

    @pure_only
    def test_putting_messages_back_does_not_walk_past_everything_that_waits(self) -> None:
        """A consumer with a selector returns 200 messages from behind 5000 that it did not want."""
        looked_at = [0]

        class Counting(Reference):
            __slots__ = ("_order",)

            @property
            def order(self) -> int:
                looked_at[0] += 1
                return self._order

            @order.setter
            def order(self, value: int) -> None:
                self._order = value

        bench = Bench()
        queue = bench.queue("q")
        references = [Counting(bench.message(), queue) for _ in range(5200)]
        waiting = ReferenceList()
        for reference in references:
            waiting.append(reference)
        taken = references[5000:]
        for reference in taken:
            waiting.remove(reference)
        looked_at[0] = 0
        for reference in reversed(taken):
            waiting.insert(reference)
        self.assertEqual(list(waiting), references)
        self.assertLess(looked_at[0], 20_000)


class ExpiryTests(SynchronousTestCase):
    def test_a_message_on_a_wildcard_queue_expires_by_the_settings_of_the_address_that_it_was_sent_to(self) -> None:
        bench = Bench({"news.uk": {"expiry_address": "old.uk"}, "news.#": {"expiry_address": "old"}})
        bench.queue("all", "news.#", 0)
        old, old_uk = bench.queue("old"), bench.queue("old.uk")
        for address in ("news.uk", "news.fr"):
            bench.send(b"x", address, expiration=START_MS + 10, routing_type=None)
        bench.clock.advance(1)
        bench.messaging.expiry_reaper.scan()
        self.assertEqual((old_uk.message_count, old.message_count), (1, 1))

    def test_a_queue_whose_address_is_its_expiry_address_never_expires(self) -> None:
        bench = Bench({"#": {"expiry_address": "E", "expiry_delay": 1000}})
        queue, expired = bench.queue("q"), bench.queue("E")
        bench.messaging.start()
        bench.send(b"x")
        bench.clock.advance(40)
        self.assertEqual((queue.message_count, expired.message_count), (0, 1))
        bench.clock.advance(120)
        self.assertEqual(expired.message_count, 1)
        reader = Collector(bench, expired)
        self.assertEqual(reader.bodies, [b"x"])

    @pure_only
    def test_the_scan_of_one_long_queue_lets_others_run(self) -> None:
        bench = Bench()
        queue = bench.queue("q")
        expiration = bench.clock.wall_ms() + 10
        for _ in range(12_000):
            bench.messaging.sending.send(bench.message(durable=False, expiration=expiration), "q", None, 1, bench.context)
        bench.messaging.start()
        most = [0]
        run = bench.core.turn.run

        def counting(function: Any, *args: Any) -> None:
            before = queue.messages_expired
            run(function, *args)
            most[0] = max(most[0], queue.messages_expired - before)

        with mock.patch.object(bench.core.turn, "run", counting):
            bench.clock.advance(31)
        self.assertEqual(queue.messages_expired, 12_000)
        self.assertLessEqual(most[0], 5000)


class MoveTests(SynchronousTestCase):
    def test_a_message_that_the_target_does_not_take_stays_where_it_is(self) -> None:
        bench = Bench()
        queue = bench.queue("q")
        target = bench.queue("t", filter_string="colour = 'red'")
        bench.send(b"x")
        reference = next(iter(queue.references))
        bench.messaging.settlement.move(reference, "t", "t")
        self.assertEqual(queue.message_count + target.message_count, 1)
        self.assertEqual(queue.delivering, 0)

    def test_a_message_that_is_sent_back_to_an_address_without_queues_stays_where_it_is(self) -> None:
        bench = Bench()
        queue = bench.queue("q")
        bench.messaging.administration.create_address("empty", (1,))
        bench.send(b"x")
        bench.messaging.settlement.move(next(iter(queue.references)), "empty", None)
        self.assertEqual(queue.message_count, 1)


class AutoDeleteTests(SynchronousTestCase):
    def used_queue(self) -> Bench:
        """An auto-created queue that was used, and that nobody uses now."""
        bench = Bench({"#": {"auto_delete_queues_delay": 0}})
        bench.messaging.start()
        bench.messaging.administration.auto_create_for_send("q", 1, None, lambda *args: None)
        queue = bench.core.queues["q"]
        consumer = Collector(bench, queue)
        bench.send(b"0")
        bench.messaging.settlement.acknowledge(consumer.references)
        consumer.leave()
        self.assertIn("q", bench.core.queues)
        return bench

    def test_a_queue_to_which_an_open_transaction_has_sent_is_in_use(self) -> None:
        bench = self.used_queue()
        transaction = Transaction()
        bench.send(b"1", transaction=transaction)
        bench.clock.advance(100)
        bench.messaging.settlement.commit(transaction, bench.context)
        self.assertIn("q", bench.core.queues)
        self.assertEqual(bench.core.queues["q"].message_count, 1)

    def test_a_queue_whose_message_waits_for_the_disk_is_in_use(self) -> None:
        bench = self.used_queue()
        bench.clock.advance(31)
        bench.store.held = True
        bench.send(b"1")
        bench.clock.advance(31)
        bench.store.sync()
        self.assertIn("q", bench.core.queues)
        self.assertEqual(bench.core.queues["q"].message_count, 1)


class DispatchTests(SynchronousTestCase):
    def test_a_lowered_consumers_before_dispatch_holds_for_the_consumers_that_are_there(self) -> None:
        bench = Bench()
        queue = bench.queue("q", consumers_before_dispatch=2)
        consumer = Collector(bench, queue)
        bench.send(b"x")
        self.assertEqual(consumer.bodies, [])
        bench.messaging.administration.update_queue(queue, consumers_before_dispatch=0)
        bench.send(b"y")
        bench.turn()
        self.assertEqual(consumer.bodies, [b"x", b"y"])

    def test_the_delay_begins_with_the_first_consumer_although_the_queue_was_changed_before(self) -> None:
        bench = Bench()
        queue = bench.queue("q", consumers_before_dispatch=2, delay_before_dispatch=1000)
        bench.messaging.administration.update_queue(queue, max_consumers=5)
        bench.clock.advance(2)
        bench.send(b"x")
        consumer = Collector(bench, queue)
        self.assertEqual(consumer.bodies, [])
        bench.clock.advance(1)
        bench.turn()
        self.assertEqual(consumer.bodies, [b"x"])

    def test_raised_consumers_before_dispatch_hold_for_the_next_consumers(self) -> None:
        bench = Bench()
        queue = bench.queue("q")
        bench.messaging.administration.update_queue(queue, consumers_before_dispatch=2)
        bench.send(b"x")
        first = Collector(bench, queue)
        self.assertEqual(first.bodies, [])
        second = Collector(bench, queue)
        self.assertEqual(first.bodies + second.bodies, [b"x"])
