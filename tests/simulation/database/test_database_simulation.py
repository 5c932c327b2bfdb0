"""A broker on a database keeps every promise, whatever the database does, and faults in it are found."""

from __future__ import annotations

import unittest
from typing import get_args

from mqbroker.process.forms import running_form
from tests.simulation import faults, plants
from tests.simulation.database.faults import DatabaseFault
from tests.simulation.database.run import simulate_database
from tests.simulation.many import run_many
from tests.simulation.network import Cut
from tests.simulation.plants import DATABASE_PLANTS

SEEDS = range(1, 101)
FIRST = SEEDS[:8]
"""Most plants are found by one of these: sooner than other processes begin."""
REPLAYED = 5
NOT_THERE = {faults.Damage, faults.SlowDisk}
FAULTS = sorted(kind.__name__ for kind in {*get_args(DatabaseFault), *get_args(faults.Fault), Cut} - NOT_THERE)


class DatabaseTests(unittest.TestCase):
    def test_every_promise_is_kept(self) -> None:
        summary = run_many(SEEDS, first_failure=True, kind="database")
        print(summary)
        self.assertEqual(summary.failed, [], "".join(outcome.report for outcome in summary.failed))
        self.assertGreater(summary.restarted, len(SEEDS) // 2)
        self.assertGreater(summary.receipts, 20 * len(SEEDS))
        self.assertEqual(sorted(summary.faults), FAULTS)

    def test_every_planted_fault_is_found(self) -> None:
        for name, plant in DATABASE_PLANTS.items():
            if plant is None or (running_form() != "pure" and plants.is_compiled(plant)):
                continue
            with self.subTest(name):
                summary = run_many(FIRST, 1, name, first_failure=True, kind="database")
                if not summary.failed:
                    summary = run_many(range(FIRST.stop, 301), plant=name, first_failure=True, kind="database")
                self.assertTrue(summary.failed, f"{summary.seeds} seeds have not found {name}")
                (outcome,) = summary.failed
                print(f"{name} is found by seed {outcome.seed}, run number {summary.seeds}: {outcome.violations[0]}")
                self.assertTrue(any(symptom in text for text in outcome.violations for symptom in plant.symptoms), outcome.violations)
                self.assertIn(f"--database --seed {outcome.seed} --verbose --plant {name}", outcome.report)

    def test_a_seed_replays(self) -> None:
        """Although threads of the system take part."""
        first, second = simulate_database(REPLAYED), simulate_database(REPLAYED)
        self.assertEqual(first.log, second.log)
