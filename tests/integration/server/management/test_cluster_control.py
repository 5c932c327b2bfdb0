"""What management says of a cluster and does with it: the resources of cluster connections, groups and bridges."""

from __future__ import annotations

import json
from typing import Any

from mqbroker.config.model.cluster import BridgeConfiguration, BroadcastGroupConfiguration
from mqbroker.config.model.configuration import AddressConfiguration, QueueConfiguration
from mqclient.core.session.session import Session
from mqclient.protocol.discovery import UdpEndpoint
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import TYPE_TEXT
from tests.integration.cluster.nodes import ANYCAST, ClusterCase, Node

CONNECTION = "clusterconnection.cluster"


class Refused(Exception):
    """The broker did not do it."""


class ManagementCase(ClusterCase):
    async def setUp(self) -> None:  # type: ignore[override]
        super().setUp()
        self.asking: dict[Node, Session] = {}
        self.asked = 0

    async def ask(self, node: Node, properties: dict[str, str], parameters: list[Any] | None = None) -> Any:
        self.asked += 1
        session = await self.session(node)
        replies = f"replies-{self.asked}"
        await self.queue(session, replies, durable=False)
        producer = await session.create_producer("activemq.management")
        message = session.create_message(TYPE_TEXT)
        for name, value in properties.items():
            message.put(name, value)
        message.put("JMSReplyTo", f"queue://{replies}")
        if parameters is not None:
            message.body = encode_text(json.dumps(parameters))
        await producer.send(message)
        consumer = await session.create_consumer(replies)
        await session.start()
        reply = await consumer.receive(10_000)
        assert reply is not None
        text = decode_text(reply.body)
        result = json.loads(text)[0] if text else None
        if not reply.get("_AMQ_OperationSucceeded"):
            raise Refused(result)
        return result

    async def attribute(self, node: Node, resource: str, name: str) -> Any:
        return await self.ask(node, {"_AMQ_ResourceName": resource, "_AMQ_Attribute": name})

    async def invoke(self, node: Node, resource: str, operation: str, *parameters: Any) -> Any:
        return await self.ask(node, {"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}, list(parameters))


class ClusterConnectionTests(ManagementCase):
    async def test_attributes(self) -> None:
        one, two = await self.cluster(2)
        self.assertEqual(await self.attribute(one, "broker", "ClusterConnectionNames"), ["cluster"])
        wanted = {
            "Name": "cluster",
            "Address": "",
            "NodeID": one.node_id,
            "Started": True,
            "MaxHops": 1,
            "StaticConnectors": ["node-1"],
            "DiscoveryGroupName": None,
            "MessageLoadBalancingType": "ON_DEMAND",
            "DuplicateDetection": True,
            "RetryInterval": 50,
            "Nodes": {two.node_id: f"127.0.0.1:{two.port}"},
            "ContestedBy": [],
        }
        self.assertEqual({name: await self.attribute(one, CONNECTION, name) for name in wanted}, wanted)
        self.assertIn("2 members", await self.attribute(one, CONNECTION, "Topology"))

    async def test_a_link_in_figures(self) -> None:
        one, two = await self.cluster(2)
        await self.queue(await self.session(two), "q")
        consumer = await self.consumer(two, "q")
        await self.until(lambda: one.knows(two, "q", 1), "the consumer is known")
        await self.send(one, "q", ["a", "b", "c"])
        await self.receive(consumer, 3)
        await self.until(lambda: not one.waiting_for(two), "everything was acknowledged")
        link = json.loads(await self.attribute(one, CONNECTION, "LinksAsJSON"))[0]
        figures = ("state", "link", "target", "backlog", "messagesForwarded", "messagesAcknowledged", "messagesPending", "retries", "since")
        self.assertEqual([link[name] for name in figures], ["connected", "started", f"127.0.0.1:{two.port}", 0, 3, 3, 0, 0, None])
        self.assertGreater(link["bytesAcknowledged"], 0)
        self.assertEqual((await self.attribute(one, CONNECTION, "Metrics"))["messagesAcknowledged"], 3)
        rows = json.loads(
            await self.invoke(one, CONNECTION, "listRemoteBindings", '{"field":"name","operation":"EQUALS","value":"q"}', 1, 10)
        )
        self.assertEqual(rows["count"], 1)
        row = rows["data"][0]
        self.assertEqual((row["nodeID"], row["consumerCount"], row["distance"], row["inUse"]), (two.node_id, "1", "1", "true"))

    async def test_a_lost_link_says_why_and_since_when(self) -> None:
        one, two = await self.cluster(2, gated=True)
        two.gate.shut = True  # type: ignore[union-attr]
        two.gate.cut()  # type: ignore[union-attr]
        await self.until(lambda: one.link_state(two) == "connecting", "the link is lost")
        await self.until(lambda: one.cluster.links()[0]["retries"] > 1, "it is tried again")
        link = (await self.attribute(one, CONNECTION, "Links"))[two.node_id]
        self.assertTrue(link["lastError"])
        self.assertLessEqual(link["since"], one.broker.clock.wall_ms())
        two.gate.shut = False  # type: ignore[union-attr]
        await self.until(lambda: one.link_state(two) == "connected", "it is back")
        back = one.cluster.links()[0]
        self.assertEqual((back["since"], back["lastError"]), (None, None))

    async def test_stop_keeps_messages_and_start_lets_them_go(self) -> None:
        one, two = await self.cluster(2)
        await self.queue(await self.session(two), "q")
        consumer = await self.consumer(two, "q")
        await self.until(lambda: one.knows(two, "q", 1), "the consumer is known")
        told: list[str] = []
        one.broker.server.notifications.told.subscribe(lambda kind, headers: told.append(kind))
        await self.invoke(one, CONNECTION, "stop")
        await self.until(lambda: one.link_state(two) == "unknown", "the link ends")
        self.assertFalse(await self.attribute(one, CONNECTION, "Started"))
        await self.invoke(one, CONNECTION, "start")
        await self.until(lambda: one.knows(two, "q", 1) and one.link_state(two) == "connected", "the link is back")
        await self.send(one, "q", ["a"])
        self.assertEqual(await self.receive(consumer, 1), ["a"])
        self.assertEqual(
            [kind for kind in told if kind.startswith("CLUSTER")], ["CLUSTER_CONNECTION_STOPPED", "CLUSTER_CONNECTION_STARTED"]
        )


class BroadcastGroupTests(ManagementCase):
    async def test_a_broadcast_group(self) -> None:
        (one,) = self.make(1)
        endpoint = UdpEndpoint("231.7.7.9", 9899, "127.0.0.1")
        one.configuration.broadcast_groups = [BroadcastGroupConfiguration("bg", endpoint, 60_000, ("node-0",))]
        one.start()
        told: list[str] = []
        one.broker.server.notifications.told.subscribe(lambda kind, headers: told.append(kind))
        resource = "broadcastgroup.bg"
        self.assertEqual(await self.attribute(one, "broker", "BroadcastGroupNames"), ["bg"])
        wanted = {
            "Name": "bg",
            "GroupAddress": "231.7.7.9",
            "GroupPort": 9899,
            "LocalBindPort": -1,
            "BroadcastPeriod": 60_000,
            "ConnectorPairs": ["node-0"],
            "ChannelName": None,
            "Started": True,
        }
        self.assertEqual({name: await self.attribute(one, resource, name) for name in wanted}, wanted)
        await self.invoke(one, resource, "stop")
        self.assertFalse(await self.attribute(one, resource, "Started"))
        await self.invoke(one, resource, "start")
        self.assertEqual([kind for kind in told if kind.startswith("BROADCAST")], ["BROADCAST_GROUP_STOPPED", "BROADCAST_GROUP_STARTED"])


class ManagedBridgeTests(ManagementCase):
    def pair(self) -> list[Node]:
        """Two brokers in no cluster; the first has a connector to the second."""
        nodes = self.make(2)
        for node in nodes:
            node.configuration.cluster_connections = []
            node.configuration.addresses = [
                AddressConfiguration(name, frozenset({ANYCAST}), [QueueConfiguration(name=name, address=name, routing_type=ANYCAST)])
                for name in ("out", "in")
            ]
            node.start()
        return nodes

    async def create(self, node: Node, **more: Any) -> None:
        values = {
            "name": "b",
            "queue-name": "out",
            "forwarding-address": "in",
            "static-connectors": ["node-1"],
            "user": "u",
            "password": "p",
        }
        await self.invoke(node, "broker", "createBridge", json.dumps(values | {"retry-interval": 50} | more))

    async def test_a_broker_without_clusters_makes_bridges_and_keeps_them(self) -> None:
        one, two = self.pair()
        self.assertIsNone(one.broker.clustering)
        await self.create(one)
        await self.send(one, "out", ["a"])
        await self.until(lambda: two.count("in") == 1, "the message has arrived")
        await one.stop()
        one.start()
        self.assertEqual(await self.attribute(one, "broker", "BridgeNames"), ["b"])
        self.assertEqual(await self.attribute(one, "bridge.b", "ForwardingAddress"), "in")
        await self.send(one, "out", ["b"])
        await self.until(lambda: two.count("in") == 2, "the second message has arrived")

    async def test_one_that_was_destroyed_does_not_come_back(self) -> None:
        one, _ = self.pair()
        await self.create(one, concurrency=2)
        await self.invoke(one, "broker", "destroyBridge", "b")
        await one.stop()
        one.start()
        self.assertEqual(await self.attribute(one, "broker", "BridgeNames"), [])
        self.assertIsNone(one.broker.clustering)

    async def test_one_that_cannot_be_made_is_refused_and_not_kept(self) -> None:
        one, _ = self.pair()
        for values in (
            {"static-connectors": ["nowhere"]},
            {"queue-name": "nothing"},
            {"static-connectors": [], "discovery-group-name": "g"},
        ):
            await self.assertFailure(self.deferred(self.create(one, **values)), Refused)
        await one.stop()
        one.start()
        self.assertEqual(await self.attribute(one, "broker", "BridgeNames"), [])

    async def test_one_of_broker_xml_with_the_same_name_gives_way(self) -> None:
        one, _ = self.pair()
        await self.create(one)
        await one.stop()
        one.configuration.bridges = [BridgeConfiguration("b", "out", "out", static_connectors=("node-1",))]
        one.start()
        self.assertEqual(await self.attribute(one, "bridge.b", "ForwardingAddress"), "in")

    async def test_one_whose_queue_is_gone_is_left_out_at_the_start(self) -> None:
        one, _ = self.pair()
        await self.create(one)
        await one.stop()
        one.configuration.connectors = {}
        one.start()
        self.assertEqual(await self.attribute(one, "broker", "BridgeNames"), [])

    def deferred(self, coroutine: Any) -> Any:
        from twisted.internet.defer import ensureDeferred

        return ensureDeferred(coroutine)
