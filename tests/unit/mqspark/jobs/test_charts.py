"""Plots: every mark lies in the picture and has its number, and the axis has round steps."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqspark.jobs.charts import SERIES_MAX, Series, axis_ticks, lines, ranking, stacked_bars


def picture(plot: str) -> ElementTree.Element:
    """The SVG of a plot, which has to be well-formed."""
    return ElementTree.fromstring(plot[: plot.index("</svg>") + 6])


class AxisTests(SynchronousTestCase):
    @given(st.floats(1e-6, 1e15))
    def test_steps_are_round_and_reach_the_greatest_value(self, most: float) -> None:
        ticks = axis_ticks(most)
        self.assertEqual(ticks[0], 0)
        self.assertGreaterEqual(ticks[-1], most * (1 - 1e-6))
        self.assertTrue(4 <= len(ticks) <= 9, ticks)
        self.assertIn(f"{ticks[1]:e}"[0], "125")

    def test_of_nothing_there_is_an_axis_too(self) -> None:
        self.assertEqual(axis_ticks(0), [0.0, 1.0])


class PlotTests(SynchronousTestCase):
    @given(st.lists(st.tuples(st.floats(0, 1e12), st.none() | st.floats(0, 1e12)), min_size=1, max_size=50))
    def test_bars_stand_on_each_other_inside_the_picture(self, values: list[tuple[float, float | None]]) -> None:
        series = [Series("a", [one for one, _ in values]), Series("b", [two for _, two in values])]
        found = picture(stacked_bars([str(place) for place in range(len(values))], series, str))
        bars = found.findall("rect")
        self.assertEqual(len(bars), sum(1 for pair in values for value in pair if value))
        for bar in bars:
            top, height = float(bar.attrib["y"]), float(bar.attrib["height"])
            self.assertGreaterEqual(top, 11.9)
            self.assertGreaterEqual(height, 0)
            self.assertLessEqual(top + height, 300 - 34 + 0.2)

    def test_a_line_breaks_where_there_is_no_value(self) -> None:
        plot = lines(["a", "b", "c", "d", "e"], [Series("p50", [1, 2, None, 3, 4])], str)
        found = picture(plot)
        self.assertEqual([len(line.attrib["points"].split()) for line in found.findall("polyline")], [2, 2])
        self.assertEqual(len(found.findall("circle")), 4)

    def test_a_value_below_zero_stays_in_the_picture(self) -> None:
        found = picture(lines(["a", "b"], [Series("p50", [-5, 5])], str))
        self.assertTrue(all(float(point.attrib["cy"]) <= 300 - 34 for point in found.findall("circle")))

    def test_names_are_no_markup(self) -> None:
        name = "<script>alert('x')</script>"
        for plot in (stacked_bars([name], [Series(name, [1])], str), lines([name], [Series(name, [1])], str), ranking([(name, 1)], str)):
            self.assertNotIn("<script", plot)
            self.assertIn("&lt;script&gt;", plot)
            picture(plot)

    def test_labels_do_not_run_into_each_other(self) -> None:
        plot = stacked_bars([f"h{hour}" for hour in range(744)], [Series("a", [1] * 744)], str)
        self.assertLessEqual(len(re.findall(r">h\d+</text>", plot)), 8)

    def test_what_cannot_be_told_apart_is_refused(self) -> None:
        self.assertRaises(ValueError, lines, ["a"], [Series(str(number), [1]) for number in range(SERIES_MAX + 1)], str)
        self.assertRaises(ValueError, stacked_bars, ["a", "b"], [Series("x", [1])], str)

    def test_nothing_can_be_plotted(self) -> None:
        for plot in (stacked_bars([], [], str), lines([], [], str), ranking([], str)):
            picture(plot)

    def test_the_greatest_of_a_ranking_is_the_longest(self) -> None:
        widths = [float(bar.attrib["width"]) for bar in picture(ranking([("a", 10), ("b", 5), ("c", 0)], str)).findall("rect")]
        self.assertEqual(widths[0], 2 * widths[1])
        self.assertEqual(widths[2], 1)
