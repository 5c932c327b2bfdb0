"""Brokers that share a database keep every promise, and faults in how they do that are found."""

from __future__ import annotations

import unittest
from typing import get_args

from tests.simulation import faults
from tests.simulation.database.faults import ServerFault
from tests.simulation.database.pair_run import simulate_database_pair
from tests.simulation.looking import look_for
from tests.simulation.many import run_many
from tests.simulation.plants import DATABASE_PAIR_PLANTS

SEEDS = range(1, 26)
REPLAYED = 5
NOT_HERE = (faults.ClockStep, faults.Damage, faults.FillingDisk, faults.FullDisk)
"""What one broker alone is enough for, and what only files meet."""
OF_THE_PAIR = {"AllKilled", "AtOperation", "Blocked", "ClockPutForward", "Cut", "HeldUp", "Isolated", "PowerCut"}
FAULTS = OF_THE_PAIR | {kind.__name__ for kind in (*get_args(ServerFault), *get_args(faults.Fault)) if kind not in NOT_HERE}


class DatabasePairTests(unittest.TestCase):
    def test_every_promise_is_kept(self) -> None:
        summary = run_many(SEEDS, first_failure=True, kind="database-pair")
        print(summary)
        self.assertEqual(summary.failed, [], "".join(outcome.report for outcome in summary.failed))
        # In most runs the data change hands while clients work.
        self.assertGreater(summary.restarted, len(SEEDS) * 3 // 4)
        self.assertGreater(summary.receipts, 20 * len(SEEDS))
        self.assertEqual(FAULTS - set(summary.faults), set())

    def test_every_planted_fault_is_found(self) -> None:
        look_for(self, DATABASE_PAIR_PLANTS, "database-pair", range(1, 301))

    def test_a_seed_replays(self) -> None:
        first, second = simulate_database_pair(REPLAYED), simulate_database_pair(REPLAYED)
        self.assertEqual(first.log, second.log)
