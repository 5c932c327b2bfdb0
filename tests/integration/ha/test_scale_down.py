"""A broker that leaves gives its messages to another one."""

from __future__ import annotations

from typing import Any

from twisted.internet import defer

from mqbroker.config.model.cluster import ScaleDownConfiguration
from mqbroker.ha import scale_down as scale_down_module
from mqclient.wire.properties import BYTES
from tests.integration.cluster.nodes import MULTICAST, ClusterCase, Node


class ScaleDownCase(ClusterCase):
    def setUp(self) -> None:
        super().setUp()
        self.patch(scale_down_module, "RECONNECT_SECONDS", 0.05)

    async def cluster_that_scales_down(self, count: int, scale_down: ScaleDownConfiguration | None = None, **options: Any) -> list[Node]:
        """Node 0 gives its messages to node 1 when it stops."""
        nodes = self.make(count, **options)
        nodes[0].configuration.scale_down = scale_down or ScaleDownConfiguration(connectors=("node-1",))
        for node in nodes:
            node.start()
        await self.formed(nodes)
        return nodes

    async def alone_again(self, node: Node) -> None:
        """Start a broker that has left, to look at what it has kept."""
        node.configuration.scale_down = None
        node.start()
        await self.formed([each for each in self.nodes if each.running])


class MovingTests(ScaleDownCase):
    async def test_everything_moves_in_order(self) -> None:
        one, two = await self.cluster_that_scales_down(2)
        session = await self.session(one)
        await self.queue(session, "q")
        await self.queue(session, "sub-a", "topic", MULTICAST)
        await self.queue(session, "sub-b", "topic", MULTICAST, filter_string="kind = 'b'")
        await self.queue(session, "fleeting", durable=False)
        await self.queue(session, "temporary", temporary=True, durable=False)
        texts = [f"m{number:03}" for number in range(300)]
        await self.send(two, "q", ["before"])
        await self.send(one, "q", texts)
        await self.send(one, "topic", ["x", "y"], MULTICAST)
        await self.send(one, "topic", ["z"], MULTICAST, kind="b")
        await self.send(one, "fleeting", ["f"])
        await self.send(one, "temporary", ["gone"])
        await one.stop()
        self.assertEqual({name: two.count(name) for name in ("sub-a", "sub-b", "fleeting")}, {"sub-a": 3, "sub-b": 1, "fleeting": 1})
        self.assertNotIn("temporary", two.broker.messaging.core.queues)
        self.assertEqual(await self.receive(await self.consumer(two, "q"), 301), ["before", *texts])
        await self.alone_again(one)
        self.assertEqual(one.count("q") + one.count("sub-a") + one.count("sub-b"), 0)

    async def test_duplicate_ids(self) -> None:
        one, two = await self.cluster_that_scales_down(2)
        for node in (one, two):
            await self.queue(await self.session(node), "q")
        await self.send(one, "q", ["first"], _AMQ_DUPL_ID="once")
        session = await self.session(one)
        producer = await session.create_producer("q")
        message = session.create_message()
        message.put("_AMQ_DUPL_ID", b"\xff\xfe\x00", BYTES)
        await producer.send(message)
        await one.stop()
        await self.send(two, "q", ["again"], _AMQ_DUPL_ID="once")
        self.assertEqual(two.count("q"), 2)
        cache = two.broker.messaging.core.known_duplicate_ids("q")
        assert cache is not None
        self.assertIn(b"\xff\xfe\x00", cache)


class TargetTests(ScaleDownCase):
    async def test_a_member_of_the_group(self) -> None:
        nodes = self.make(4)
        for node, group in zip(nodes, ("red", "blue", "red", "blue"), strict=True):
            node.configuration.scale_down = ScaleDownConfiguration(group_name=group, enabled=node is nodes[0])
            node.start()
        await self.formed(nodes)
        await self.queue(await self.session(nodes[0]), "q")
        await self.send(nodes[0], "q", ["a"])
        await nodes[0].stop()
        self.assertEqual([node.count("q") for node in nodes[1:]], [0, 1, 0])

    async def test_nobody_is_there(self) -> None:
        one, two = await self.cluster_that_scales_down(2, ScaleDownConfiguration())
        await self.queue(await self.session(one), "q")
        await self.send(one, "q", ["a", "b"])
        await two.stop()
        await self.until(lambda: len(one.cluster.topology) == 1, "it has left")
        await one.stop()
        await self.alone_again(one)
        self.assertEqual(await self.receive(await self.consumer(one, "q"), 2), ["a", "b"])

    async def test_a_queue_that_is_another_one_there_stays(self) -> None:
        one, two = await self.cluster_that_scales_down(2)
        await self.queue(await self.session(one), "q")
        await self.queue(await self.session(one), "r")
        await self.queue(await self.session(two), "q", "elsewhere", MULTICAST)
        await self.send(one, "q", ["a"])
        await self.send(one, "r", ["b"])
        await one.stop()
        self.assertEqual((two.count("q"), two.count("r")), (0, 1))
        await self.alone_again(one)
        self.assertEqual((one.count("q"), one.count("r")), (1, 0))


