"""Broadcast groups and discovery groups of a broker, on a fake clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.broadcast import BroadcastGroup
from mqbroker.config.model.cluster import BroadcastGroupConfiguration
from mqclient.protocol.discovery import UdpEndpoint, decode_announcement
from mqclient.wire.properties import STRING, TypedValue
from tests.unit.mqclient.core.discovery.support import GROUP, OTHER, SELF, Ether, EtherRuntime

BROADCAST = BroadcastGroupConfiguration("my-broadcast-group", GROUP, 2000, ("self", "other"))


class GroupCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.ether = Ether()
        self.runtime = EtherRuntime(self.clock, self.ether)
        self.notified: list[tuple[str, Mapping[str, TypedValue]]] = []

    def notify(self, kind: str, headers: Mapping[str, TypedValue]) -> None:
        self.notified.append((kind, headers))


class BroadcastTests(GroupCase):
    def group(self, configuration: BroadcastGroupConfiguration = BROADCAST) -> BroadcastGroup:
        return BroadcastGroup(configuration, [SELF, OTHER], self.runtime, "node-a", "unique-a", self.notify)

    def test_the_first_datagram_goes_at_once_and_then_one_each_period(self) -> None:
        group = self.group()
        group.start()
        self.assertEqual(len(self.ether.sent), 1)
        self.clock.advance(1.9)
        self.assertEqual(len(self.ether.sent), 1)
        self.clock.pump([0.1] + [2.0] * 3)
        self.assertEqual((len(self.ether.sent), group.sent), (5, 5))

    def test_all_connectors_are_announced_and_the_first_stands_last(self) -> None:
        self.group().start()
        said = decode_announcement(self.ether.sent[0])
        self.assertEqual((said.node_id, said.unique_id), ("node-a", "unique-a"))
        self.assertEqual([connector.name for connector in said.connectors], ["other", "self"])

    def test_each_start_of_a_broker_has_its_own_unique_id(self) -> None:
        one = BroadcastGroup(BROADCAST, [SELF], self.runtime, "node-a")
        other = BroadcastGroup(BROADCAST, [SELF], self.runtime, "node-a")
        one.start()
        other.start()
        self.assertNotEqual(*[decode_announcement(data).unique_id for data in self.ether.sent])

    def test_nothing_is_sent_after_the_stop(self) -> None:
        group = self.group()
        group.start()
        group.start()
        group.stop()
        group.stop()
        self.clock.advance(10)
        self.assertEqual(len(self.ether.sent), 1)
        self.assertEqual(self.ether.links, [])
        self.assertEqual(self.clock.getDelayedCalls(), [])
        name = {"name": (STRING, "my-broadcast-group")}
        self.assertEqual(self.notified, [("BROADCAST_GROUP_STARTED", name), ("BROADCAST_GROUP_STOPPED", name)])

    def test_it_can_start_again(self) -> None:
        group = self.group()
        group.start()
        group.stop()
        group.start()
        self.assertEqual(len(self.ether.sent), 2)

    def test_a_refusal_of_the_system_is_told_once_and_tried_again(self) -> None:
        self.ether.refusal = "no such device"
        group = self.group()
        group.start()
        self.clock.pump([2.0] * 3)
        self.assertEqual(len(self.runtime.warnings), 1)
        self.assertIn("my-broadcast-group: no such device", self.runtime.warnings[0])
        self.ether.refusal = None
        self.clock.advance(2.0)
        self.assertEqual((len(self.ether.sent), group.sent), (1, 1))

    def test_an_endpoint_that_cannot_be_used_stops_the_start(self) -> None:
        group = self.group(replace(BROADCAST, endpoint=UdpEndpoint("224.0.0.0", 9876)))
        self.assertIn("reserved", str(self.assertRaises(ValueError, group.start)))
        self.assertFalse(group.started)
