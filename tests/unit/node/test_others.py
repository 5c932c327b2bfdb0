"""What an activation does together with other brokers: nothing before it is needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import ScaleDownConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.node.others import Others
from mqbroker.node.parts import StartError
from mqbroker.server.cluster_port import ColocatedFigures, CopyFigures

COPIES = CopyFigures(1, True, None, None)
COLOCATED = ColocatedFigures("host", [])


class PlayedClustering:
    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.starts = 0
        self.manager = object()
        self.bridges = object()
        self.groups = SimpleNamespace(broadcast={"g": object()})
        self.scale_down: Any = None

    def start(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.starts += 1

    def scale_down_to(self, configuration: ScaleDownConfiguration) -> None:
        self.scale_down = SimpleNamespace(configuration=configuration, cut=False)
        self.scale_down.cut_short = lambda: setattr(self.scale_down, "cut", True)

    def problem(self) -> str:
        return "alone"


class OthersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.made: list[PlayedClustering] = []
        self.failure: Exception | None = None
        self.stops: list[str] = []

    def others(self, **options: Any) -> Others:
        def make() -> Any:
            self.made.append(PlayedClustering(self.failure))
            return self.made[-1]

        stop, hand_over = (lambda: self.stops.append("stop")), (lambda: self.stops.append("hand over"))
        return Others(Configuration(**options), make, stop, hand_over, lambda: COPIES, lambda: COLOCATED)

    def test_a_broker_alone_has_nothing_to_show(self) -> None:
        others = self.others()
        self.assertEqual((others.cluster, others.bridges, others.broadcast_groups, others.problem()), (None, None, {}, None))
        self.assertIs(others.copies, COPIES)
        self.assertIs(others.colocated, COLOCATED)
        others.cut_short()
        self.assertEqual((others.scales_down, self.made), (False, []))

    def test_clustering_is_made_and_started_once(self) -> None:
        others = self.others()
        others.join()
        others.join()
        bridges = others.open_bridges()
        (made,) = self.made
        self.assertEqual((made.starts, bridges, others.cluster), (1, made.bridges, made.manager))
        self.assertEqual((others.broadcast_groups, others.problem()), (made.groups.broadcast, "alone"))

    def test_a_configuration_that_cannot_be_used_stops_the_start(self) -> None:
        self.failure = ValueError("no such group")
        self.assertIn("no such group", str(self.assertRaises(StartError, self.others().join)))

    def test_who_asks_for_a_scale_down_names_the_first_target_and_stops_the_broker(self) -> None:
        others = self.others(scale_down=ScaleDownConfiguration(connectors=("known",)))
        others.scale_down_to("asked")
        found = self.made[0].scale_down.configuration
        self.assertEqual((found.enabled, found.connectors, others.scales_down, self.stops), (True, ("asked", "known"), True, ["stop"]))

    def test_who_asks_for_a_failover_stops_the_broker_that_hands_over(self) -> None:
        self.others().fail_over()
        self.assertEqual((self.stops, self.made), (["hand over", "stop"], []))

    def test_a_broker_that_stops_at_once_leaves_its_messages_where_they_are(self) -> None:
        others = self.others()
        others.scale_down_to(None)
        others.cut_short()
        self.assertTrue(self.made[0].scale_down.cut)
