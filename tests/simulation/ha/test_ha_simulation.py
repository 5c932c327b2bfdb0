"""The simulation of high availability holds for production code, finds what is planted, and replays."""

from __future__ import annotations

import unittest
from collections.abc import Mapping, Sequence
from typing import get_args

from mqbroker.process.forms import running_form
from tests.simulation import faults, plants
from tests.simulation.ha.faults import AllKilled, Blocked, FullFolder, HeldUp, LockLost, PowerCut, SlowLoad, WaiterHeldUp
from tests.simulation.ha.lock_faults import LockFault
from tests.simulation.ha.router import Isolated
from tests.simulation.ha.runs import simulate_ha
from tests.simulation.ha.seeds import checks_networks, gives_away, has_locks, is_colocated, is_of_pairs, is_one_group
from tests.simulation.many import run_many
from tests.simulation.plants import COLOCATED_PLANTS, HA_PLANTS, LOCK_PLANTS, NETWORK_PLANTS, PAIR_PLANTS, Plant

SEEDS = range(1, 101)
PLANT_SEEDS = range(1, 601)
"""As many as give 300 of each kind."""
FIRST = 4
"""Some plants are found by one of so many: sooner than other processes begin."""
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
        self.look_for(HA_PLANTS, [seed for seed in GROUPS if not is_of_pairs(seed)])

    def test_every_planted_fault_of_pairs_that_replicate_is_found(self) -> None:
        self.look_for(PAIR_PLANTS, [seed for seed in GROUPS if is_of_pairs(seed)])

    def test_every_planted_fault_of_pairs_with_a_lock_manager_is_found(self) -> None:
        self.look_for(LOCK_PLANTS, [seed for seed in GROUPS if has_locks(seed)])

    def test_every_planted_fault_of_network_checks_is_found(self) -> None:
        self.look_for(NETWORK_PLANTS, [seed for seed in GROUPS if checks_networks(seed)])

    def test_every_planted_fault_of_colocated_brokers_is_found(self) -> None:
        self.look_for(COLOCATED_PLANTS, [seed for seed in range(1, 3001) if is_colocated(seed)])

    def look_for(self, known: Mapping[str, Plant | None], seeds: Sequence[int]) -> None:
        for name, plant in known.items():
            if plant is None or (running_form() != "pure" and plants.is_compiled(plant)):
                continue
            order = [*plant.seeds, *seeds]
            with self.subTest(name):
                summary = run_many(order[:FIRST], 1, name, first_failure=True, kind="ha")
                if not summary.failed:
                    summary = run_many(order[FIRST:], plant=name, first_failure=True, kind="ha")
                self.assertTrue(summary.failed, f"{summary.seeds} seeds have not found {name}")
                (outcome,) = summary.failed
                print(f"{name} is found by seed {outcome.seed}, run number {summary.seeds}: {outcome.violations[0]}")
                self.assertTrue(any(symptom in text for text in outcome.violations for symptom in plant.symptoms), outcome.violations)
                self.assertIn(f"--ha --seed {outcome.seed} --verbose --plant {name}", outcome.report)

    def test_a_seed_replays(self) -> None:
        for seed in REPLAYED:
            with self.subTest(seed=seed):
                first, second = simulate_ha(seed), simulate_ha(seed)
                self.assertEqual(first.log, second.log)
                self.assertNotEqual(first.log, simulate_ha(seed + 1).log)
