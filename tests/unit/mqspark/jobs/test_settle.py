"""The job settle: what it prints, and how it ends."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqspark.jobs import Report
from mqspark.jobs.settle import settled_table
from tests.unit.mqspark.jobs.test_command import UNREACHABLE, invoked

try:
    from mqspark.settling import Settled
except ImportError:
    Settled = None  # type: ignore[assignment, misc]


class ReportTests(SynchronousTestCase):
    if Settled is None:
        skip = "pyspark is not installed"

    def test_what_was_settled(self) -> None:
        answer = Report()
        settled_table(answer, [Settled("spark-1", "n1", "orders", 70, 5)])
        self.assertEqual(answer.tables[0].rows, [("n1", "orders", "spark-1", 5, 70, None)])
        self.assertEqual((answer.tables[0].title, answer.notes, answer.status), ("Settled", [], 0))

    def test_without_doing_it(self) -> None:
        answer = Report()
        settled_table(answer, [Settled("spark-1", "n1", "orders", 70, 5)], dry_run=True)
        self.assertEqual(answer.tables[0].title, "Committed, not settled")

    def test_a_node_that_is_away_makes_it_fail(self) -> None:
        answer = Report()
        settled_table(answer, [Settled("r", "n1", "orders", 70, 5), Settled("r", "n2", "orders", 80, 0, "node n2 is away")])
        self.assertEqual(answer.status, 1)
        self.assertIn("1 of 2 queues could not be settled", answer.notes[0])


class CommandTests(SynchronousTestCase):
    if Settled is None:
        skip = "pyspark is not installed"

    def test_help(self) -> None:
        status, out, _ = invoked("settle", "--help")
        self.assertEqual((status, "--checkpoint" in out), (0, True))

    def test_bad_arguments_are_refused(self) -> None:
        for arguments, status, sentence in (
            ((), 2, "Missing option '--checkpoint'"),
            (("--checkpoint", self.mktemp(), *UNREACHABLE), 2, "checkpoint"),
        ):
            found, _, err = invoked("settle", *arguments)
            self.assertEqual((found, sentence in err), (status, True), err)
