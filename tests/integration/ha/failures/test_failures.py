"""Eight rounds of failures of pairs under load: nothing that was confirmed is lost or comes twice, and one broker is active in the end.

`MQBROKER_SEED` repeats the moments of the failures.
"""

from __future__ import annotations

import os
import random
import tempfile
import unittest
from pathlib import Path

from tests.integration.ha.failures.rounds import SETUPS, Rounds, Setup, shares

ROUNDS = 8


class FailureTests(unittest.TestCase):
    def rounds(self, setup: Setup) -> None:
        seed = int(os.environ.get("MQBROKER_SEED") or random.getrandbits(32))
        with tempfile.TemporaryDirectory(prefix="mqbroker-failures-") as name:
            rounds = Rounds(setup, Path(name), random.Random(seed), lambda kind, number, of: None)
            outcome = rounds.run(dict(self.shares())[setup.name])
        self.assertEqual(outcome.problems, [], f"replay with MQBROKER_SEED={seed}")
        self.assertGreater(outcome.counts["sent"], 50, "hardly any load")
        self.assertGreater(outcome.counts["paged sent"], 20, "hardly any load on pages")
        self.assertGreater(outcome.counts["once sent"], 20, "hardly any load with exactlyOnce")

    @staticmethod
    def shares() -> list[tuple[str, int]]:
        return [(setup.name, count) for setup, count in shares(ROUNDS)]

    def test_a_shared_store(self) -> None:
        self.rounds(SETUPS[0])

    def test_a_replicated_pair_alone(self) -> None:
        self.rounds(SETUPS[1])

    def test_a_replicated_pair_with_a_voter(self) -> None:
        self.rounds(SETUPS[2])

    def test_a_replicated_pair_with_a_lock_manager(self) -> None:
        self.rounds(SETUPS[3])
