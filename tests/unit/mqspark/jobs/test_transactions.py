"""The job transactions: what it prints, and how it ends."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.mqspark.jobs.test_command import UNREACHABLE, invoked

try:
    from mqspark.jobs.transactions import doubts_report
    from mqspark.transactions.decisions import Batch, new_xid
    from mqspark.transactions.healing import Doubt
except ImportError:
    Doubt = None  # type: ignore[assignment, misc]

QUERY = "8d6b3f53-4a4b-4d57-8be7-d0a9a4c1e111"


class TransactionsTests(SynchronousTestCase):
    if Doubt is None:
        skip = "pyspark is not installed"

    def doubt(self, outcome: str) -> Doubt:
        return Doubt("n1", new_xid(Batch(QUERY, 7), "n1", 3, 0, bytes(8)), QUERY, 7, 3, outcome, "because")

    def test_what_was_ended(self) -> None:
        answer = doubts_report([self.doubt("committed"), self.doubt("rolled back")])
        self.assertEqual(answer.tables[0].rows[0], ("n1", QUERY, 7, 3, "committed", "because"))
        self.assertEqual((answer.notes, answer.status), ([], 0))

    def test_what_is_undecided_makes_it_fail(self) -> None:
        answer = doubts_report([self.doubt("undecided")], dry_run=True)
        self.assertEqual((answer.tables[0].title, answer.status), ("To be ended", 1))
        self.assertIn("--give-up", answer.notes[0])

    def test_nothing_is_prepared(self) -> None:
        answer = doubts_report([])
        self.assertEqual((answer.tables, answer.status), ([], 0))

    def test_the_command(self) -> None:
        status, out, _ = invoked("transactions", "--help")
        self.assertEqual((status, "--give-up" in out), (0, True))
        status, _, err = invoked("transactions", *UNREACHABLE)
        self.assertEqual((status, "127.0.0.1:1" in err), (3, True), err)