class ThirdBrokerTests(ScaleDownCase):
    async def test_what_waits_elsewhere_for_the_broker_that_leaves_follows(self) -> None:
        one, two, three = await self.cluster_that_scales_down(3, gated=True)
        await self.queue(await self.session(one), "sub", "topic", MULTICAST)
        await self.until(lambda: three.knows(one, "sub"), "the subscription is known")
        member = three.cluster.members[one.node_id]
        member.link.pause()  # type: ignore[attr-defined]
        await self.send(three, "topic", ["a", "b", "c"], MULTICAST)
        self.assertEqual(three.waiting_for(one), 3)
        await one.stop()
        await self.until(lambda: two.count("sub") == 3, "they have followed")
        self.assertEqual(await self.receive(await self.consumer(two, "sub"), 3), ["a", "b", "c"])
        self.assertNotIn(member.load.figures()["queue"], three.broker.messaging.core.queues)

    async def test_what_waits_at_the_target_itself(self) -> None:
        one, two = await self.cluster_that_scales_down(2)
        await self.queue(await self.session(one), "sub", "topic", MULTICAST)
        await self.until(lambda: two.knows(one, "sub"), "the subscription is known")
        two.cluster.members[one.node_id].link.pause()  # type: ignore[attr-defined]
        await self.send(one, "topic", ["a"], MULTICAST)
        await self.send(two, "topic", ["b"], MULTICAST)
        await one.stop()
        await self.until(lambda: two.count("sub") == 2, "both are there")

    async def test_what_waits_here_for_a_third_broker_is_sent_on(self) -> None:
        one, two, three = await self.cluster_that_scales_down(3)
        await self.queue(await self.session(three), "sub", "topic", MULTICAST)
        await self.queue(await self.session(two), "own", "topic", MULTICAST)
        await self.until(lambda: one.knows(three, "sub") and one.knows(two, "own") and two.knows(three, "sub"), "they are known")
        for other in (two, three):
            one.cluster.members[other.node_id].link.pause()  # type: ignore[attr-defined]
        await self.send(one, "topic", ["a", "b"], MULTICAST)
        self.assertEqual((one.waiting_for(two), one.waiting_for(three)), (2, 2))
        await one.stop()
        await self.until(lambda: three.count("sub") == 2, "they have arrived")
        self.assertEqual(await self.receive(await self.consumer(three, "sub"), 2), ["a", "b"])
        self.assertEqual(two.count("own"), 2)


class InterruptedTests(ScaleDownCase):
    async def test_the_link_is_cut_again_and_again(self) -> None:
        one, two = await self.cluster_that_scales_down(2, gated=True)
        texts = [f"m{number:03}" for number in range(400)]
        await self.queue(await self.session(one), "q")
        await self.send(one, "q", texts)
        stopping = defer.ensureDeferred(one.stop())
        assert two.gate is not None
        for count in (50, 150, 300):
            await self.until(lambda count=count: two.count("q") > count or stopping.called, "some have arrived")
            two.gate.cut()
        await stopping
        self.assertEqual(two.count("q"), 400)
        self.assertEqual(await self.receive(await self.consumer(two, "q"), 400), texts)

    async def test_cut_short_and_repeated(self) -> None:
        one, two = await self.cluster_that_scales_down(2)
        one.configuration.scale_down = ScaleDownConfiguration(connectors=("node-1",), commit_interval=10)
        texts = [f"m{number:03}" for number in range(400)]
        await self.queue(await self.session(one), "q")
        await self.send(one, "q", texts)
        await one.stop()
        one.start()
        await self.formed([one, two])
        await self.send(one, "q", ["late"])
        stopping = defer.ensureDeferred(one.stop())
        one.broker.cut_short()
        await stopping
        one.start()
        await self.formed([one, two])
        await one.stop()
        self.assertEqual(two.count("q"), 401)
        self.assertEqual(await self.receive(await self.consumer(two, "q"), 401), [*texts, "late"])
