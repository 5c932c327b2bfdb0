"""Series of parts that come and go."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.server.observation.gauges import Gauges


class GaugeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.gauges = Gauges()

    def shown(self) -> list[tuple[str, tuple[tuple[str, str], ...], float]]:
        return [(gauge.name, gauge.labels, gauge.read()) for gauge in self.gauges]

    def test_a_series_is_shown_until_it_is_taken_away(self) -> None:
        away = self.gauges.register("link.up", "says it", {"peer": "b"}, lambda: 1.0)
        self.assertEqual(self.shown(), [("link.up", (("peer", "b"),), 1.0)])
        away()
        away()
        self.assertEqual(self.shown(), [])

    def test_the_newest_of_the_same_name_and_labels_is_shown(self) -> None:
        old = self.gauges.register("link.up", "", {"peer": "b"}, lambda: 1.0)
        self.gauges.register("link.up", "", {"peer": "b"}, lambda: 2.0)
        self.gauges.register("link.up", "", {"peer": "c"}, lambda: 3.0)
        old()
        self.assertEqual([value for *_, value in self.shown()], [2.0, 3.0])

    def test_series_may_go_while_they_are_looked_at(self) -> None:
        away = self.gauges.register("a", "", {}, lambda: 1.0)
        self.gauges.register("b", "", {}, lambda: 2.0)
        seen = []
        for gauge in self.gauges:
            away()
            seen.append(gauge.name)
        self.assertEqual(seen, ["a", "b"])

    def test_series_that_were_shown_together_go_together(self) -> None:
        self.gauges.register("other", "", {}, lambda: 0.0)
        away = self.gauges.register_all({"peer": "b"}, ("up", "says it", lambda: 1.0), ("late", "", lambda: 2.0))
        shown = [(gauge.name, gauge.labels, gauge.read()) for gauge in self.gauges]
        self.assertEqual(shown[1:], [("up", (("peer", "b"),), 1.0), ("late", (("peer", "b"),), 2.0)])
        away()
        self.assertEqual([gauge.name for gauge in self.gauges], ["other"])
