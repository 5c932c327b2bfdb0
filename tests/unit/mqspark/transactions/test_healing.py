"""Branches in doubt that an earlier program left."""

from __future__ import annotations

from typing import Any

from tests.unit.mqspark.transactions.test_branches import OTHER, QUERY, BranchesTestCase, FakeNode

try:
    import pyspark

    from mqspark.errors import MqsparkError
    from mqspark.transactions.branches import finish
    from mqspark.transactions.decisions import Batch, Branch
    from mqspark.transactions.healing import heal, heal_others
except ImportError:
    pyspark = None


class HealTests(BranchesTestCase):
    """What drivers leave that never come back."""

    def setUp(self) -> None:
        super().setUp()
        self.nodes = {"a": FakeNode(), "b": FakeNode()}
        self.job = Batch(OTHER, 0, job=True)

    def crashed_commit(self, batch: Batch) -> tuple[list[Branch], list[Branch]]:
        """A driver that dies after its decision and its first commit; what was decided for, and an attempt that was lost."""
        lost = self.prepare(self.nodes, batch, 8)
        mine = self.prepare(self.nodes, batch, 9)
        self.nodes["a"].decide(batch, mine, 0)
        self.nodes["a"].commit(mine[0].xid)
        return mine, lost

    def outcomes(self, **arguments: Any) -> list[tuple[str, str]]:
        return sorted({(doubt.outcome, doubt.query) for doubt in heal(self.nodes, 0, **arguments)})

    def test_the_next_batch_of_anybody_ends_what_was_decided(self) -> None:
        mine, _ = self.crashed_commit(self.job)
        batch = Batch(QUERY, 5)
        own = self.prepare(self.nodes, batch, 1)
        self.assertTrue(finish(batch, own, self.nodes, "a", 0, lambda: heal_others(batch, self.nodes, 0)))
        committed = {branch.xid for branch in (*mine, *own)}
        self.assertEqual(self.outcome(self.nodes), (committed, set()))

    def test_the_job_ends_what_was_decided(self) -> None:
        mine, _ = self.crashed_commit(self.job)
        self.assertEqual(self.outcomes(dry_run=True), [("committed", OTHER), ("rolled back", OTHER)])
        self.assertEqual(len(self.outcome(self.nodes)[1]), 7)
        self.assertEqual(self.outcomes(), [("committed", OTHER), ("rolled back", OTHER)])
        self.assertEqual(self.outcome(self.nodes), ({branch.xid for branch in mine}, set()))
        self.assertEqual(self.outcomes(), [])

    def test_an_attempt_that_prepares_after_its_batch_was_finished(self) -> None:
        batch = Batch(QUERY, 5)
        mine = self.prepare(self.nodes, batch, 1)
        self.finish(batch, mine, self.nodes)
        self.prepare(self.nodes, batch, 2)
        self.prepare(self.nodes, Batch(QUERY, 4), 3)
        self.assertEqual(self.outcomes(), [("rolled back", QUERY)])
        self.assertEqual(self.outcome(self.nodes), ({branch.xid for branch in mine}, set()))

    def test_such_an_attempt_of_a_query_that_goes_on(self) -> None:
        first, second = Batch(QUERY, 5), Batch(QUERY, 6)
        mine = self.prepare(self.nodes, first, 1)
        self.finish(first, mine, self.nodes)
        self.prepare(self.nodes, first, 2)
        own = self.prepare(self.nodes, second, 3)
        self.finish(second, own, self.nodes)
        self.assertEqual(self.outcome(self.nodes), ({branch.xid for branch in (*mine, *own)}, set()))

    def test_what_is_not_decided_stays_until_it_is_given_up(self) -> None:
        self.prepare(self.nodes, self.job, 1)
        running = {branch.xid for branch in self.prepare(self.nodes, Batch(QUERY, 5), 2)}
        self.assertEqual(self.outcomes(), [("undecided", OTHER), ("undecided", QUERY)])
        self.assertEqual(self.outcomes(given_up=[OTHER]), [("rolled back", OTHER), ("undecided", QUERY)])
        self.assertEqual(self.outcome(self.nodes), (set(), running))

    def test_whose_home_is_away_is_left_alone(self) -> None:
        self.prepare(self.nodes, self.job, 1)
        doubts = heal({"b": self.nodes["b"]}, 0, given_up=[OTHER])
        self.assertEqual({doubt.outcome for doubt in doubts}, {"undecided"})
        self.assertIn("is away", doubts[0].why)

    def test_that_others_cannot_be_helped_is_no_harm(self) -> None:
        class Broken(FakeNode):
            def decisions(self) -> dict[Batch, list[Branch]]:
                raise MqsparkError("broken")

        self.nodes["a"] = Broken()
        self.prepare(self.nodes, self.job, 1)
        heal_others(Batch(QUERY, 5), self.nodes, 0)
        self.assertEqual(len(self.outcome(self.nodes)[1]), 4)
