"""Nodes that leave, return or are killed, and links that are cut: no message is lost or comes twice."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from mqclient.wire.properties import BYTE, STRING
from tests.integration.cluster.nodes import MULTICAST, ClusterCase, Node, reactor


class LeavingTests(ClusterCase):
    async def test_leaves_and_returns(self) -> None:
        one, two = await self.cluster(2)
        await self.queue(await self.session(two), "q")
        await self.until(lambda: one.knows(two, "q"), "the queue is known")
        await two.stop()
        await self.until(lambda: one.link_state(two) == "unknown" and len(one.cluster.topology) == 1, "it has left")
        self.assertFalse(one.knows(two, "q"))
        self.assertEqual(list(one.broker.server.gauges), [])
        two.start()
        await self.formed([one, two])
        await self.until(lambda: one.knows(two, "q"), "the queue is known again")

    async def test_messages_for_a_durable_subscription_wait_for_its_node(self) -> None:
        one, two = await self.cluster(2, gated=True)
        await self.queue(await self.session(two), "sub", "topic", MULTICAST)
        await self.until(lambda: one.knows(two, "sub"), "the subscription is known")
        self.cut(two)
        await self.send(one, "topic", ["a", "b", "c"], MULTICAST)
        self.assertEqual(one.waiting_for(two), 3)
        figures = {gauge.name: gauge.read() for gauge in one.broker.server.gauges}
        self.assertEqual((figures["cluster.link.connected"], figures["cluster.link.backlog"], figures["cluster.link.bindings"]), (0, 3, 1))
        await one.stop()
        one.start()
        self.assertEqual(one.waiting_for(two), 3, "kept over a restart")
        self.heal(two)
        await self.until(lambda: two.count("sub") == 3, "they have arrived")
        consumer = await self.consumer(two, "sub")
        self.assertEqual(await self.receive(consumer, 3), ["a", "b", "c"])

    def cut(self, node: Node) -> None:
        assert node.gate is not None
        node.gate.shut = True
        node.gate.cut()

    def heal(self, node: Node) -> None:
        assert node.gate is not None
        node.gate.shut = False


class CutTests(ClusterCase):
    async def test_the_link_comes_back_by_itself(self) -> None:
        one, two = await self.cluster(2, gated=True)
        await self.queue(await self.session(two), "q")
        consumer = await self.consumer(two, "q")
        await self.until(lambda: one.knows(two, "q", 1), "the consumer is known")
        assert two.gate is not None
        member = one.cluster.members[two.node_id]
        for number in range(1, 4):
            two.gate.cut()
            await self.until(lambda number=number: member.connections > number and one.knows(two, "q", 1), "the link is there again")
        self.assertIs(one.cluster.members[two.node_id], member)
        await self.send(one, "q", ["a"])
        self.assertEqual(await self.receive(consumer, 1), ["a"])

    async def test_cut_at_any_moment_nothing_is_lost_or_doubled(self) -> None:
        one, two = await self.cluster(2, gated=True)
        await self.queue(await self.session(two), "sub", "topic", MULTICAST)
        consumer = await self.consumer(two, "sub")
        await self.until(lambda: one.knows(two, "sub", 1), "the consumer is known")
        assert two.gate is not None
        texts = [f"m{number:03}" for number in range(120)]
        session = await self.session(one)
        producer = await session.create_producer("topic")
        for number, text in enumerate(texts):
            message = session.create_message()
            message.put("_AMQ_ROUTING_TYPE", MULTICAST, BYTE)
            message.properties["text"] = (STRING, text)
            message.body = text.encode()
            await producer.send(message)
            if number % 30 == 17:
                two.gate.cut()
        self.assertEqual(await self.receive(consumer, len(texts)), texts)
        self.assertIsNone(await consumer.receive_immediate())
        await self.until(lambda: not one.waiting_for(two), "all was acknowledged")

    async def test_others_hear_of_a_lost_member_and_of_its_return(self) -> None:
        one, two = await self.cluster(2, gated=True)
        heard: list[tuple[str, bool]] = []
        one.cluster.topology.add_listener(lambda member, up: heard.append((member.node_id, up)))
        heard.clear()
        assert two.gate is not None
        two.gate.cut()
        await self.until(lambda: (two.node_id, False) in heard, "it is reported down")
        await self.until(lambda: (two.node_id, True) in heard and one.link_state(two) == "connected", "it is reported up")

    async def test_retries_that_are_used_up_end_the_record(self) -> None:
        one, two = await self.cluster(2, gated=True, reconnect_attempts=2)
        await self.queue(await self.session(two), "q")
        await self.until(lambda: one.knows(two, "q"), "the queue is known")
        assert two.gate is not None
        two.gate.shut = True
        two.gate.cut()
        await self.until(lambda: one.link_state(two) == "unknown", "it is given up")
        self.assertEqual(one.bindings, {})
        self.assertIn(f"$.artemis.internal.sf.cluster.{two.node_id}", one.broker.messaging.core.queues)
        two.gate.shut = False
        await self.formed([one, two])


class StopTests(ClusterCase):
    async def test_a_graceful_shutdown_waits_for_clients_but_not_for_members(self) -> None:
        one, two = self.make(2)
        one.configuration.graceful_shutdown_enabled = True
        for node in (one, two):
            node.start()
        await self.formed([one, two])
        session = await self.session(one)
        task = Deferred.fromCoroutine(one.stop())
        await deferLater(reactor, 0.05)
        self.assertFalse(task.called)
        await session.factory.close()
        await task

    async def test_a_stop_ends_links_without_a_crash_for_the_others(self) -> None:
        one, two, three = await self.cluster(3)
        await two.stop()
        await self.until(lambda: all(len(node.cluster.topology) == 2 for node in (one, three)), "both others know")
        self.assertEqual((one.link_state(two), three.link_state(two)), ("unknown", "unknown"))
        self.assertEqual((one.link_state(three), three.link_state(one)), ("connected", "connected"))

    async def test_started_with_nobody_there(self) -> None:
        one, two = self.make(2)
        one.start()
        await self.until(lambda: one.cluster.contact._pauses.made >= 3, "it goes on trying")
        two.start()
        await self.formed([one, two])
