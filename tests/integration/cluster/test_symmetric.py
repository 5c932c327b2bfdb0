"""Brokers with links to each other: who gets a message, wherever it was sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqclient.wire.properties import BYTE
from tests.integration.cluster.nodes import ANYCAST, MULTICAST, ClusterCase, Node


class BalancingTests(ClusterCase):
    async def with_queue(self, nodes: list[Node], name: str = "q") -> None:
        for node in nodes:
            await self.queue(await self.session(node), name)
        await self.until(lambda: all(one.knows(two, name) for one in nodes for two in nodes if one is not two), "the queues are known")

    async def test_a_consumer_on_the_other_node_gets_what_is_sent_here(self) -> None:
        one, two = await self.cluster(2)
        await self.queue(await self.session(two), "q")
        consumer = await self.consumer(two, "q")
        await self.until(lambda: one.knows(two, "q", 1), "the consumer is known")
        await self.send(one, "q", ["a", "b", "c"])
        self.assertEqual(await self.receive(consumer, 3), ["a", "b", "c"])
        await self.until(lambda: not one.waiting_for(two), "everything was acknowledged")

    async def test_on_demand_prefers_consumers_and_takes_turns(self) -> None:
        nodes = await self.cluster(3)
        await self.with_queue(nodes)
        consumers = [await self.consumer(node, "q") for node in nodes[1:]]
        await self.until(lambda: all(nodes[0].knows(node, "q", 1) for node in nodes[1:]), "the consumers are known")
        await self.send(nodes[0], "q", [f"m{number}" for number in range(10)])
        found = [await self.receive(consumer, 5) for consumer in consumers]
        self.assertEqual(sorted(found[0] + found[1]), [f"m{number}" for number in range(10)])
        for texts in found:
            self.assertEqual(texts, sorted(texts))
        self.assertEqual(nodes[0].count("q"), 0)

    async def test_on_demand_without_consumers_keeps_messages_here(self) -> None:
        one, two = await self.cluster(2)
        await self.with_queue([one, two])
        await self.send(one, "q", ["a", "b"])
        self.assertEqual((one.count("q"), two.count("q"), one.waiting_for(two)), (2, 0, 0))

    async def test_strict_takes_turns_without_consumers(self) -> None:
        one, two = await self.cluster(2, message_load_balancing="STRICT")
        await self.with_queue([one, two])
        await self.send(one, "q", ["a", "b", "c", "d"])
        await self.until(lambda: (one.count("q"), two.count("q")) == (2, 2), "each has half of them")

    async def test_off_keeps_messages_here_but_for_subscriptions(self) -> None:
        one, two = await self.cluster(2, message_load_balancing="OFF")
        await self.with_queue([one, two])
        consumer = await self.consumer(two, "q")
        await self.queue(await self.session(two), "sub", "topic", MULTICAST)
        subscriber = await self.consumer(two, "sub")
        await self.until(lambda: one.knows(two, "q", 1) and one.knows(two, "sub", 1), "the consumers are known")
        await self.send(one, "q", ["a"])
        await self.send(one, "topic", ["b"], MULTICAST)
        self.assertEqual(await self.receive(subscriber, 1), ["b"])
        self.assertEqual(one.count("q"), 1)
        self.assertIsNone(await consumer.receive_immediate())

    async def test_every_subscription_gets_a_copy_and_a_shared_one_only_one(self) -> None:
        nodes = await self.cluster(3)
        for number, node in enumerate(nodes):
            session = await self.session(node)
            await self.queue(session, f"own{number}", "topic", MULTICAST)
            await self.queue(session, "shared", "topic", MULTICAST)
        own = [await self.consumer(node, f"own{number}") for number, node in enumerate(nodes)]
        shared = [await self.consumer(node, "shared") for node in nodes]
        one, *others = nodes
        await self.until(
            lambda: all(one.knows(node, "shared", 1) and one.knows(node, f"own{node.number}", 1) for node in others), "all are known"
        )
        texts = [f"m{number}" for number in range(6)]
        await self.send(one, "topic", texts, MULTICAST)
        for consumer in own:
            self.assertEqual(await self.receive(consumer, 6), texts)
        found = [text for consumer in shared for text in await self.receive(consumer, 2)]
        self.assertEqual(sorted(found), texts)

    async def test_filters_of_consumers_count(self) -> None:
        one, two = await self.cluster(2)
        await self.with_queue([one, two])
        here = await self.consumer(one, "q", "colour = 'red'")
        there = await self.consumer(two, "q", "colour = 'blue'")
        await self.until(lambda: one.knows(two, "q", 1) and two.knows(one, "q", 1), "the consumers are known")
        await self.send(one, "q", ["b1", "b2"], colour="blue")
        await self.send(two, "q", ["r1", "r2"], colour="red")
        self.assertEqual(await self.receive(there, 2), ["b1", "b2"])
        self.assertEqual(await self.receive(here, 2), ["r1", "r2"])

    async def test_addresses_that_are_left_out_stay_where_they_are(self) -> None:
        one, two = await self.cluster(2, address="jms,!jms.private")
        for name in ("jms.q", "jms.private.q", "other"):
            await self.queue(await self.session(two), name)
        await self.until(lambda: one.knows(two, "jms.q"), "the queue is known")
        self.assertEqual(list(one.bindings), [f"jms.q{two.node_id}"])

    async def test_removed_queues_are_forgotten(self) -> None:
        one, two = await self.cluster(2)
        session = await self.session(two)
        await self.queue(session, "q")
        await self.until(lambda: one.knows(two, "q"), "the queue is known")
        await session.delete_queue("q")
        await self.until(lambda: not one.bindings, "the queue is forgotten")

    async def test_what_was_there_before_the_link_is_known(self) -> None:
        one, two = self.make(2)
        two.start()
        await self.queue(await self.session(two), "q", filter_string="a = 1")
        await self.consumer(two, "q")
        one.start()
        await self.until(lambda: one.knows(two, "q", 1), "the queue and its consumer are known")
        filter = one.bindings[f"q{two.node_id}"].filter
        self.assertEqual(filter.text if filter else None, "a = 1")

    async def test_large_messages_arrive_whole(self) -> None:
        one, two = await self.cluster(2)
        await self.queue(await self.session(two), "q")
        consumer = await self.consumer(two, "q")
        await self.until(lambda: one.knows(two, "q", 1), "the consumer is known")
        session = await self.session(one)
        producer = await session.create_producer("q")
        body = bytes(range(256)) * 2000
        message = session.create_message()
        message.put("_AMQ_ROUTING_TYPE", ANYCAST, BYTE)
        message.body = body
        await producer.send(message)
        received: Any = await consumer.receive(10_000)
        self.assertEqual(await received.large.read(), body)


class TopologyTests(ClusterCase):
    async def test_everybody_knows_everybody(self) -> None:
        nodes = await self.cluster(4)
        await self.until(lambda: all(len(node.cluster.topology) == 4 for node in nodes), "all know four members")

    async def test_one_connector_is_enough_to_learn_of_all(self) -> None:
        """Each is told of the first one only."""
        nodes = await self.cluster(4, [[], [0], [0], [0]])
        self.assertEqual({len(node.cluster.members) for node in nodes}, {3})

    async def test_without_connectors_no_links_are_opened(self) -> None:
        one, two = self.make(2, change=lambda number, cluster: cluster if number else _alone(cluster))
        one.start()
        two.start()
        await self.until(lambda: two.link_state(one) == "connected", "the link from the second one")
        self.assertEqual(len(one.cluster.topology), 2)
        self.assertEqual(dict(one.cluster.members), {})

    async def test_a_broker_that_lists_itself(self) -> None:
        one, two = await self.cluster(2, [[0, 1], [0, 1]])
        self.assertEqual((list(one.cluster.members), list(two.cluster.members)), ([two.node_id], [one.node_id]))

    async def test_only_direct_connections(self) -> None:
        nodes = self.make(3, [[1], [0, 2], [1]], allow_direct_connections_only=True)
        for node in nodes:
            node.start()
        one, two, three = nodes
        await self.until(lambda: two.link_state(one) == two.link_state(three) == "connected", "the links of the middle one")
        await self.until(lambda: one.link_state(two) == three.link_state(two) == "connected", "the links to the middle one")
        await self.until(lambda: all(len(node.cluster.topology) == 3 for node in nodes), "all know three members")
        self.assertEqual((one.link_state(three), three.link_state(one)), ("unknown", "unknown"))

    async def test_a_wrong_password_keeps_out(self) -> None:
        one, two = self.make(2)
        for node in (one, two):
            node.configuration.security_enabled = True
        two.configuration.cluster_password = "other"
        one.start()
        two.start()
        await self.until(lambda: all(node.cluster.locators._refused_by for node in (one, two)), "both were refused")
        await self.until(lambda: all(node.cluster.contact._pauses.made >= 2 for node in (one, two)), "both have tried again")
        self.assertEqual((len(one.cluster.topology), len(two.cluster.topology)), (1, 1))
        self.assertEqual((dict(one.cluster.members), dict(two.cluster.members)), ({}, {}))


def _alone(cluster: ClusterConnectionConfiguration) -> ClusterConnectionConfiguration:
    return replace(cluster, static_connectors=None)
