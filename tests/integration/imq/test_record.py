"""The change record of real brokers: the master goes and comes back, a member misses changes, others join, and one may not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mqbroker.app import Broker, BrokerSettings
from mqbroker.config.model.home_cluster import HomeCluster
from mqclient.core.api import QueueConfiguration
from mqclient.errors import DuplicateMetadataError, IllegalStateError, MQError, SessionCreationRejectedError
from tests.integration.cluster.nodes import ANYCAST, MULTICAST, ClusterCase, Node, reactor

MASTER = 0


class RecordCase(ClusterCase):
    def homes(self, count: int, **settings: Any) -> list[Node]:
        """Brokers of a home cluster, not started; the first is the master."""
        nodes = self.make(count)
        for node in nodes:
            node.configuration.home_cluster = HomeCluster(
                tuple(place(each) for each in nodes), place(nodes[MASTER]), place(node), **settings
            )
            self.link_without_pause(node)
        return nodes

    @staticmethod
    def link_without_pause(node: Node) -> None:
        [connection] = node.configuration.cluster_connections
        node.configuration.cluster_connections = [replace(connection, name="imq", message_load_balancing="OFF")]

    async def started(self, count: int, **settings: Any) -> list[Node]:
        nodes = self.homes(count, **settings)
        for node in nodes:
            node.start()
        await self.formed(nodes)
        await self.in_step(nodes)
        return nodes

    async def in_step(self, nodes: list[Node]) -> None:
        def done() -> bool:
            return all(recording(node).synchronised for node in nodes) and len({standing(node) for node in nodes}) == 1

        await self.until(done, "all have the record")

    async def everywhere(self, nodes: list[Node], *names: str) -> None:
        await self.until(
            lambda: all(queues(node) == sorted(names) for node in nodes), f"all have {names}; they have {[queues(n) for n in nodes]}"
        )


def place(node: Node) -> str:
    return f"127.0.0.1:{node.port}"


def shared(node: Node) -> Any:
    assert node.broker.clustering is not None and node.broker.clustering.homes is not None
    return node.broker.clustering.homes.shared


def recording(node: Node) -> Any:
    return shared(node).recording


def standing(node: Node) -> tuple[str | None, int]:
    found = recording(node).standing
    return found.generation, found.position


def queues(node: Node) -> list[str]:
    """Those of clients and administrators."""
    found = node.broker.messaging.core.queues
    return sorted(name for name, queue in found.items() if queue.definition.durable and not queue.definition.internal)


def durable(name: str, address: str | None = None, routing_type: int = ANYCAST) -> QueueConfiguration:
    return QueueConfiguration(name=name, address=address or name, routing_type=routing_type)


class RecordTests(RecordCase):
    async def test_what_is_defined_on_one_broker_is_so_on_all(self) -> None:
        nodes = await self.started(3)
        session = await self.session(nodes[1])
        await session.create_queue(durable("q"))
        await session.create_queue(durable("me.sub", "topic", MULTICAST))
        await self.everywhere(nodes, "me.sub", "q")
        other = await self.session(nodes[2])
        await other.delete_queue("q")
        await self.everywhere(nodes, "me.sub")
        await self.in_step(nodes)

    async def test_the_master_is_away_and_returns(self) -> None:
        nodes = await self.started(3)
        session = await self.session(nodes[1])
        await session.create_queue(durable("q"))
        await self.everywhere(nodes, "q")
        await nodes[MASTER].stop()
        await self.until(lambda: recording(nodes[1]).state == "running_without_master", "the master is away")
        with self.assertRaises(IllegalStateError) as refused:
            await session.create_queue(durable("r"))
        self.assertIn(place(nodes[MASTER]), str(refused.exception))
        await self.send(nodes[1], "q", ["1", "2"])
        consumer = await self.consumer(nodes[2], "q")
        self.assertEqual(await self.receive(consumer, 2), ["1", "2"])
        nodes[MASTER].start()
        await self.in_step(nodes)
        await session.create_queue(durable("r"))
        await self.everywhere(nodes, "q", "r")

    async def test_a_member_that_missed_changes_gets_them(self) -> None:
        nodes = await self.started(3)
        session = await self.session(nodes[MASTER])
        await session.create_queue(durable("q"))
        await self.everywhere(nodes, "q")
        await nodes[2].stop()
        await session.create_queue(durable("r"))
        await session.delete_queue("q")
        nodes[2].start()
        await self.everywhere(nodes, "r")

    async def test_until_a_broker_has_joined_it_serves_nobody(self) -> None:
        nodes = self.homes(2)
        nodes[1].start()
        with self.assertRaises(SessionCreationRejectedError) as refused:
            await self.session(nodes[1])
        self.assertIn(place(nodes[MASTER]), str(refused.exception))
        nodes[MASTER].start()
        await self.in_step(nodes)
        session = await self.session(nodes[1])
        await session.create_queue(durable("q"))
        await self.everywhere(nodes, "q")

    async def test_a_broker_of_another_cluster_may_not_join(self) -> None:
        nodes = self.homes(3)
        stranger = nodes[2]
        assert stranger.configuration.home_cluster is not None
        joining, stranger.configuration.home_cluster = (
            stranger.configuration.home_cluster,
            replace(stranger.configuration.home_cluster, master=place(nodes[1])),
        )
        own = nodes[1].configuration.home_cluster
        nodes[1].configuration.home_cluster = replace(joining, master=place(nodes[1]), address=place(nodes[1]))
        nodes[1].start()
        stranger.start()
        await self.in_step([nodes[1], stranger])
        await stranger.stop()
        await nodes[1].stop()
        stranger.configuration.home_cluster, nodes[1].configuration.home_cluster = joining, own
        nodes[MASTER].start()
        reasons: list[str] = []
        stranger.broker = Broker(BrokerSettings(stranger.configuration, stranger.folder), reactor, reasons.append)
        stranger.broker.start()
        stranger.running = True
        await self.until(lambda: reasons, "the broker ends")
        self.assertIn("B3095", reasons[0])
        self.assertIn(place(nodes[1]), reasons[0])

    async def test_another_broker_becomes_the_master(self) -> None:
        nodes = await self.started(3, dynamic_change_master=True)
        session = await self.session(nodes[2])
        await session.create_queue(durable("q"))
        await self.everywhere(nodes, "q")
        await shared(nodes[MASTER]).change_of_master.change(place(nodes[1]))
        await self.in_step(nodes)
        await self.until(lambda: {recording(node).master for node in nodes} == {place(nodes[1])}, "all know the new master")
        await nodes[MASTER].stop()
        await session.create_queue(durable("r"))
        await self.everywhere(nodes[1:], "q", "r")

    async def test_a_client_id_is_used_once(self) -> None:
        nodes = await self.started(2)
        first, second = [await self.session(node) for node in nodes]
        await first.add_unique_metadata("jms-client-id", "me")
        with self.assertRaises(DuplicateMetadataError):
            await second.add_unique_metadata("jms-client-id", "me")
        await first.close()
        await second.add_unique_metadata("jms-client-id", "me")

    async def test_temporary_queues_are_known_to_all(self) -> None:
        nodes = await self.started(2)
        session = await self.session(nodes[1])
        await session.create_queue(QueueConfiguration(name="t", address="t", routing_type=ANYCAST, durable=False, temporary=True))
        await self.until(lambda: "t" in nodes[MASTER].broker.messaging.core.queues, "the other broker knows it")
        await self.locators[-1].close()
        await self.until(lambda: "t" not in nodes[MASTER].broker.messaging.core.queues, "it ends everywhere")

    async def test_requests_of_members_are_for_the_cluster_user_alone(self) -> None:
        from mqclient.management import Management, ManagementError

        nodes = self.homes(2)
        nodes[MASTER].configuration.security_enabled = True
        nodes[MASTER].start()
        session = await self.session(nodes[MASTER], username="cluster", password="secret")
        management = await Management.open(session, "replies")
        with self.assertRaises(ManagementError) as wrong:
            await management.invoke("imq", "changes", "n", "g", "x", None)
        self.assertIn("asked for wrongly", str(wrong.exception))
        with self.assertRaises(MQError):
            await self.session(nodes[MASTER], username="nobody", password="none")
