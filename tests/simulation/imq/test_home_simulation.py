"""The simulation of home brokers holds for production code, finds what is planted, and replays."""

from __future__ import annotations

import unittest

from tests.simulation.imq.run import simulate_homes
from tests.simulation.looking import look_for
from tests.simulation.many import run_many
from tests.simulation.plants import HOME_PLANTS

SEEDS = range(1, 101)
REPLAYED = 2
FAULTS = {"Away", "Crash", "CrashInWrite", "Cut", "DyingLink", "Partition", "Pause", "Stop"}
"""Some of those of clusters: all others are of one broker alone."""


class HomeSimulationTests(unittest.TestCase):
    def test_every_promise_is_kept(self) -> None:
        summary = run_many(SEEDS, first_failure=True, kind="homes")
        print(summary)
        self.assertEqual(summary.failed, [], "".join(outcome.report for outcome in summary.failed))
        self.assertGreater(summary.restarted, len(SEEDS) // 2)
        self.assertGreater(summary.receipts, 20 * len(SEEDS))
        self.assertEqual(FAULTS - summary.faults.keys(), set())

    def test_every_planted_fault_is_found(self) -> None:
        look_for(self, HOME_PLANTS, "homes", SEEDS)

    def test_a_seed_replays(self) -> None:
        first, second = simulate_homes(REPLAYED), simulate_homes(REPLAYED)
        self.assertEqual(first.log, second.log)
        self.assertNotEqual(first.log, simulate_homes(REPLAYED + 1).log)
