"""The statistics that commands with traffic print."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.traffic.stats import Latencies, Tally, summary, summary_lines


class StatisticsTests(SynchronousTestCase):
    @given(st.lists(st.floats(0.01, 100_000), min_size=1, max_size=200), st.sampled_from([50.0, 90.0, 99.0, 100.0]))
    def test_percentiles_are_right_within_two_per_cent(self, values: list[float], percent: float) -> None:
        latencies = Latencies()
        for value in values:
            latencies.add(value)
        rank = -(-len(values) * percent // 100)
        exact = sorted(values)[int(rank) - 1]
        found = latencies.percentile(percent)
        self.assertTrue(exact * 0.999 <= found <= exact * 1.0201, (exact, found))

    def test_merged_threads_count_together(self) -> None:
        tallies = [Tally("a", count=2), Tally("b", count=2)]
        for tally, value in zip(tallies, (1.0, 100.0), strict=True):
            tally.latencies.add(value)
            tally.latencies.add(value)
        result = summary(tallies, 2.0)
        self.assertEqual((result["messages"], result["messagesPerSecond"]), (4, 2.0))
        latency = result["latencyMs"]
        assert isinstance(latency, dict)
        self.assertEqual((round(latency["p50"]), latency["max"]), (1, 100.0))
        self.assertEqual(summary_lines(result, "x")[0], "Rate: 4 messages in 2.0 s, 2.0 messages/s")

    def test_nothing_counted(self) -> None:
        result = summary([], 0.0)
        self.assertEqual((result["messages"], result["messagesPerSecond"]), (0, 0.0))

    def test_clocks_that_differ_give_no_negative_latency(self) -> None:
        latencies = Latencies()
        latencies.add(-5.0)
        self.assertEqual(latencies.percentile(50), 0.0)
