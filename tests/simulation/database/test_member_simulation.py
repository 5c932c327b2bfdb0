"""Peers with their record in a database, and enhanced clusters, keep every promise, and faults in how they do that are found."""

from __future__ import annotations

import unittest
from typing import get_args

from tests.simulation.database.faults import ServerFault
from tests.simulation.database.members_run import simulate_enhanced
from tests.simulation.database.peers_run import simulate_peers
from tests.simulation.looking import look_for
from tests.simulation.many import run_many
from tests.simulation.plants import ENHANCED_PLANTS, PEER_PLANTS

SEEDS = {"peers": range(1, 21), "enhanced": range(1, 21)}
LOOKED_FOR_MAX = 400
"""Seeds in which a fault is looked for: one in a hundred meets the rarest ones."""
REPLAYED = 3
FAULTS = {"AtOperation", "Away", "Crash", "Cut", "Partition", "Pause", "Stop"} | {kind.__name__ for kind in get_args(ServerFault)}
"""Those of the database, and some of those of clusters."""


class MemberTests(unittest.TestCase):
    def hold(self, kind: str) -> None:
        summary = run_many(SEEDS[kind], first_failure=True, kind=kind)
        print(summary)
        self.assertEqual(summary.failed, [], "".join(outcome.report for outcome in summary.failed))
        self.assertGreater(summary.restarted, len(SEEDS[kind]) // 2)
        self.assertGreater(summary.receipts, 20 * len(SEEDS[kind]))
        self.assertEqual(FAULTS - summary.faults.keys(), set())

    def test_peers_keep_every_promise(self) -> None:
        self.hold("peers")

    def test_enhanced_clusters_keep_every_promise(self) -> None:
        self.hold("enhanced")

    def test_every_planted_fault_of_peers_is_found(self) -> None:
        look_for(self, PEER_PLANTS, "peers", range(1, 101))

    def test_every_planted_fault_of_enhanced_clusters_is_found(self) -> None:
        look_for(self, ENHANCED_PLANTS, "enhanced", range(1, LOOKED_FOR_MAX + 1))

    def test_a_seed_replays(self) -> None:
        for simulate in (simulate_peers, simulate_enhanced):
            with self.subTest(simulate.__name__):
                self.assertEqual(simulate(REPLAYED).log, simulate(REPLAYED).log)
