"""Orderly stops, starts that fail and scale-down keep every promise, and faults in them are found."""

from __future__ import annotations

import unittest

from tests.simulation.looking import look_for
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
        look_for(self, STOP_PLANTS, "stops", SEEDS)
