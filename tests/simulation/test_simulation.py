"""The simulation holds for production code, finds what is planted, and replays."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import get_args
from unittest import mock

from tests.simulation import faults, plants
from tests.simulation.looking import look_for
from tests.simulation.many import run_many
from tests.simulation.network import Cut
from tests.simulation.plants import PLANTS, Plant, PlantError, planted
from tests.simulation.run import simulate

SEEDS = range(1, 501)
PLANT_SEEDS = SEEDS[:300]
REPLAYED = 7
ROOT = Path(__file__).resolve().parents[2]
FAULTS = sorted(kind.__name__ for kind in (*get_args(faults.Fault), Cut))


class SimulationTests(unittest.TestCase):
    def test_every_promise_is_kept(self) -> None:
        summary = run_many(SEEDS, first_failure=True)
        print(summary)
        self.assertEqual(summary.failed, [], "".join(outcome.report for outcome in summary.failed))
        # The runs are worth something: most lose their broker, every kind of fault is there, and messages go through.
        self.assertGreater(summary.restarted, len(SEEDS) // 2)
        self.assertGreater(summary.receipts, 20 * len(SEEDS))
        self.assertEqual(sorted(summary.faults), FAULTS)
        self.assertGreater(min(summary.faults.values()), 10)

    def test_every_planted_fault_is_found(self) -> None:
        look_for(self, PLANTS, "single", PLANT_SEEDS)

    def test_a_plant_whose_code_has_moved_fails(self) -> None:
        gone = Plant("mqbroker.storage.tickets:Tickets.gone", "", "", ())
        changed = Plant("mqbroker.storage.tickets:Tickets.when_synced", "no such text", "", ())
        for plant in (gone, changed):
            with mock.patch.dict(plants.RUN_PLANTS, {"moved": plant}), self.assertRaises(PlantError), planted("moved"):
                pass

    def test_the_report_of_a_failure_tells_how_to_replay_it(self) -> None:
        with planted("acknowledge-before-sync"):
            result = next(result for seed in SEEDS if (result := simulate(seed)).violations)
            self.assertEqual(simulate(result.seed).digest, result.digest)
        report = result.report()
        self.assertIn(f"--seed {result.seed}", report)
        for fault in (*result.schedule.timed, *result.schedule.cuts):
            self.assertIn(str(fault), report)

    def test_a_seed_replays(self) -> None:
        first, second = simulate(REPLAYED), simulate(REPLAYED)
        self.assertEqual(first.log, second.log)
        self.assertNotEqual(first.log, simulate(REPLAYED + 1).log)

    def test_a_seed_replays_in_another_process(self) -> None:
        """Whatever the hashes of strings are there."""
        digest = simulate(REPLAYED).digest
        for hash_seed in ("1", "2"):
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
            done = subprocess.run(
                [sys.executable, "-m", "tests.simulation", "--seed", str(REPLAYED)],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(digest, done.stdout)
