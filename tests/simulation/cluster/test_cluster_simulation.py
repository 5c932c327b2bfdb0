"""The simulation of clusters holds for production code, finds what is planted, and replays."""

from __future__ import annotations

import unittest
from typing import get_args

from tests.simulation import faults
from tests.simulation.cluster.faults import Away, BadDatagrams, DyingLink, Partition, ScaleDown
from tests.simulation.cluster.run import simulate_cluster
from tests.simulation.looking import look_for
from tests.simulation.many import run_many
from tests.simulation.plants import CLUSTER_PLANTS

SEEDS = range(1, 101)
REPLAYED = 8
BETWEEN = (Away, BadDatagrams, DyingLink, Partition, ScaleDown)
NOT_HERE = (faults.ClockStep, faults.Damage, faults.FullDisk, faults.SlowReader)
"""What one broker alone is enough for; clocks of nodes are wrong all the time instead."""
FAULTS = sorted({kind.__name__ for kind in (*BETWEEN, *get_args(faults.Fault)) if kind not in NOT_HERE} | {"Cut"})


class ClusterSimulationTests(unittest.TestCase):
    def test_every_promise_is_kept(self) -> None:
        summary = run_many(SEEDS, first_failure=True, kind="cluster")
        print(summary)
        self.assertEqual(summary.failed, [], "".join(outcome.report for outcome in summary.failed))
        self.assertGreater(summary.restarted, len(SEEDS) // 4)
        self.assertGreater(summary.receipts, 20 * len(SEEDS))
        self.assertEqual(sorted(summary.faults), FAULTS)

    def test_every_planted_fault_is_found(self) -> None:
        look_for(self, CLUSTER_PLANTS, "cluster", SEEDS)

    def test_a_seed_replays(self) -> None:
        first, second = simulate_cluster(REPLAYED), simulate_cluster(REPLAYED)
        self.assertEqual(first.log, second.log)
        self.assertNotEqual(first.log, simulate_cluster(REPLAYED + 1).log)
