"""Which clients are told of the topology, and when."""

from __future__ import annotations

from dataclasses import replace

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership import topology as limits
from mqbroker.server.transport.topology import hornetq_names
from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL, PREAMBLE, frame
from mqclient.wire.primitives import TransportConfiguration
from tests.support.clock import START_MS
from tests.unit.cluster.membership.test_topology import told
from tests.unit.cluster.support import cluster_world, connector, member, subscribed
from tests.unit.mqclient.wire.vectors import VECTORS, load


class SubscriptionTests(SynchronousTestCase):
    def test_the_table_then_changes(self) -> None:
        world, cluster = cluster_world()
        cluster.topology.up(member("b", 5, 61617))
        cluster.topology.own(connector(61616), attempts=0)
        peer = subscribed(world)
        self.assertEqual(
            told(peer),
            [
                wire.ClusterTopologyV4(False, "b", 5, connector(61617), server_version=136),
                wire.ClusterTopologyV4(False, world.server.node_id, START_MS, connector(61616), last=True, server_version=136),
            ],
        )
        cluster.topology.up(member("c", 6, 61618))
        cluster.topology.down("b", 7)
        self.assertEqual(
            [(type(packet), packet.exit, packet.node_id, packet.last) for packet in told(peer)],
            [(wire.ClusterTopologyV4, False, "c", False), (wire.ClusterTopologyV2, True, "b", False)],
        )

    def test_forms_by_version(self) -> None:
        world, cluster = cluster_world()
        cluster.topology.own(connector(61616), backup_group_name="g", scale_down_group_name="s", attempts=0)
        expected = {
            136: (wire.ClusterTopologyV4, wire.ClusterTopologyV2, "s"),
            131: (wire.ClusterTopologyV4, wire.ClusterTopologyV2, "s"),
            130: (wire.ClusterTopologyV3, wire.ClusterTopologyV2, "s"),
            125: (wire.ClusterTopologyV3, wire.ClusterTopologyV2, "s"),
            124: (wire.ClusterTopologyV2, wire.ClusterTopologyV2, None),
            121: (wire.ClusterTopology, wire.ClusterTopology, None),
        }
        for version, (up, down, scale_down_group) in expected.items():
            peer = subscribed(world, version)
            first = told(peer)[0]
            assert isinstance(first, up)
            self.assertEqual(first.scale_down_group_name, scale_down_group)
            spelling = "org.apache" if version >= 126 else "org.hornetq"
            assert first.primary is not None
            self.assertTrue(first.primary.factory_class_name.startswith(spelling), version)
            cluster.topology.up(member("b", 1000 - version))
            cluster.topology.down("b", 1000 - version)
            self.assertEqual([type(packet) for packet in told(peer)], [up, down])
            peer.lose()

    def test_hornetq_spelling(self) -> None:
        old = hornetq_names(
            TransportConfiguration("n", "org.apache.activemq.artemis.x.ActiveMQFactory", (("sslEnabled", True), ("host", "h")))
        )
        self.assertEqual(old, TransportConfiguration("n", "org.hornetq.x.HornetQFactory", (("ssl-enabled", True), ("host", "h"))))

    def test_without_a_member_the_broker_is_alone(self) -> None:
        world, _ = cluster_world()
        answer = told(subscribed(world))
        self.assertEqual(answer, [wire.ClusterTopologyV4(False, world.server.node_id, START_MS, last=True, server_version=136)])

    def test_a_second_subscription_gets_the_table_again_and_each_change_once(self) -> None:
        world, cluster = cluster_world()
        cluster.topology.own(connector(1), attempts=0)
        peer = subscribed(world)
        for _ in range(limits.SUBSCRIPTIONS_MAX + 5):
            peer.send(wire.SubscribeTopology(True), PING_CHANNEL)
        self.assertEqual(len(told(peer)), limits.SUBSCRIPTIONS_MAX)
        cluster.topology.up(member("b", 1, port=2))
        self.assertEqual(len(told(peer)), 1)

    def test_who_announces_a_member_that_has_left_is_told_of_that(self) -> None:
        """A broker that has started since does not know it: it takes the member out, or contradicts with a later event."""
        world, cluster = cluster_world()
        cluster.topology.up(member("b", 5))
        cluster.topology.down("b", 10)
        peer = subscribed(world)
        told(peer)
        self.assertFalse(cluster.topology.up(member("b", 5)))
        self.assertEqual([(each.exit, each.node_id, each.unique_event_id) for each in told(peer)], [(True, "b", 10)])
        self.assertTrue(cluster.topology.up(member("b", 11)))
        self.assertFalse(cluster.topology.up(member("b", 7)))
        self.assertEqual(len(told(peer)), 1)

    def test_the_end_of_the_connection_ends_it(self) -> None:
        world, cluster = cluster_world()
        peer = subscribed(world)
        self.assertEqual(len(cluster.topology._subscriptions), 1)
        peer.lose()
        self.assertEqual(len(cluster.topology._subscriptions), 0)
        cluster.topology.up(member("b", 1))

    def test_who_does_not_read_is_told_the_newest_state(self) -> None:
        world, cluster = cluster_world()
        cluster.topology.up(member("gone", 1))
        peer = subscribed(world)
        told(peer)
        peer.connection.pause_output()
        for event in range(1, 1000):
            cluster.topology.up(member("b", event))
        cluster.topology.down("gone", 5)
        self.assertEqual(told(peer), [])
        peer.connection.resume_output()
        self.assertEqual(
            [(packet.exit, packet.node_id, packet.unique_event_id) for packet in told(peer)],
            [(False, "b", 999), (True, "gone", 5)],
        )

    def test_recorded_forms(self) -> None:
        """What real brokers told their peers comes out of the same members byte by byte."""
        compared = 0
        for name in ("cluster-formation", "cluster-client-topology", "cluster-client-topology-2.6.4", "cluster-client-topology-2.19.1"):
            for recorded in load(VECTORS / "cluster-2.44.0" / f"{name}.json")["connections"]:
                version = next((self._version(entry) for entry in recorded["frames"] if entry["name"] == "SUBSCRIBE_TOPOLOGY_V2"), 136)
                for entry in recorded["frames"]:
                    if entry["dir"] == "s2c" and entry["name"].startswith("CLUSTER_TOPOLOGY"):
                        self._compare(bytes.fromhex(entry["hex"]), version)
                        compared += 1
        self.assertGreater(compared, 50)

    @staticmethod
    def _version(entry: dict[str, str]) -> int:
        packet = wire.decode_packet(113, bytes.fromhex(entry["hex"])[13:], 136)
        assert isinstance(packet, wire.SubscribeTopologyV2)
        return packet.client_version

    def _compare(self, recorded: bytes, version: int) -> None:
        packet = wire.decode_packet(int.from_bytes(recorded[4:5], "big", signed=True), recorded[13:], version)
        assert isinstance(packet, wire.ClusterTopologyV2 | wire.ClusterTopologyV3 | wire.ClusterTopologyV4)
        world, cluster = cluster_world()
        announced = replace(
            member(packet.node_id, packet.unique_event_id),
            primary=packet.primary,
            backup=packet.backup,
            backup_group_name=packet.backup_group_name,
        )
        announced = replace(announced, scale_down_group_name=packet.scale_down_group_name)
        if packet.exit:
            cluster.topology.up(replace(announced, primary=connector(1)))
        elif packet.last:
            cluster.topology.up(announced)
        peer = world.peer(handshake=False)
        peer.feed(PREAMBLE + frame(113, PING_CHANNEL, wire.encode_packet(wire.SubscribeTopologyV2(False, version), version)))
        if packet.exit:
            peer.transport.written.clear()
            cluster.topology.down(packet.node_id, packet.unique_event_id)
        elif not packet.last:
            peer.transport.written.clear()
            cluster.topology.up(announced)
        world.clock.advance(0)
        self.assertEqual(bytes(peer.transport.written).hex(), recorded.hex())
