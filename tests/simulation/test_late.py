"""Every promise is kept by a store that answers later: queues, readers, links, scale-down and whatever else reads wait for it."""

from __future__ import annotations

import unittest

from tests.simulation.looking import look_for
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
        look_for(self, LATE_PLANTS, "late", SEEDS)
