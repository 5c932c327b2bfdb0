"""Orderly stops, starts that fail and scale-down keep every promise, and faults in them are found."""

from __future__ import annotations

import unittest

from mqbroker.process.forms import running_form
from tests.simulation import plants
from tests.simulation.many import run_many
from tests.simulation.plants import STOP_PLANTS

SEEDS = range(1, 201)
FIRST = SEEDS[:8]
"""Most plants are found by one of these: sooner than other processes begin."""
FAULTS = ["ScaleDown", "StartTrouble", "Stop"]


class StopTests(unittest.TestCase):
    def test_every_promise_is_kept(self) -> None:
        summary = run_many(SEEDS, first_failure=True, kind="stops")
        print(summary)
        self.assertEqual(summary.failed, [], "".join(outcome.report for outcome in summary.failed))
        self.assertGreater(summary.restarted, len(SEEDS) // 2)
        self.assertGreater(summary.handovers, len(SEEDS) // 8)
        self.assertEqual(sorted(summary.faults), FAULTS)
        self.assertGreater(min(summary.faults.values()), 50)

    def test_every_planted_fault_is_found(self) -> None:
        for name, plant in STOP_PLANTS.items():
            if plant is None or (running_form() != "pure" and plants.is_compiled(plant)):
                continue
            with self.subTest(name):
                summary = run_many((*plant.seeds, *FIRST), 1, name, first_failure=True, kind="stops")
                if not summary.failed:
                    summary = run_many(SEEDS[len(FIRST) :], plant=name, first_failure=True, kind="stops")
                self.assertTrue(summary.failed, f"{summary.seeds} seeds have not found {name}")
                (outcome,) = summary.failed
                print(f"{name} is found by seed {outcome.seed}, run number {summary.seeds}: {outcome.violations[0]}")
                self.assertTrue(any(symptom in text for text in outcome.violations for symptom in plant.symptoms), outcome.violations)
                self.assertIn(f"--stops --seed {outcome.seed} --verbose --plant {name}", outcome.report)
