"""A member of a home cluster, assembled: its links carry sessions, and its consumers look elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.home_cluster import HomeCluster
from mqbroker.imq.links.link import HomeLoads
from mqbroker.storage.memorystore import MemoryStore
from mqclient.urls import parse_transport_uri
from tests.support.broker import World
from tests.support.clock import FakeClock
from tests.unit.cluster.bridge_support import MemoryRuntime


class HomesTests(SynchronousTestCase):
    def setUp(self) -> None:
        configuration = Configuration(
            security_enabled=False,
            connectors={name: parse_transport_uri(f"tcp://127.0.0.1:{port}", name) for name, port in (("me", 7676), ("other", 7677))},
            cluster_connections=[ClusterConnectionConfiguration("imq", "me", static_connectors=("other",))],
            home_cluster=HomeCluster(("127.0.0.1:7676", "127.0.0.1:7677"), None, "127.0.0.1:7676"),
        )
        clock = FakeClock()
        self.world = World(
            configuration, clock=clock, store=MemoryStore(lambda size: bytes(range(size))), make_runtime=lambda: MemoryRuntime(clock)
        )
        self.world.broker.others.join()
        clustering = self.world.broker.others.clustering
        assert clustering is not None and clustering.homes is not None and clustering.manager is not None
        self.clustering, self.homes, self.connection = clustering, clustering.homes, clustering.manager.default

    def gauges(self) -> list[str]:
        return [gauge.name for gauge in self.world.server.gauges]

    def test_one_cluster_connection_carries_the_links(self) -> None:
        self.assertIsInstance(self.connection.loads, HomeLoads)
        self.assertIs(self.world.messaging.core.elsewhere, self.homes.delivery)

    def test_it_shows_undecided_branches_until_it_stops(self) -> None:
        self.assertIn("imq.branches.undecided", self.gauges())
        self.clustering.stop()
        self.assertNotIn("imq.branches.undecided", self.gauges())

    def test_other_brokers_import_nothing_of_it(self) -> None:
        command = "from tests.support.broker import World; World(); import sys; print([n for n in sys.modules if 'mqbroker.imq' in n])"
        root = Path(__file__).resolve().parents[3]
        found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, cwd=root, timeout=60, check=True)
        self.assertEqual(found.stdout.strip(), "[]")
