"""The scanner for brokers that nobody told of."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.scanner import Scanner
from mqclient.core.api import LocatorSettings
from mqclient.core.factories.factory import SessionFactory
from mqclient.core.factories.locator import Locator
from mqclient.protocol.topology import Topology, same_place
from mqclient.wire.packets import ClusterTopologyV4
from mqclient.wire.primitives import TransportConfiguration
from tests.support.network import NODE_ID, ScriptedBroker, World, connector


class ScannerTests(SynchronousTestCase):
    name = "c"

    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker)
        self.runtime = self.world.runtime
        self.topology = Topology()
        self.met_nodes: list[str | None] = []
        self.places = [connector(1)]

    def unknown_places(self) -> list[TransportConfiguration]:
        known = [member.primary for member in self.topology]
        return [place for place in self.places if not any(same_place(place, each) for each in known)]

    def met(self, factory: SessionFactory) -> None:
        self.met_nodes.append(factory.node_id)

    def open_locator(self, places: Sequence[TransportConfiguration]) -> Locator:
        return Locator(self.runtime, places, LocatorSettings(), topology=self.topology)

    def scanner(self, attempts: int) -> Scanner:
        scanner = Scanner(self, self.open_locator, attempts, 500)
        scanner.look()
        self.addCleanup(scanner.stop)
        return scanner

    def test_waits_an_interval_and_ends_when_all_are_found(self) -> None:
        self.places = [connector()]
        self.broker.topology = [ClusterTopologyV4(False, NODE_ID, 1, connector(), last=True, server_version=136)]
        scanner = self.scanner(30)
        self.assertEqual(self.world.network.tried, [])
        self.world.advance(0.6)
        self.assertEqual([member.node_id for member in self.topology], [NODE_ID])
        self.assertEqual(self.met_nodes, [NODE_ID])
        self.assertTrue(self.world.network.link.closed_by_client)
        self.world.advance(10)
        self.assertEqual(scanner.rounds, 1)

    def test_a_broker_that_announces_itself_at_another_place_is_visited_once(self) -> None:
        """The configuration names it by another name than its connector: no member will ever be at the visited place."""
        self.places = [connector()]
        self.broker.topology = [ClusterTopologyV4(False, NODE_ID, 1, connector(7), last=True, server_version=136)]
        scanner = self.scanner(3)
        with capturedLogs() as events:
            self.world.advance(10)
        self.assertEqual([member.primary for member in self.topology], [connector(7)])
        self.assertEqual((scanner.rounds, [event["log_level"] for event in events]), (1, []))
        scanner.look()
        self.world.advance(10)
        self.assertEqual(scanner.rounds, 2)

    def test_gives_up_after_its_attempts_and_begins_anew_when_asked(self) -> None:
        scanner = self.scanner(3)
        for _ in range(20):
            self.world.advance(0.5)
        self.assertEqual(scanner.rounds, 3)
        scanner.look()
        self.world.advance(0.6)
        self.assertEqual(scanner.rounds, 4)

    def test_without_attempts_it_never_looks(self) -> None:
        scanner = self.scanner(0)
        self.world.advance(5)
        self.assertEqual(scanner.rounds, 0)

    def test_without_end(self) -> None:
        scanner = self.scanner(-1)
        for _ in range(100):
            self.world.advance(0.5)
        self.assertGreater(scanner.rounds, 90)

    def test_stopped_in_the_middle(self) -> None:
        self.places = [connector()]
        self.broker.silent.add(type(self.broker.topology[0]))
        scanner = self.scanner(-1)
        self.world.runtime.clock.advance(0.6)
        scanner.stop()
        self.world.network.stir()
        self.world.advance(5)
        self.assertEqual(scanner.rounds, 1)
        self.assertEqual(self.world.runtime.failures, [])
