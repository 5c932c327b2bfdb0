"""What metrics show of the link to each member."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.link_metrics import show
from mqbroker.server.observation.gauges import Gauges


class LinkMetricsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.gauges = Gauges()
        self.waiting = 5
        load = SimpleNamespace(series=lambda: (("cluster.link.backlog", "Messages that wait", lambda: self.waiting),))
        self.member: Any = SimpleNamespace(load=load, node_id="n2", state="connecting", connections=3)
        self.hide = show(self.gauges, "c", self.member)

    def values(self) -> dict[str, float]:
        return {gauge.name.removeprefix("cluster.link."): gauge.read() for gauge in self.gauges}

    def test_each_look_shows_the_link_as_it_is_then(self) -> None:
        expected = {"connected": False, "backlog": 5, "connections": 3}
        self.assertEqual(self.values(), expected)
        self.member.state = "connected"
        self.waiting = 0
        self.assertEqual(self.values(), {**expected, "connected": True, "backlog": 0})

    def test_series_say_which_link_they_are_about(self) -> None:
        self.assertEqual({gauge.labels for gauge in self.gauges}, {(("cluster", "c"), ("node", "n2"))})

    def test_a_member_that_is_gone_is_not_shown(self) -> None:
        show(self.gauges, "c", SimpleNamespace(**{**vars(self.member), "node_id": "n3"}))  # type: ignore[arg-type]
        self.hide()
        self.assertEqual({dict(gauge.labels)["node"] for gauge in self.gauges}, {"n3"})
