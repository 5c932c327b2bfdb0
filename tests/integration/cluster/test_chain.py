"""Chains and rings: queues that are more than one hop away."""

from __future__ import annotations

from tests.integration.cluster.nodes import ClusterCase


class ChainTests(ClusterCase):
    LINKS = ([1], [0, 2], [1])

    async def chain(self, max_hops: int) -> list:  # type: ignore[type-arg]
        nodes = self.make(3, self.LINKS, max_hops=max_hops, allow_direct_connections_only=True)
        for node in nodes:
            node.start()
        one, two, three = nodes
        await self.until(
            lambda: {one.link_state(two), two.link_state(one), two.link_state(three), three.link_state(two)} == {"connected"},
            "the chain forms",
        )
        return nodes

    async def test_two_hops(self) -> None:
        one, two, three = await self.chain(2)
        await self.queue(await self.session(three), "q")
        consumer = await self.consumer(three, "q")
        await self.until(lambda: one.knows(three, "q", 1), "the far consumer is known")
        self.assertEqual(one.bindings[f"q{three.node_id}"].distance, 2)
        await self.send(one, "q", ["a", "b", "c"])
        self.assertEqual(await self.receive(consumer, 3), ["a", "b", "c"])
        await self.until(lambda: not one.waiting_for(two) and not two.waiting_for(three), "all was acknowledged")
        await consumer.close()
        await self.until(lambda: one.knows(three, "q", 0), "the consumer has gone")

    async def test_one_hop_is_not_enough(self) -> None:
        one, two, three = await self.chain(1)
        await self.queue(await self.session(three), "q")
        await self.until(lambda: two.knows(three, "q"), "the next one knows it")
        self.assertFalse(one.knows(three, "q"))

    async def test_no_hops_at_all(self) -> None:
        one, two, three = await self.chain(0)
        session = await self.session(three)
        await self.queue(session, "q")
        await session.queue_query("q")
        self.assertEqual((one.bindings, two.bindings), ({}, {}))

    async def test_the_far_end_leaves(self) -> None:
        one, two, three = await self.chain(2)
        await self.queue(await self.session(three), "q")
        await self.until(lambda: one.knows(three, "q"), "the far queue is known")
        await three.stop()
        await self.until(lambda: not one.bindings and not two.bindings, "it is forgotten everywhere")
        three.start()
        await self.until(lambda: one.knows(three, "q"), "it is known again")

    async def test_messages_wait_while_the_middle_restarts(self) -> None:
        one, two, three = await self.chain(2)
        await self.queue(await self.session(three), "q")
        consumer = await self.consumer(three, "q")
        await self.until(lambda: one.knows(three, "q", 1), "the far consumer is known")
        await two.stop()
        await self.until(lambda: one.link_state(two) == "unknown", "the middle one has left")
        two.start()
        await self.until(lambda: one.knows(three, "q", 1), "the far consumer is known again")
        await self.send(one, "q", ["a", "b"])
        self.assertEqual(await self.receive(consumer, 2), ["a", "b"])


class RingTests(ClusterCase):
    async def test_every_queue_is_known_once_by_the_shortest_way(self) -> None:
        nodes = await self.cluster(3, max_hops=2)
        for node in nodes:
            await self.queue(await self.session(node), "q")
        await self.until(lambda: all(one.knows(two, "q") for one in nodes for two in nodes if one is not two), "all are known")
        for node in nodes:
            bound = list(node.broker.messaging.core.routing.remote_bindings())
            self.assertEqual(
                sorted((each.distance, each.node_id) for each in bound), sorted((1, o.node_id) for o in nodes if o is not node)
            )

    async def test_messages_are_delivered_once(self) -> None:
        nodes = await self.cluster(3, max_hops=2)
        for node in nodes:
            await self.queue(await self.session(node), "q")
        consumers = [await self.consumer(node, "q") for node in nodes]
        await self.until(lambda: all(nodes[0].knows(node, "q", 1) for node in nodes[1:]), "the consumers are known")
        await self.send(nodes[0], "q", [f"m{number}" for number in range(9)])
        found = [text for consumer in consumers for text in await self.receive(consumer, 3)]
        self.assertEqual(sorted(found), [f"m{number}" for number in range(9)])
