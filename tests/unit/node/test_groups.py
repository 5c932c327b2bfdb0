"""The groups by which brokers find each other: those that something uses listen, and what is announced must be there."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import BridgeConfiguration, BroadcastGroupConfiguration, DiscoveryGroupConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.node.groups import Groups, connector_of
from mqclient.protocol.discovery import UdpEndpoint
from tests.support.broker import World
from tests.support.clock import FakeClock
from tests.unit.cluster.bridge_support import connector
from tests.unit.node.test_clustering import Hearing

PLACE = UdpEndpoint("231.7.7.7", 9876)


class GroupsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.configuration = Configuration(security_enabled=False)
        self.configuration.discovery_groups = {name: DiscoveryGroupConfiguration(name, PLACE) for name in ("used", "idle")}
        self.configuration.bridges = [BridgeConfiguration("bridge", "q", discovery_group="used")]
        self.runtime = Hearing(self.clock)

    def groups(self) -> Groups:
        self.world = World(self.configuration, clock=self.clock)
        return Groups(self.world.server, self.runtime, Path("etc"), {"self": connector(1)})

    def test_only_groups_that_something_uses_listen(self) -> None:
        groups = self.groups()
        groups.listen()
        self.assertEqual((list(groups.discovery), len(self.runtime.received)), (["used"], 1))

    def test_one_that_is_needed_later_begins_to_listen_once(self) -> None:
        groups = self.groups()
        groups.listen()
        self.assertIsNotNone(groups.discovered("idle"))
        groups.discovered("idle")
        self.assertEqual(len(self.runtime.received), 2)

    def test_a_group_that_nobody_has_configured_is_none(self) -> None:
        self.assertIsNone(self.groups().discovered("unknown"))

    def test_what_metrics_show_of_groups_goes_with_them(self) -> None:
        groups = self.groups()
        before = len(list(self.world.server.gauges))
        groups.listen()
        self.assertGreater(len(list(self.world.server.gauges)), before)
        groups.stop()
        self.assertEqual(len(list(self.world.server.gauges)), before)

    def test_a_connector_that_is_to_be_announced_must_be_there(self) -> None:
        self.configuration.broadcast_groups = [BroadcastGroupConfiguration("news", PLACE, connectors=("sefl",))]
        error = self.assertRaises(ValueError, self.groups)
        self.assertEqual(str(error), "broadcast-group news: there is no connector sefl; expected: self")

    def test_without_connectors_the_error_says_what_to_do(self) -> None:
        self.assertIn("expected: one that is configured", str(self.assertRaises(ValueError, connector_of, {}, "a", "bridge b")))
