"""Messages that nobody here wants go to where somebody does."""

from __future__ import annotations

from tests.integration.cluster.nodes import ANYCAST, MULTICAST, ClusterCase

AT_ONCE = {"#": {"redistribution_delay": 0}}


class RedistributionTests(ClusterCase):
    async def test_messages_follow_the_consumer(self) -> None:
        one, two = await self.cluster(2, address_settings=AT_ONCE)
        for node in (one, two):
            await self.queue(await self.session(node), "q")
        consumer = await self.consumer(one, "q")
        await self.until(lambda: two.knows(one, "q", 1), "the consumer is known")
        await consumer.close()
        await self.until(lambda: two.knows(one, "q", 0), "it is gone")
        texts = [f"m{number}" for number in range(20)]
        await self.send(one, "q", texts)
        self.assertEqual(one.count("q"), 20)
        consumer = await self.consumer(two, "q")
        self.assertEqual(await self.receive(consumer, 20), texts)
        await self.until(lambda: not one.count("q") and not one.waiting_for(two), "nothing is left behind")

    async def test_they_come_to_a_consumer_of_a_disabled_queue_once(self) -> None:
        one, two = await self.cluster(2, address_settings=AT_ONCE)
        queues = {"q": ("q", ANYCAST), "sub": ("topic", MULTICAST)}
        for name, (address, routing_type) in queues.items():
            for node in (one, two):
                await self.queue(await self.session(node), name, address, routing_type)
            await self.until(lambda name=name: one.knows(two, name), "the queue is known")  # type: ignore[misc]
            await self.send(one, address, ["a", "b"], routing_type)
            two.broker.messaging.administration.update_queue(two.broker.messaging.core.queues[name], enabled=False)
            self.assertEqual(await self.receive(await self.consumer(two, name), 2), ["a", "b"])
            self.assertEqual(one.broker.messaging.core.queues[name].messages_added, 2, "nothing has come back")

    async def test_without_a_delay_setting_they_stay(self) -> None:
        one, two = await self.cluster(2)
        for node in (one, two):
            await self.queue(await self.session(node), "q")
        await self.until(lambda: one.knows(two, "q"), "the queue is known")
        await self.send(one, "q", ["a"])
        consumer = await self.consumer(two, "q")
        await self.until(lambda: one.knows(two, "q", 1), "the consumer is known")
        self.assertIsNone(await consumer.receive_immediate())
        self.assertEqual(one.count("q"), 1)

    async def test_after_a_cut_they_go_on(self) -> None:
        one, two = await self.cluster(2, gated=True, address_settings=AT_ONCE)
        for node in (one, two):
            await self.queue(await self.session(node), "q")
        consumer = await self.consumer(two, "q")
        await self.until(lambda: one.knows(two, "q", 1), "the consumer is known")
        assert two.gate is not None
        two.gate.shut = True
        two.gate.cut()
        await self.until(lambda: not one.knows(two, "q"), "the link is cut")
        await self.send(one, "q", ["a", "b"])
        self.assertEqual(one.count("q"), 2)
        two.gate.shut = False
        self.assertEqual(await self.receive(consumer, 2), ["a", "b"])
