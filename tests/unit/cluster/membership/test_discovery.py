"""Discovery groups of a broker, on a fake clock."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.broadcast import BroadcastGroup
from mqbroker.cluster.membership.discovery import DiscoveryGroup, endpoint_in
from mqbroker.config.model.cluster import DiscoveryGroupConfiguration
from mqbroker.server.observation.gauges import Gauges
from mqclient.protocol.discovery import JGroupsEndpoint, encode_announcement
from mqclient.wire.properties import STRING
from tests.unit.cluster.membership.test_broadcast import BROADCAST, GroupCase
from tests.unit.mqclient.core.discovery.support import GROUP, SELF

DISCOVERY = DiscoveryGroupConfiguration("my-discovery-group", GROUP)


class DiscoveryTests(GroupCase):
    def setUp(self) -> None:
        super().setUp()
        self.told = 0
        self.group = DiscoveryGroup("my-discovery-group", DISCOVERY, self.runtime, "node-a", "unique-a", self.notify)
        self.group.listeners.append(self.tell)
        self.group.start()

    def tell(self) -> None:
        self.told += 1

    def hear(self, node_id: str, unique_id: str = "u") -> None:
        self.ether.send(GROUP, encode_announcement(node_id, unique_id, [SELF]))

    def test_others_are_found_and_forgotten_when_they_fall_silent(self) -> None:
        self.hear("node-a", "unique-a")
        self.assertEqual(self.group.connectors(), [])
        self.hear("node-b")
        self.clock.advance(5)
        self.hear("node-c")
        self.assertEqual([broker.node_id for broker in self.group.discovered.brokers], ["node-b", "node-c"])
        self.assertEqual(self.group.connectors(), [SELF, SELF])
        self.clock.advance(5)
        self.assertEqual([broker.node_id for broker in self.group.discovered.brokers], ["node-c"])
        self.clock.advance(5)
        self.assertEqual(self.group.connectors(), [])
        self.assertEqual(self.told, 4)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_broker_that_goes_on_announcing_itself_stays(self) -> None:
        group = BroadcastGroup(BROADCAST, [SELF], self.runtime, "node-b")
        group.start()
        self.clock.pump([0.5] * 100)
        self.assertEqual(len(self.group.discovered.brokers), 1)
        group.stop()
        self.clock.pump([0.5] * 21)
        self.assertEqual(len(self.group.discovered.brokers), 0)
        self.assertEqual(self.told, 2)

    def test_counters_are_metrics(self) -> None:
        gauges = Gauges()
        broadcast = BroadcastGroup(BROADCAST, [SELF], self.runtime, "node-b")
        undo = [self.group.register(gauges), broadcast.register(gauges)]
        broadcast.start()
        self.ether.send(GROUP, b"junk")
        self.assertEqual((self.group.discovered.datagrams, self.group.discovered.damaged, self.group.discovered.refused), (2, 1, 0))
        self.assertEqual(
            {(gauge.name, *gauge.labels): gauge.read() for gauge in gauges},
            {
                ("discovery.brokers", ("discovery_group", "my-discovery-group")): 1,
                ("discovery.contested", ("discovery_group", "my-discovery-group")): 0,
                ("discovery.datagrams", ("discovery_group", "my-discovery-group")): 2,
                ("discovery.damaged", ("discovery_group", "my-discovery-group")): 1,
                ("discovery.refused", ("discovery_group", "my-discovery-group")): 0,
                ("broadcast.sent", ("broadcast_group", "my-broadcast-group")): 1,
            },
        )
        for each in undo:
            each()
        self.assertEqual(list(gauges), [])

    def test_a_copied_data_folder_is_seen(self) -> None:
        self.hear("node-a", "unique-a")
        self.hear("node-a", "another")
        self.assertEqual(self.group.contested, ("node-a",))
        self.assertIn("node-a", str(self.group.problem()))
        self.assertIn("two brokers have the same node id", self.runtime.warnings[0])
        self.clock.advance(10)
        self.assertEqual(self.group.contested, ())
        self.assertIsNone(self.group.problem())

    def test_others_with_one_node_id_are_not_this_brokers_problem(self) -> None:
        for unique_id in ("1", "2", "1"):
            self.hear("node-b", unique_id)
        self.assertEqual(self.group.contested, ("node-b",))
        self.assertIsNone(self.group.problem())

    def test_the_stop_forgets_everybody(self) -> None:
        self.hear("node-b")
        self.group.stop()
        self.group.stop()
        self.hear("node-c")
        self.assertEqual(self.group.connectors(), [])
        self.assertEqual(self.clock.getDelayedCalls(), [])
        name = {"name": (STRING, "my-discovery-group")}
        self.assertEqual(self.notified, [("DISCOVERY_GROUP_STARTED", name), ("DISCOVERY_GROUP_STOPPED", name)])
        self.group.start()
        self.hear("node-c")
        self.assertEqual(self.group.connectors(), [SELF])

    def test_a_refusal_of_the_system_is_told_once_and_tried_again(self) -> None:
        self.group.stop()
        self.ether.refusal = "no such device"
        self.group.start()
        self.clock.pump([5.0] * 3)
        self.hear("node-b")
        self.assertEqual(self.group.connectors(), [])
        self.assertEqual(len(self.runtime.warnings), 1)
        self.ether.refusal = None
        self.clock.advance(5.0)
        self.hear("node-b")
        self.assertEqual(self.group.connectors(), [SELF])

    def test_a_stop_ends_the_attempts(self) -> None:
        self.group.stop()
        self.ether.refusal = "no such device"
        self.group.start()
        self.group.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])


class StackFileTests(SynchronousTestCase):
    def test_stack_files_are_looked_up_in_etc(self) -> None:
        self.assertEqual(endpoint_in(JGroupsEndpoint("c", "stack.xml"), "/broker/etc"), JGroupsEndpoint("c", "/broker/etc/stack.xml"))
        self.assertEqual(endpoint_in(JGroupsEndpoint("c", "/else/stack.xml"), "/broker/etc"), JGroupsEndpoint("c", "/else/stack.xml"))
        self.assertEqual(endpoint_in(GROUP, "/broker/etc"), GROUP)
