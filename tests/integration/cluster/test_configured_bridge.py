"""A core bridge of the configuration starts and stops with its broker."""

from __future__ import annotations

from mqbroker.config.model.cluster import BridgeConfiguration
from mqbroker.config.model.configuration import AddressConfiguration, QueueConfiguration
from tests.integration.cluster.nodes import ANYCAST, ClusterCase


class BridgeTests(ClusterCase):
    async def test_messages_arrive_also_after_both_were_away(self) -> None:
        one, two = self.make(2)
        for node in (one, two):
            node.configuration.cluster_connections = []
            node.configuration.addresses = [
                AddressConfiguration(name, frozenset({ANYCAST}), [QueueConfiguration(name=name, address=name, routing_type=ANYCAST)])
                for name in ("out", "in")
            ]
        one.configuration.bridges = [
            BridgeConfiguration(
                "b",
                "out",
                "in",
                static_connectors=("node-1",),
                retry_interval=50,
                max_retry_interval=100,
                user="cluster",
                password="secret",
            )
        ]
        two.start()
        one.start()
        await self.send(one, "out", ["a", "b"])
        await self.until(lambda: two.count("in") == 2, "the messages have arrived")
        await two.stop()
        await self.send(one, "out", ["c"])
        await one.stop()
        one.start()
        self.assertEqual(one.count("out"), 1)
        two.start()
        consumer = await self.consumer(two, "in")
        self.assertEqual(await self.receive(consumer, 3), ["a", "b", "c"])
