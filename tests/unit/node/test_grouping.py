"""The grouping handler of a broker: messaging routes by it from the start, and nothing is left of it once the broker leaves others."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.grouping.local_grouping import LocalGrouping
from mqbroker.cluster.grouping.remote_grouping import RemoteGrouping
from mqbroker.config.model.cluster import GroupingHandlerConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.node.clustering import Clustering
from mqclient.urls import parse_transport_uri
from tests.support.broker import World
from tests.unit.cluster.bridge_support import MemoryRuntime
from tests.unit.cluster.support import CONNECTIONS


def grouping_world(local: bool) -> World:
    return World(
        Configuration(
            security_enabled=False,
            cluster_connections=CONNECTIONS,
            connectors={"self": parse_transport_uri("tcp://127.0.0.1:1", "self")},
            grouping_handler=GroupingHandlerConfiguration("handler", local),
        )
    )


class GroupingTests(SynchronousTestCase):
    def test_messaging_routes_by_it_before_the_broker_joins_others(self) -> None:
        for local, kind in ((True, LocalGrouping), (False, RemoteGrouping)):
            self.assertIsInstance(grouping_world(local).messaging.core.routing.grouping, kind)
        self.assertIsNone(World().messaging.core.routing.grouping)

    def test_it_hears_and_is_shown_until_the_broker_leaves_others(self) -> None:
        world = grouping_world(True)
        notifications = world.server.notifications
        handler = world.messaging.core.routing.grouping
        assert isinstance(handler, LocalGrouping)
        clustering = Clustering(world.server, MemoryRuntime(world.clock), Path("etc"), {}, handler)
        for wanted in (1, 0):
            if wanted:
                clustering.start()
            else:
                clustering.stop()
            heard = len(notifications.told.listeners), len(notifications.queue_info.sent.listeners)
            shown = [gauge.name for gauge in world.server.gauges if gauge.name.startswith("grouping")]
            self.assertEqual((heard, len(shown)), ((wanted, wanted), 3 * wanted))
