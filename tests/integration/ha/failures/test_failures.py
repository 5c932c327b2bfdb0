"""Some rounds of failures under load: nothing that was confirmed is lost or comes twice, and all brokers are back in the end.

Eight are those of pairs, six those of brokers on a database, and four those of home brokers.
`MQBROKER_SEED` repeats the moments of the failures.
"""

from __future__ import annotations

import os
import random
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

from tests.integration.ha.failures.kinds import rounds_of
from tests.integration.ha.failures.setups import OF_HOMES, ON_DATABASES, SETUPS, Setup, shares
from tests.support.postgresql import refuse_without

ROUNDS = 8
DATABASE_ROUNDS = 6
HOME_ROUNDS = 4


class FailureTests(unittest.TestCase):
    all, count = SETUPS, ROUNDS
    least: Sequence[tuple[str, int]] = (("sent", 50), ("paged sent", 20), ("once sent", 20))
    """How much load there has to be."""

    def rounds(self, setup: Setup) -> None:
        seed = int(os.environ.get("MQBROKER_SEED") or random.getrandbits(32))
        count = next(count for each, count in shares(self.count, self.all) if each is setup)
        with tempfile.TemporaryDirectory(prefix="mqbroker-failures-") as name:
            outcome = rounds_of(setup, Path(name), random.Random(seed), lambda kind, number, of: None).run(count)
        self.assertEqual(outcome.problems, [], f"replay with MQBROKER_SEED={seed}")
        for verb, least in self.least:
            self.assertGreater(outcome.counts[verb], least, "hardly any load")


class PairFailureTests(FailureTests):
    def test_a_shared_store(self) -> None:
        self.rounds(SETUPS[0])

    def test_a_replicated_pair_alone(self) -> None:
        self.rounds(SETUPS[1])

    def test_a_replicated_pair_with_a_voter(self) -> None:
        self.rounds(SETUPS[2])

    def test_a_replicated_pair_with_a_lock_manager(self) -> None:
        self.rounds(SETUPS[3])


class DatabasePairFailureTests(FailureTests):
    all, count = ON_DATABASES, DATABASE_ROUNDS

    def test_a_pair_on_sqlite(self) -> None:
        self.rounds(ON_DATABASES[0])

    def test_a_pair_on_postgresql(self) -> None:
        refuse_without()
        self.rounds(ON_DATABASES[2])


class EnhancedFailureTests(FailureTests):
    all, count = ON_DATABASES, DATABASE_ROUNDS
    least = (("once sent", 20),)

    def test_an_enhanced_cluster_on_sqlite(self) -> None:
        self.rounds(ON_DATABASES[1])

    def test_an_enhanced_cluster_on_postgresql(self) -> None:
        refuse_without()
        self.rounds(ON_DATABASES[3])


class HomeFailureTests(FailureTests):
    all, count = OF_HOMES, HOME_ROUNDS
    least = (*FailureTests.least, ("defined sent", 3))

    def test_home_brokers_with_a_master(self) -> None:
        self.rounds(OF_HOMES[0])

    def test_home_brokers_with_their_record_on_sqlite(self) -> None:
        self.rounds(OF_HOMES[1])
