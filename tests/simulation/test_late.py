"""Every promise is kept by a store that answers later: queues, readers, links, scale-down and whatever else reads wait for it."""

from __future__ import annotations

import unittest

from mqbroker.process.forms import running_form
from tests.simulation import plants
from tests.simulation.many import run_many
from tests.simulation.plants import LATE_PLANTS

SEEDS = range(1, 61)


class LateTests(unittest.TestCase):
    def test_every_promise_is_kept(self) -> None:
        summary = run_many(SEEDS, first_failure=True, kind="late")
        print(summary)
        self.assertEqual(summary.failed, [], "".join(outcome.report for outcome in summary.failed))
        self.assertGreater(summary.handovers, 3)

    def test_every_planted_fault_is_found(self) -> None:
        for name, plant in LATE_PLANTS.items():
            if plant is None or (running_form() != "pure" and plants.is_compiled(plant)):
                continue
            with self.subTest(name):
                summary = run_many(SEEDS, plant=name, first_failure=True, kind="late")
                self.assertTrue(summary.failed, f"{summary.seeds} seeds have not found {name}")
                (outcome,) = summary.failed
                print(f"{name} is found by seed {outcome.seed}, run number {summary.seeds}: {outcome.violations[0]}")
                self.assertTrue(any(symptom in text for text in outcome.violations for symptom in plant.symptoms), outcome.violations)
                self.assertIn(f"--late --seed {outcome.seed} --verbose --plant {name}", outcome.report)
