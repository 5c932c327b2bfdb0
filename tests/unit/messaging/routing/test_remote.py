"""Routing to queues of other brokers, and what comes from other brokers."""

from __future__ import annotations

import struct

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Recovered, RecoveredReference
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqbroker.messaging.routing.remote import LoadBalancing, RemoteBinding
from mqclient.wire.message import CoreMessage, encode_headers
from mqclient.wire.properties import BYTES, STRING, TypedValue
from tests.unit.messaging.cluster_support import Link, Node, properties_of, texts
from tests.unit.messaging.support import Collector

OFF, STRICT = LoadBalancing.OFF, LoadBalancing.STRICT
ON_DEMAND, REDISTRIBUTION = LoadBalancing.ON_DEMAND, LoadBalancing.OFF_WITH_REDISTRIBUTION


def ids(*numbers: int) -> TypedValue:
    return BYTES, b"".join(struct.pack(">q", number) for number in numbers)


class TwoNodes(SynchronousTestCase):
    def setUp(self) -> None:
        self.a, self.b = Node(1), Node(2)
        self.link = Link(self.a, self.b)

    def learned(self, balancing: LoadBalancing = ON_DEMAND, consumers: int = 0, name: str = "q", kind: int = ANYCAST) -> RemoteBinding:
        self.far = self.b.queue(name, "q", kind)
        return self.a.learn(self.b, self.far, balancing, consumers)

    def send(self, *bodies: bytes, **headers: object) -> None:
        for body in bodies:
            self.a.send(body, **headers)  # type: ignore[arg-type]


