"""The simulation of high availability holds for production code, finds what is planted, and replays."""

from __future__ import annotations

import unittest
from typing import get_args

from tests.simulation import faults
from tests.simulation.ha.faults import AllKilled, Blocked, FullFolder, HeldUp, LockLost, PowerCut, SlowLoad, WaiterHeldUp
from tests.simulation.ha.lock_faults import LockFault
from tests.simulation.ha.router import Isolated
from tests.simulation.ha.runs import simulate_ha
from tests.simulation.ha.seeds import checks_networks, gives_away, has_locks, is_colocated, is_of_pairs, is_one_group
from tests.simulation.looking import look_for
from tests.simulation.many import run_many
from tests.simulation.plants import COLOCATED_PLANTS, HA_PLANTS, LOCK_PLANTS, NETWORK_PLANTS, PAIR_PLANTS

SEEDS = range(1, 101)
PLANT_SEEDS = range(1, 601)
"""As many as give 300 of each kind."""
GROUPS = [seed for seed in PLANT_SEEDS if is_one_group(seed)]
REPLAYED = [next(seed for seed in GROUPS if kind(seed)) for kind in (lambda seed: not is_of_pairs(seed), is_of_pairs, has_locks)]
REPLAYED += [next(seed for seed in SEEDS if kind(seed)) for kind in (gives_away, is_colocated)]
OF_THE_GROUP = (AllKilled, Blocked, FullFolder, HeldUp, Isolated, LockLost, PowerCut, SlowLoad, WaiterHeldUp)
NOT_HERE = (faults.ClockStep, faults.Damage, faults.FillingDisk)
"""What one broker alone is enough for; clocks of the brokers are wrong all the time instead."""
FAULTS = {kind.__name__ for kind in (*OF_THE_GROUP, *get_args(LockFault), *get_args(faults.Fault)) if kind not in NOT_HERE} | {"Cut"}


class HaSimulationTests(unittest.TestCase):
    def test_every_promise_is_kept(self) -> None:
        summary = run_many(SEEDS, first_failure=True, kind="ha")
        print(summary)
        self.assertEqual(summary.failed, [], "".join(outcome.report for outcome in summary.failed))
        # In most runs the place changes hands while clients work.
        self.assertGreater(summary.restarted, len(SEEDS) * 3 // 4)
        self.assertGreater(summary.receipts, 20 * len(SEEDS))
        self.assertEqual(FAULTS - set(summary.faults), set())
        self.assertGreater(summary.handovers, 0)

    def test_every_planted_fault_of_brokers_that_share_a_store_is_found(self) -> None:
        look_for(self, HA_PLANTS, "ha", [seed for seed in GROUPS if not is_of_pairs(seed)])

    def test_every_planted_fault_of_pairs_that_replicate_is_found(self) -> None:
        look_for(self, PAIR_PLANTS, "ha", [seed for seed in GROUPS if is_of_pairs(seed)])

    def test_every_planted_fault_of_pairs_with_a_lock_manager_is_found(self) -> None:
        look_for(self, LOCK_PLANTS, "ha", [seed for seed in GROUPS if has_locks(seed)])

    def test_every_planted_fault_of_network_checks_is_found(self) -> None:
        look_for(self, NETWORK_PLANTS, "ha", [seed for seed in GROUPS if checks_networks(seed)])

    def test_every_planted_fault_of_colocated_brokers_is_found(self) -> None:
        look_for(self, COLOCATED_PLANTS, "ha", [seed for seed in range(1, 3001) if is_colocated(seed)])

    def test_a_seed_replays(self) -> None:
        for seed in REPLAYED:
            with self.subTest(seed=seed):
                first, second = simulate_ha(seed), simulate_ha(seed)
                self.assertEqual(first.log, second.log)
                self.assertNotEqual(first.log, simulate_ha(seed + 1).log)
