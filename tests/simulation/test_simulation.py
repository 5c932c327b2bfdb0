"""The simulation holds for production code, finds what is planted, and replays."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path

from mqbroker.storage.filestore import FileStore
from tests.simulation.plants import AcknowledgesBeforeSync, ForgetsDuplicateIds
from tests.simulation.run import Result, simulate

SEEDS = range(1, 101)
REPLAYED = 7
ROOT = Path(__file__).resolve().parents[2]


def first_failure(store_class: type[FileStore]) -> Result | None:
    """The first of the suite's seeds that finds something wrong."""
    for seed in SEEDS:
        result = simulate(seed, store_class)
        if result.violations:
            return result
    return None


class SimulationTests(unittest.TestCase):
    def test_every_promise_is_kept(self) -> None:
        crashed = receipts = 0
        for seed in SEEDS:
            result = simulate(seed)
            self.assertEqual(result.violations, [], result.report())
            crashed += result.starts > 2
            receipts += result.receipts
        # The runs are worth something: most lose their broker, and messages go through.
        self.assertGreater(crashed, len(SEEDS) // 2)
        self.assertGreater(receipts, 20 * len(SEEDS))

    def test_acknowledging_before_the_sync_is_found(self) -> None:
        result = first_failure(AcknowledgesBeforeSync)
        assert result is not None
        self.assertTrue(
            any("is lost" in text or "was confirmed" in text or "only a part" in text for text in result.violations), result.violations
        )
        report = result.report()
        self.assertIn(f"--seed {result.seed}", report)
        for fault in (*result.schedule.timed, *result.schedule.cuts):
            self.assertIn(str(fault), report)

    def test_forgotten_duplicate_ids_are_found(self) -> None:
        result = first_failure(ForgetsDuplicateIds)
        assert result is not None
        symptoms = ("was stored twice", "was in its queue", "was sent to")  # the last: after the first copy was acknowledged
        self.assertTrue(any(symptom in text for text in result.violations for symptom in symptoms), result.violations)

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
