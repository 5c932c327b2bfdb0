"""The page of results is what ``make bench`` writes, and keeps to results and how to repeat them."""

from __future__ import annotations

import re

from twisted.trial.unittest import SynchronousTestCase

from tests.bench.report import BEGIN, END, absolute, render
from tests.bench.results import load_results
from tests.unit.docs.pages import ROOT, read

LINES_MAX = 200


class PerformanceTests(SynchronousTestCase):
    def test_the_results_are_those_that_are_kept(self) -> None:
        """If this fails: python -m tests.bench --from docs/performance/results.json"""
        text = read("docs", "performance.md")
        results = load_results(ROOT / "docs" / "performance" / "results.json")
        pictures = re.findall(r"!\[.*\]\((.*)\)", text)
        self.assertEqual(len(pictures), 3)
        self.assertEqual(text.partition(BEGIN)[2].partition(END)[0], f"\n{render(results, pictures)}\n")

    def test_absolute_figures_are_printed_and_not_on_the_page(self) -> None:
        results = load_results(ROOT / "docs" / "performance" / "results.json")
        self.assertIn("| durable 1 KiB, 1 × 1 | artemis |", absolute(results))
        self.assertNotIn("### Figures", read("docs", "performance.md"))

    def test_the_page_is_short_and_whole(self) -> None:
        text = read("docs", "performance.md")
        self.assertLessEqual(len(text.splitlines()), LINES_MAX)
        self.assertNotIn("@@", text + read("docs", "performance-notes.md"))
