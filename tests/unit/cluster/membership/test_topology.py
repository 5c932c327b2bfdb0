"""The topology of a broker: its guard, its limits, and what subscribers are told."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership import topology as limits
from mqbroker.cluster.membership.topology import ClusterTopology
from mqbroker.server.transport.topology import hornetq_names
from mqclient.protocol.topology import MEMBERS_MAX
from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL, PREAMBLE, frame
from mqclient.wire.primitives import TransportConfiguration
from tests.support.clock import START_MS, FakeClock
from tests.unit.cluster.support import cluster_world, connector, member, subscribed
from tests.unit.mqclient.wire.vectors import VECTORS, load
from tests.unit.server.support import Peer


class MemberTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.topology = ClusterTopology("me", self.clock)

    def test_the_own_entry_is_repeated_by_the_wall_clock(self) -> None:
        told: list[int] = []
        self.topology.add_listener(lambda member, up: told.append(member.unique_event_id))
        self.topology.own(connector(1), attempts=2, interval_ms=1000)
        self.clock.advance(10)
        self.assertEqual(told, [START_MS, START_MS + 1000, START_MS + 2000])
        self.assertEqual(self.clock.pending, 0)

    def test_a_repeat_keeps_the_backup_and_the_own_connector(self) -> None:
        self.topology.own(connector(1))
        self.topology.up(member("me", START_MS + 1, port=9, backup=2))
        self.clock.advance(1)
        own = self.topology.get("me")
        assert own is not None
        self.assertEqual((own.primary, own.backup), (connector(1), connector(2)))

    def test_stopped_it_repeats_no_more(self) -> None:
        self.topology.own(connector(1))
        self.topology.stop()
        self.assertEqual(self.clock.pending, 0)

    def test_the_own_node_never_leaves(self) -> None:
        self.topology.own(connector(1))
        self.assertFalse(self.topology.down("me", START_MS + 99999))
        self.assertFalse(self.topology.lost("me"))
        self.assertIsNotNone(self.topology.get("me"))

    def test_who_is_said_to_have_left_says_that_it_is_there(self) -> None:
        """Later than the departure: who believes that would refuse the announcement otherwise, until this clock has caught up."""
        self.topology.own(connector(1))
        self.topology.down("me", START_MS + 99999)
        own = self.topology.get("me")
        assert own is not None
        self.assertEqual(own.unique_event_id, START_MS + 100_000)
        self.topology.down("me", START_MS)
        self.assertIs(self.topology.get("me"), own)
        self.clock.advance(1)
        repeated = self.topology.get("me")
        assert repeated is not None
        self.assertEqual(repeated.unique_event_id, START_MS + 100_000)

    def test_a_departure_is_later_than_the_announcement_also_of_a_member_whose_clock_is_ahead(self) -> None:
        """With equal event ids both would be accepted in turn, by everybody, for ever."""
        ahead = member("b", START_MS + 10**9)
        self.topology.up(ahead)
        self.topology.lost("b")
        self.assertEqual(self.topology.left_at("b"), START_MS + 10**9 + 1)
        self.assertFalse(self.topology.up(ahead))
        self.assertFalse(self.topology.up(replace(ahead, unique_event_id=START_MS + 10**9 + 1)))

    def test_a_link_that_is_back_counts_more_than_a_departure_by_a_clock_that_is_ahead(self) -> None:
        self.topology.up(member("b", START_MS))
        self.topology.down("b", START_MS + 10**9)
        self.assertFalse(self.topology.up(member("b", START_MS + 5)))
        self.assertTrue(self.topology.found_again(member("b", START_MS + 5)))
        self.topology.down("b", START_MS + 2 * 10**9)
        self.assertTrue(self.topology.announced(member("b", START_MS + 6)))
        found = self.topology.get("b")
        assert found is not None
        self.assertEqual(found.unique_event_id, START_MS + 2 * 10**9 + 1)

    def test_split_brain_detection(self) -> None:
        self.topology.own(connector(1))
        self.assertTrue(self.topology.up(member("me", START_MS + 1, port=2)))
        self.topology.own(connector(1))
        self.topology.split_brain_detection = True
        self.assertFalse(self.topology.up(member("me", START_MS + 2, port=2)))
        self.assertTrue(self.topology.up(member("me", START_MS + 3, port=None, backup=4)))
        own = self.topology.get("me")
        assert own is not None
        self.assertEqual((own.primary, own.backup), (connector(1), connector(4)))

    def test_another_broker_with_the_own_node_id_is_noticed(self) -> None:
        self.topology.own(connector(1))
        self.topology.up(member("me", START_MS - 1, port=2))
        self.topology.up(member("me", START_MS + 1, port=1))
        self.topology.up(member("me", START_MS + 2, port=None, backup=3))
        self.assertIsNone(self.topology.rival)
        self.topology.up(member("me", START_MS + 3, port=2))
        self.assertIn("'127.0.0.1:2' is announced with the node id of this one, me", str(self.topology.rival))
        self.topology.own(connector(1))
        self.assertIsNone(self.topology.rival)

    def test_a_lost_member_goes_however_far_its_clock_is_ahead(self) -> None:
        self.topology.up(member("b", START_MS + 10**9))
        self.assertFalse(self.topology.down("b", START_MS))
        self.assertTrue(self.topology.lost("b"))
        self.assertFalse(self.topology.up(member("b", START_MS)))
        self.assertTrue(self.topology.found_again(member("b", START_MS + 10**9)))
        self.assertFalse(self.topology.lost("c"))

    def test_an_event_id_that_is_no_time_is_not_believed(self) -> None:
        """What follows it could not be told to anybody: event ids have 64 bits."""
        latest = (1 << 63) - 1
        self.topology.own(connector(1))
        self.assertFalse(self.topology.up(member("b", latest)))
        self.assertFalse(self.topology.announced(member("b", latest)))
        self.topology.up(member("b", START_MS))
        self.assertFalse(self.topology.down("b", latest))
        self.topology.down("me", latest)
        own = self.topology.get("me")
        assert own is not None
        self.assertEqual(own.unique_event_id, START_MS)

    def test_the_latest_that_is_believed_leaves_room_for_later_ones(self) -> None:
        self.topology.own(connector(1))
        self.topology.down("me", limits.EVENT_ID_MAX)
        self.assertTrue(self.topology.up(member("b", limits.EVENT_ID_MAX)))
        for _ in range(3):
            self.assertTrue(self.topology.lost("b"))
            self.assertTrue(self.topology.found_again(member("b", 1)))
        self.assertTrue(self.topology.lost("b"))
        self.assertTrue(self.topology.announced(member("b", 1)))
        self.assertTrue(all(each.unique_event_id < 1 << 63 for each in self.topology))

    def test_limits(self) -> None:
        long = "x" * (limits.NAME_LENGTH_MAX + 1)
        many = TransportConfiguration("c", "f", tuple((str(n), "v") for n in range(limits.PARAMETERS_MAX + 1)))
        big = TransportConfiguration("c", "f", (("k", "v" * limits.CONNECTOR_LENGTH_MAX),))
        fine = member("b", 1)
        for refused in (
            replace(fine, node_id=long),
            replace(fine, node_id=""),
            replace(fine, backup_group_name=long),
            replace(fine, scale_down_group_name=long),
            replace(fine, primary=many),
            replace(fine, primary=big),
            replace(fine, backup=connector(1, long)),
        ):
            self.assertFalse(self.topology.up(refused), refused)
            self.topology.backup_announced(refused, 5)
        self.assertEqual(len(self.topology), 0)
        for number in range(MEMBERS_MAX):
            self.topology.up(member(f"n{number}", 1))
        self.assertFalse(self.topology.up(member("one more", 1)))
        self.assertTrue(self.topology.up(member("n0", 2)))
        self.topology.backup_announced(member("one more", 1), 5)
        self.assertEqual(len(self.topology), MEMBERS_MAX)


def told(peer: Peer) -> list[Any]:
    """What the peer is told on channel 0."""
    peer.world.clock.advance(0)
    return peer.take(PING_CHANNEL)


class ManagementTests(SynchronousTestCase):
    def test_the_network_topology(self) -> None:
        world, cluster = cluster_world()
        cluster.topology.up(member("b", 1, 61617, 61618))
        cluster.topology.up(replace(member("c", 1), primary=TransportConfiguration("c", "f")))
        self.assertTrue(world.registry.attribute("broker", "Clustered"))
        self.assertEqual(
            json.loads(world.registry.invoke("broker", "listNetworkTopology", [])),
            [
                {"nodeID": "b", "primary": "127.0.0.1:61617", "live": "127.0.0.1:61617", "backup": "127.0.0.1:61618"},
                {"nodeID": "c", "primary": "localhost:61616", "live": "localhost:61616"},
            ],
        )


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
        cluster.topology.up(member("b", 1))
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
        self.assertEqual(cluster.topology.subscribers, 1)
        peer.lose()
        self.assertEqual(cluster.topology.subscribers, 0)
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
