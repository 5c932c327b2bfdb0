"""A broker on a database keeps every promise, whatever the database does, and faults in it are found."""

from __future__ import annotations

import unittest
from typing import get_args

from tests.simulation import faults
from tests.simulation.database.faults import DatabaseFault
from tests.simulation.database.run import simulate_database
from tests.simulation.looking import look_for
from tests.simulation.many import run_many
from tests.simulation.network import Cut
from tests.simulation.plants import DATABASE_PLANTS

SEEDS = range(1, 36)
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
        look_for(self, DATABASE_PLANTS, "database", range(1, 301))

    def test_a_seed_replays(self) -> None:
        """Although threads of the system take part."""
        first, second = simulate_database(REPLAYED), simulate_database(REPLAYED)
        self.assertEqual(first.log, second.log)
