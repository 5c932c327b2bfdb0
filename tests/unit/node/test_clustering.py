"""What a broker does with others, from its start to its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import BridgeConfiguration, DiscoveryGroupConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.node.clustering import STOP_SECONDS, Clustering
from mqclient.protocol.discovery import Endpoint, UdpEndpoint, encode_announcement
from mqclient.urls import parse_transport_uri
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL, SESSION_CHANNEL
from tests.support.broker import World
from tests.support.clock import START_MS, FakeClock
from tests.unit.cluster.bridge_support import MemoryRuntime, connector
from tests.unit.cluster.flow_support import OWN
from tests.unit.cluster.support import CONNECTIONS, KnownOthers, cluster_world, joined


class HostedTests(SynchronousTestCase):
    def test_a_hosted_backup_serves_clients_of_its_own_node_only(self) -> None:
        """Another one may have had its backup at this place before."""
        for hosted in (False, True):
            world = World(Configuration(hosted=hosted, cluster_connections=CONNECTIONS))
            world.server.configuration.connectors = {"self": parse_transport_uri("tcp://127.0.0.1:1", "self")}
            clustering = Clustering(world.server, MemoryRuntime(world.clock), Path("etc"), {})
            world.server.others = KnownOthers(cluster=clustering.manager)
            peer = world.peer()
            answers = []
            for node_id in (world.server.node_id, "other", None):
                peer.send(wire.CheckForFailover(node_id), SESSION_CHANNEL)
                answers += [answer.ok_to_failover for answer in peer.take(SESSION_CHANNEL)]
            self.assertEqual(answers, [True, not hosted, True])


class StopTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        configuration = Configuration(security_enabled=False)
        configuration.connectors = {"target": parse_transport_uri("tcp://broker:1", "target")}
        configuration.bridges = [BridgeConfiguration("bridge", "q", static_connectors=("target",))]
        self.world, self.target = World(configuration, clock=self.clock), World(clock=self.clock)
        self.world.store.node_id = OWN
        self.sender = self.world.session()
        self.sender.create_queue("q")
        self.runtime = MemoryRuntime(self.clock)
        self.runtime.targets["1"] = self.target
        self.clustering = Clustering(self.world.server, self.runtime, Path("etc"), {})
        self.clustering.start()
        self.stir()

    def stir(self) -> None:
        busy = True
        while busy:
            self.clock.advance(0)
            busy = sum(link.move(1 << 20) for link in self.runtime.links) > 0

    def test_what_does_not_answer_is_waited_for_a_while_and_then_left(self) -> None:
        """Nothing of the broker may go on after its end, in a process that does."""
        [link] = self.runtime.links
        link.silent = True
        self.sender.publish(b"1")
        self.clock.advance(0)
        stopped = self.clustering.stop()
        self.clock.advance(STOP_SECONDS - 1)
        self.assertNoResult(stopped)
        self.clock.advance(1)
        self.successResultOf(stopped)
        bridge = self.clustering.bridges.find("bridge")
        assert bridge is not None
        self.assertEqual(bridge.messages_pending, 1)
        self.clustering.cut()
        self.assertEqual((bridge.state, link.open, self.world.queue("q").references.count), ("stopped", False, 1))

    def test_without_an_orderly_stop_everything_ends_at_once(self) -> None:
        """So an activation is given up, and the process goes on: the next one has links of its own."""
        [link] = self.runtime.links
        link.silent = True
        self.sender.publish(b"1")
        self.clock.advance(0)
        self.clustering.cut()
        bridge = self.clustering.bridges.find("bridge")
        assert bridge is not None
        self.assertEqual((bridge.state, link.open, self.world.queue("q").references.count), ("stopped", False, 1))
        self.clock.advance(STOP_SECONDS)
        self.assertEqual(self.runtime.links, [link])

    def test_who_has_answered_is_not_cut(self) -> None:
        self.sender.publish(b"1")
        stopped = self.clustering.stop()
        self.stir()
        self.successResultOf(stopped)
        self.clustering.cut()
        self.assertEqual(self.world.queue("q").message_count, 0)


class Hearing(MemoryRuntime):
    """A runtime whose multicast groups the test speaks to."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.received: list[Callable[[bytes, str], None]] = []

    def open_broadcast(self, endpoint: Endpoint, received: Callable[[bytes, str], None] | None) -> Hearing:
        if received is not None:
            self.received.append(received)
        return self

    def send(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class HealthTests(SynchronousTestCase):
    def test_another_broker_with_the_own_node_id_is_noticed_where_it_is_announced(self) -> None:
        world, _ = cluster_world()
        world.configuration.connectors = {"self": parse_transport_uri("tcp://127.0.0.1:1", "self")}
        clustering = Clustering(world.server, Hearing(world.clock), Path("etc"), {})
        clustering.start()
        self.assertIsNone(clustering.problem())
        joined(world).send(wire.NodeAnnounce(world.server.node_id, None, False, START_MS + 1, connector(2)), CLUSTER_CHANNEL)
        self.assertIn("is announced with the node id of this one", str(clustering.problem()))
        clustering.stop()
        self.assertIsNone(clustering.problem())

    def test_another_broker_with_the_own_node_id_is_noticed_also_where_only_bridges_listen(self) -> None:
        """Their targets would take messages of one for repetitions of the other's."""
        configuration = Configuration(security_enabled=False)
        configuration.discovery_groups = {"group": DiscoveryGroupConfiguration("group", UdpEndpoint("231.7.7.7", 9876))}
        configuration.bridges = [BridgeConfiguration("bridge", "q", discovery_group="group")]
        clock = FakeClock()
        world, runtime = World(configuration, clock=clock), Hearing(clock)
        world.store.node_id = OWN
        clustering = Clustering(world.server, runtime, Path("etc"), {})
        clustering.start()
        [received] = runtime.received
        self.assertIsNone(clustering.problem())
        received(encode_announcement(world.server.node_id, "another one", [connector(5)]), "127.0.0.1:9")
        self.assertIn("another broker announces the node id of this one", str(clustering.problem()))
        clustering.stop()
        self.assertIsNone(clustering.problem())
