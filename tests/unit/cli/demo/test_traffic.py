"""The account of the demonstration: what is lost, doubled or in doubt."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.demo.traffic import Ledger
from tests.unit.cli.runner import mqbroker


class LedgerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.ledger = Ledger()
        self.ledger.confirmed("a", 3)
        self.ledger.confirmed("b", 1)

    def read(self, *numbers: int) -> None:
        self.ledger.committed([("b", 0), *(("a", number) for number in numbers)])

    def test_everything_was_read_once(self) -> None:
        self.read(2, 0, 1)
        verdict = self.ledger.verdict()
        self.assertTrue(verdict.good and self.ledger.complete())
        self.assertIn("sent 4, read 4, lost 0, doubled 0", str(verdict))
        self.assertEqual(self.ledger.totals(), (4, 4))

    def test_a_lost_one(self) -> None:
        self.read(0, 2)
        verdict = self.ledger.verdict()
        self.assertEqual((verdict.good, verdict.lost, verdict.doubled), (False, (("a", 1),), ()))
        self.assertIn("lost: a 1", str(verdict))
        self.assertFalse(self.ledger.complete())

    def test_a_doubled_one(self) -> None:
        self.read(0, 1, 2)
        self.ledger.committed([("a", 1)])
        verdict = self.ledger.verdict()
        self.assertEqual((verdict.good, verdict.doubled), (False, (("a", 1),)))

    def test_one_that_was_never_sent(self) -> None:
        self.read(0, 1, 2, 7)
        self.assertEqual(self.ledger.verdict().unknown, (("a", 7),))

    def test_one_in_doubt_counts_once_whether_it_comes_again_or_not(self) -> None:
        self.read(0, 1)
        self.ledger.commit_failed([("a", 2)])
        self.assertTrue(self.ledger.verdict().good)
        self.assertFalse(self.ledger.complete())
        self.ledger.committed([("a", 2)])
        self.assertTrue(self.ledger.verdict().good and self.ledger.complete())

    def test_many_lost_ones_are_not_all_named(self) -> None:
        self.ledger.confirmed("a", 1000)
        self.assertLess(len(str(self.ledger.verdict())), 300)

    def test_kill_needs_a_time(self) -> None:
        self.assertEqual(mqbroker("demo", "cluster", "--kill").status, 2)