class ChoiceTests(TwoNodes):
    def test_on_demand_goes_where_consumers_are(self) -> None:
        """Only the other broker has a consumer: every message goes there; without any consumer all stay here."""
        near = self.a.queue("q")
        binding = self.learned()
        self.send(b"1")
        self.a.appear(binding)
        self.send(b"2", b"3")
        binding.consumer_removed(None)
        self.send(b"4")
        self.link.pump()
        self.assertEqual((texts(near), texts(self.far)), ([b"1", b"4"], [b"2", b"3"]))

    def test_on_demand_takes_turns_where_both_have_consumers(self) -> None:
        near = Collector(self.a, self.a.queue("q"))
        self.learned(consumers=1)
        self.send(b"1", b"2", b"3", b"4")
        self.link.pump()
        self.assertEqual((near.bodies, texts(self.far)), ([b"1", b"3"], [b"2", b"4"]))

    def test_queues_of_this_broker_alone_are_chosen_by_their_consumers_as_ever(self) -> None:
        queues = [self.a.queue(name, "q") for name in ("x", "y")]
        second = Collector(self.a, queues[1])
        self.send(b"1")
        first = Collector(self.a, queues[0])
        self.send(b"2", b"3")
        self.assertEqual((first.bodies, second.bodies), ([b"2"], [b"1", b"3"]))

    def test_strict_takes_turns_without_consumers(self) -> None:
        near = self.a.queue("q")
        self.learned(STRICT)
        self.send(b"1", b"2", b"3", b"4")
        self.link.pump()
        self.assertEqual((texts(near), texts(self.far)), ([b"1", b"3"], [b"2", b"4"]))

    def test_of_an_address_whose_remote_queues_have_gone_nothing_is_kept(self) -> None:
        """Temporary queues come and go, each on an address of its own."""
        routing = self.a.core.routing
        first, second = self.learned(STRICT), self.learned(STRICT, name="other", kind=MULTICAST)
        routing.unbind_remote(first)
        self.assertIs(routing.balancing("q"), STRICT)
        routing.unbind_remote(second)
        self.assertIs(routing.balancing("q"), OFF)

    def test_strict_passes_over_a_lost_link(self) -> None:
        near = self.a.queue("q")
        self.learned(STRICT).connected = False
        self.send(b"1", b"2")
        self.assertEqual(texts(near), [b"1", b"2"])

    def test_off_keeps_messages_here(self) -> None:
        for balancing in (OFF, REDISTRIBUTION):
            self.setUp()
            near = self.a.queue("q")
            self.learned(balancing, consumers=1)
            self.send(b"1")
            self.assertEqual(texts(near), [b"1"])

    def test_a_queue_on_a_wildcard_address_gets_messages_of_the_addresses_that_match(self) -> None:
        """Messages that do not say that they are multicast go there, too, as the load balancing of the queue wants it."""
        for kind in (ANYCAST, MULTICAST):
            for balancing, count in ((ON_DEMAND, 2), (STRICT, 2), (OFF, 0)):
                self.setUp()
                far = self.b.queue("all", "a.#", kind)
                self.a.learn(self.b, far, balancing, 1)
                self.send(b"1", address="a.b", routing_type=None)
                self.send(b"2", address="a.c", routing_type=ANYCAST if kind == ANYCAST else None)
                self.link.pump()
                self.assertEqual(far.message_count, count, (kind, balancing))

    def test_queues_on_the_same_wildcard_address_take_turns(self) -> None:
        here, far = self.a.queue("all", "a.#", ANYCAST), self.b.queue("all", "a.#", ANYCAST)
        self.a.learn(self.b, far, STRICT)
        self.send(b"1", b"2", b"3", b"4", address="a.b")
        self.link.pump()
        self.assertEqual((here.message_count, far.message_count), (2, 2))

    def test_off_reaches_remote_subscriptions_of_multicast_messages(self) -> None:
        self.learned(OFF, name="sub", kind=MULTICAST)
        self.send(b"1", routing_type=MULTICAST)
        self.send(b"2", routing_type=None)
        self.link.pump()
        self.assertEqual(texts(self.far), [b"1"])

    def test_a_lone_remote_queue_stores_while_the_link_is_lost(self) -> None:
        self.learned().connected = False
        self.send(b"1")
        self.assertEqual(self.link.queue.message_count, 1)

    def test_what_is_withdrawn_gets_nothing_although_it_is_still_bound(self) -> None:
        binding = self.learned(STRICT, consumers=1)
        self.send(b"1")
        binding.withdraw()
        self.a.core.routing.changed()
        self.send(b"2")
        near = self.a.queue("q")
        self.send(b"3", b"4")
        self.assertEqual((self.link.queue.message_count, texts(near)), (1, [b"3", b"4"]))
        self.assertIsNone(self.a.core.routing.remote(binding.cluster_name))
        self.assertEqual(list(self.a.core.routing.remote_bindings()), [binding])

    def test_filters_of_the_queue_and_of_consumers_count(self) -> None:
        near = self.a.queue("q")
        binding = self.learned()
        self.a.appear(binding, "colour = 'red'")
        self.send(b"1", properties={"colour": (STRING, "red")})
        self.send(b"2", properties={"colour": (STRING, "blue")})
        binding.filter = parse_filter("colour = 'green'")
        self.send(b"3", properties={"colour": (STRING, "red")})
        self.link.pump()
        self.assertEqual((texts(near), texts(self.far)), ([b"2", b"3"], [b"1"]))

    def test_a_consumer_without_filter_counts_beside_one_with_a_filter(self) -> None:
        self.a.queue("q")
        binding = self.learned()
        self.a.appear(binding, "colour = 'red'")
        self.a.appear(binding)
        self.send(b"1")
        binding.consumer_removed(None)
        self.send(b"2")
        self.link.pump()
        self.assertEqual(texts(self.far), [b"1"])

    def test_a_filter_that_cannot_be_read_matches_nothing(self) -> None:
        near = self.a.queue("q")
        binding = self.learned()
        self.a.appear(binding, "this is not ((( a filter")
        self.send(b"1")
        self.assertEqual(texts(near), [b"1"])

    def test_a_fully_qualified_name_reaches_only_queues_of_that_name(self) -> None:
        far = self.b.queue("x", "q")
        other = self.b.queue("y", "q")
        self.a.learn(self.b, far, consumers=1)
        self.a.learn(self.b, other, consumers=1)
        message = self.a.message(b"1", "q::x")
        self.a.messaging.sending.send(message, "q", "x", ANYCAST, self.a.context)
        self.link.pump()
        self.assertEqual((texts(far), texts(other)), ([b"1"], []))

    def test_a_forgotten_queue_gets_nothing(self) -> None:
        near = self.a.queue("q")
        binding = self.learned(consumers=1)
        self.assertIs(self.a.core.routing.remote(binding.cluster_name), binding)
        self.assertIs(self.a.core.routing.remote_by_id("q", binding.binding_id), binding)
        self.a.core.routing.unbind_remote(binding)
        self.assertIsNone(self.a.core.routing.remote(binding.cluster_name))
        self.send(b"1")
        self.assertEqual(texts(near), [b"1"])
        self.assertEqual(self.a.told[-1], "remote_binding_removed")

    def test_an_anycast_message_does_not_go_to_a_subscription(self) -> None:
        self.learned(name="sub", kind=MULTICAST)
        self.send(b"1", routing_type=ANYCAST)
        self.assertEqual(self.link.queue.message_count, 0)


