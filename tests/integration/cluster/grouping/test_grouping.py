"""Brokers with grouping handlers: the messages of a group go to one consumer of the whole cluster."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import deferLater
from twisted.logger import formatEvent, globalLogPublisher

from mqbroker.config.model.cluster import GroupingHandlerConfiguration
from mqclient.wire.properties import BYTE
from tests.integration.cluster.nodes import ANYCAST, ClusterCase, Node, reactor


class GroupTests(ClusterCase):
    async def grouped(self, count: int, *, local: int | None = 0, timeout: int = 20_000, **options: Any) -> list[Node]:
        """Brokers with a queue ``q`` and a consumer of it each; number ``local`` has the LOCAL handler."""
        nodes = self.make(count, **options)
        for node in nodes:
            node.configuration.grouping_handler = GroupingHandlerConfiguration("groups", node.number == local, timeout=timeout)
            node.start()
        await self.formed(nodes)
        for node in nodes:
            await self.queue(await self.session(node), "q")
        self.consumers = {node.number: await self.consumer(node, "q") for node in nodes}
        await self.all_known(nodes)
        return nodes

    async def all_known(self, nodes: list[Node]) -> None:
        await self.until(lambda: all(one.knows(two, "q", 1) for one in nodes for two in nodes if one is not two), "all is known")

    async def send_groups(self, node: Node, mark: str, groups: int = 6, each: int = 2) -> None:
        session = await self.session(node)
        producer = await session.create_producer("q")
        for number in range(each):
            for group in range(groups):
                message = session.create_message()
                message.body = f"g{group} {mark}{number}".encode()
                message.put("_AMQ_ROUTING_TYPE", ANYCAST, BYTE)
                message.put("_AMQ_GROUP_ID", f"g{group}")
                await producer.send(message)

    async def take(self, count: int) -> dict[int, list[str]]:
        """What the consumers get, ``count`` messages together."""
        found: dict[int, list[str]] = {number: [] for number in self.consumers}
        for _ in range(500):
            for number, consumer in self.consumers.items():
                while (message := await consumer.receive_immediate()) is not None:
                    await consumer.individual_acknowledge(message)
                    found[number].append(message.body.decode())
            if sum(map(len, found.values())) >= count:
                break
            await deferLater(reactor, 0.01)
        self.assertEqual(sum(map(len, found.values())), count, found)
        return found

    def owners(self, found: dict[int, list[str]]) -> dict[str, int]:
        owners: dict[str, int] = {}
        for number, texts in found.items():
            for group in {text.split()[0] for text in texts}:
                self.assertNotIn(group, owners, found)
                owners[group] = number
        return owners

    def handler(self, node: Node) -> Any:
        assert node.broker.clustering is not None
        return node.broker.clustering.grouping

    async def test_a_group_has_one_consumer_in_the_cluster(self) -> None:
        nodes = await self.grouped(3)
        for node in nodes[::-1]:
            await self.send_groups(node, f"from {node.number} ")
        found = await self.take(36)
        owners = self.owners(found)
        self.assertEqual((len(owners), set(owners.values())), (6, {0, 1, 2}))
        for texts in found.values():
            for text in texts:
                if text.endswith(" 1"):
                    self.assertLess(texts.index(text[:-1] + "0"), texts.index(text))
        self.assertEqual(self.handler(nodes[0]).decisions, 6)
        figures = {gauge.name: gauge.read() for gauge in nodes[1].broker.server.gauges}
        self.assertEqual((figures["grouping.waiting"], figures["grouping.messages.ungrouped"]), (0, 0))

    async def test_decisions_survive_a_restart_of_the_broker_that_makes_them(self) -> None:
        nodes = await self.grouped(2)
        await self.send_groups(nodes[1], "a")
        owners = self.owners(await self.take(12))
        self.assertEqual(set(owners.values()), {0, 1})
        await nodes[0].stop()
        nodes[0].start()
        # Before the link is there.
        await self.send_groups(nodes[0], "b", each=1)
        await self.formed(nodes)
        self.consumers[0] = await self.consumer(nodes[0], "q")
        await self.all_known(nodes)
        await self.send_groups(nodes[1], "c", each=1)
        found = await self.take(12)
        self.assertEqual(self.owners(found), owners)

    async def test_a_broker_that_leaves_gives_its_groups_up(self) -> None:
        nodes = await self.grouped(2)
        await self.send_groups(nodes[0], "a")
        self.assertEqual(set(self.owners(await self.take(12)).values()), {0, 1})
        await nodes[1].stop()
        del self.consumers[1]
        await self.until(lambda: nodes[0].link_state(nodes[1]) != "connected", "the broker has left")
        await self.until(lambda: self.handler(nodes[0]).decisions == 3, "its decisions are forgotten")
        await self.send_groups(nodes[0], "b")
        self.assertEqual(set(self.owners(await self.take(12)).values()), {0})

    async def test_without_a_local_handler_messages_wait_and_then_go_on(self) -> None:
        nodes = await self.grouped(2, local=None, timeout=20)
        await self.send_groups(nodes[0], "a")
        await self.take(12)
        self.assertGreater(self.handler(nodes[0]).messages_ungrouped, 0)

    async def test_an_address_that_nobody_shares_is_told(self) -> None:
        lines: list[str] = []

        def keep(event: Any) -> None:
            lines.append(str(formatEvent(event)))

        globalLogPublisher.addObserver(keep)
        self.addCleanup(globalLogPublisher.removeObserver, keep)
        (node,) = self.make(1, address="jms")
        for address in ("", "jms.orders"):
            node.configuration.grouping_handler = GroupingHandlerConfiguration("groups", True, address)
            node.start()
            await node.stop()
        self.assertEqual(sum("other brokers do not hear its decisions" in line for line in lines), 1)
