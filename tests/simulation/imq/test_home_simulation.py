"""The simulation of home brokers holds for production code, finds what is planted, and replays."""

from __future__ import annotations

import unittest

from tests.simulation.imq.run import simulate_homes
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
        for name, plant in HOME_PLANTS.items():
            if plant is None:
                continue
            with self.subTest(name):
                summary = run_many((*plant.seeds, *SEEDS), plant=name, first_failure=True, kind="homes")
                self.assertTrue(summary.failed, f"{summary.seeds} seeds have not found {name}")
                (outcome,) = summary.failed
                print(f"{name} is found by seed {outcome.seed}, run number {summary.seeds}: {outcome.violations[0]}")
                self.assertTrue(any(symptom in text for text in outcome.violations for symptom in plant.symptoms), outcome.violations)
                self.assertIn(f"--homes --seed {outcome.seed} --verbose --plant {name}", outcome.report)

    def test_a_seed_replays(self) -> None:
        first, second = simulate_homes(REPLAYED), simulate_homes(REPLAYED)
        self.assertEqual(first.log, second.log)
        self.assertNotEqual(first.log, simulate_homes(REPLAYED + 1).log)