class ForwardedTests(TwoNodes):
    def test_one_reference_for_each_broker_with_all_its_queues(self) -> None:
        c = Node(3)
        subscriptions = [self.b.queue(name, "t", MULTICAST) for name in ("s1", "s2")]
        bindings = [self.a.learn(self.b, queue) for queue in subscriptions]
        third = self.a.learn(c, c.queue("s3", "t", MULTICAST))
        self.a.send(b"1", "t", routing_type=MULTICAST)
        (to_b,) = self.link.queue.references
        (to_c,) = self.a.store_and_forward(c).references
        self.assertIs(to_b.message, to_c.message)
        self.assertEqual(
            {name: value for name, value in to_b.message.properties.items() if "ROUTE_TO" in name},
            {
                f"_AMQ_ROUTE_TO{self.link.queue.name}": ids(bindings[1].remote_id, bindings[0].remote_id),
                f"_AMQ_ROUTE_TO$.artemis.internal.sf.c.{c.node_id}": ids(third.remote_id),
            },
        )
        self.link.pump()
        self.assertEqual([texts(queue) for queue in subscriptions], [[b"1"], [b"1"]])

    def test_consumers_here_do_not_see_where_a_message_goes_as_well(self) -> None:
        near = Collector(self.a, self.a.queue("s", "t", MULTICAST))
        self.a.learn(self.b, self.b.queue("r", "t", MULTICAST))
        self.a.send(b"1", "t", routing_type=MULTICAST, properties={"kept": (STRING, "v")})
        self.assertEqual(set(properties_of(near)), {"kept", "_AMQ_ROUTING_TYPE"})
        self.assertEqual(self.link.pump(), 1)
        # One stored step for both.
        kinds = [[entry[0] for entry in batch] for batch in self.a.store.log]
        self.assertIn(["message", "message"], kinds)

    def test_a_transaction_forwards_at_its_commit(self) -> None:
        self.learned(consumers=1)
        transaction = Transaction()
        self.a.send(b"1", transaction=transaction)
        self.assertEqual(self.link.pump(), 0)
        self.a.messaging.settlement.commit(transaction, self.a.context)
        self.a.turn()
        self.assertEqual(self.link.pump(), 1)

    def test_a_large_message_shares_its_body(self) -> None:
        near = self.a.queue("s", "t", MULTICAST)
        self.a.learn(self.b, self.b.queue("r", "t", MULTICAST))
        body = self.a.store.create_large_body(77)
        body.append(b"x" * 10)
        content = CoreMessage(message_id=77, address="t", durable=True)
        self.a.send_message(Message.read(encode_headers(content), 0, large=body))
        self.assertEqual(body.holders, 2)
        self.a.messaging.removal.purge(near)
        self.a.messaging.removal.purge(self.link.queue)
        self.assertEqual(body.holders, 0)

    def test_a_dead_letter_of_a_link_does_not_say_where_it_was_to_go(self) -> None:
        self.learned()
        dead = self.a.queue("dead")
        self.send(b"1")
        (reference,) = self.link.queue.references
        self.a.messaging.settlement.move(reference, "dead", None)
        self.a.turn()
        self.assertFalse([name for name in next(iter(dead.references)).message.properties if "ROUTE_TO" in name])


class StoreAndForwardTests(SynchronousTestCase):
    def test_it_survives_a_restart_as_what_it_is(self) -> None:
        a, b = Node(1), Node(2)
        record = a.store_and_forward(b).definition.record(5)
        again = Node(1)
        message = again.message(b"1", "q")
        again.messaging.restore(Recovered(queues=[record], messages=[(message, [RecoveredReference(5)])]))
        queue = again.core.queues[record.name]
        self.assertTrue(queue.definition.internal and queue.address.internal and queue.durable)
        self.assertEqual(queue.message_count, 1)
        self.assertIs(again.store_and_forward(b), queue)

    def test_nobody_removes_it_and_nothing_in_it_is_given_up(self) -> None:
        node = Node(1, settings={"#": {"max_delivery_attempts": 1, "auto_delete_addresses": True, "default_last_value_queue": True}})
        queue = node.store_and_forward(Node(2))
        message = node.message(b"1", properties={"_AMQ_GROUP_ID": (STRING, "g")})
        node.messaging.sending.deliver(node.messaging.sending.distribution.references_for(message, [queue], queue.address))
        for _ in range(5):
            consumer = Collector(node, queue)
            node.messaging.settlement.redeliver(consumer.references)
            consumer.leave()
        node.messaging.usage_reaper.sweep_at_start()
        for _ in range(3):
            node.messaging.usage_reaper.scan()
        self.assertEqual(queue.message_count, 1)
        self.assertIsNone(queue.groups)
        self.assertIs(node.core.queues[queue.name], queue)

    def test_its_end_takes_its_address_along(self) -> None:
        node = Node(1)
        queue = node.store_and_forward(Node(2))
        node.messaging.administration.delete_store_and_forward(queue)
        self.assertEqual((list(node.core.queues), list(node.core.addresses)), ([], []))
