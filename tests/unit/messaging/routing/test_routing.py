"""Which queues of an address get a message."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire.message import (
    KEY_ORIGINAL_ADDRESS,
)
from mqclient.wire.properties import STRING
from tests.unit.messaging.support import Bench, Collector


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
