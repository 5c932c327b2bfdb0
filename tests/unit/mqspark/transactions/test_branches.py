"""One decision per batch: whatever fails, and however often, a batch is there once and nothing stays in doubt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from mqclient.xa import Xid

try:
    import pyspark

    from mqspark.errors import BrokerUnreachableError, MqsparkError
    from mqspark.transactions.branches import finish, undo
    from mqspark.transactions.decisions import Batch, Branch, decode_decision, encode_decision, new_xid
except ImportError:
    pyspark = None

QUERY = "8d6b3f53-4a4b-4d57-8be7-d0a9a4c1e111"
OTHER = "00000000-4a4b-4d57-8be7-d0a9a4c1e111"


class Crash(Exception):
    """The driver is gone."""


class FakeNode:
    """What :class:`mqspark.transactions.branches.NodeBranches` does, on a broker in memory.

    ``step`` is called before and after each change.
    """

    def __init__(self, step: Callable[[], None] = lambda: None) -> None:
        self.prepared: set[Xid] = set()
        self.committed: list[Xid] = []
        self.decided: dict[tuple[str, int], str] = {}
        self.heard: set[tuple[str, int]] = set()
        self.step = step

    def in_doubt(self) -> list[Xid]:
        return sorted(self.prepared)

    def commit(self, xid: Xid) -> None:
        self.step()
        if xid in self.prepared:
            self.prepared.remove(xid)
            self.committed.append(xid)
        self.step()

    def roll_back(self, xid: Xid) -> None:
        self.step()
        self.prepared.discard(xid)
        self.step()

    def decision(self, batch: Batch) -> list[Branch] | None:
        text = self.decided.get((batch.query, batch.number))
        return None if text is None else decode_decision(text)

    def decisions(self) -> dict[Batch, list[Branch]]:
        return {Batch(query, number): decode_decision(text) for (query, number), text in self.decided.items()}

    def decide(self, batch: Batch, branches: Sequence[Branch], now: int) -> None:
        self.step()
        key = batch.query, batch.number
        if key not in self.heard:  # the duplicate id
            self.heard.add(key)
            self.decided[key] = encode_decision(branches)
        self.step()

    def forget(self, batch: Batch) -> None:
        self.step()
        for query, number in list(self.decided):
            if query == batch.query and (number < batch.number or (batch.job and number == batch.number)):
                del self.decided[query, number]
        self.step()


class BranchesTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        if pyspark is None:
            raise SkipTest("pyspark is not installed")

    def prepare(self, nodes: Mapping[str, FakeNode], batch: Batch, entropy: int, tasks: int = 4) -> list[Branch]:
        """What the tasks of one run leave: a branch each, on all nodes in turn."""
        names = sorted(nodes)
        found = []
        for partition in range(tasks):
            node_id = names[partition % len(names)]
            xid = new_xid(batch, names[0], partition, 0, entropy.to_bytes(8, "big"))
            nodes[node_id].prepared.add(xid)
            found.append(Branch(node_id, xid))
        return found

    def finish(self, batch: Batch, mine: Sequence[Branch], nodes: Mapping[str, Any]) -> bool:
        return finish(batch, mine, nodes, "a", 0)

    def outcome(self, nodes: Mapping[str, FakeNode]) -> tuple[set[Xid], set[Xid]]:
        """(committed, in doubt)"""
        committed = [xid for node in nodes.values() for xid in node.committed]
        self.assertEqual(len(committed), len(set(committed)))
        return set(committed), {xid for node in nodes.values() for xid in node.prepared}


class FinishTests(BranchesTestCase):
    @given(st.integers(1, 3), st.lists(st.integers(0, 40), max_size=4), st.booleans())
    @settings(max_examples=150, deadline=None)
    def test_whenever_the_driver_goes_away_one_run_counts(self, count: int, crashes: list[int], gives_up: bool) -> None:
        """Each run prepares branches of its own and is cut off after so many steps; the last one goes through."""
        left = 0

        def step() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Crash

        nodes = {name: FakeNode(step) for name in "abc"[:count]}
        batch = Batch(QUERY, 7)
        runs = []
        for number, steps in enumerate(crashes):
            runs.append(self.prepare(nodes, batch, number))
            left = steps
            try:
                self.finish(batch, runs[-1], nodes)
            except Crash:
                left = 1000
                if gives_up:  # Spark does this after a commit that has failed
                    undo(batch, runs[-1], nodes, "a")
        left = 1000
        runs.append(self.prepare(nodes, batch, len(crashes)))
        self.finish(batch, runs[-1], nodes)
        committed, doubt = self.outcome(nodes)
        self.assertIn(committed, [{branch.xid for branch in run} for run in runs])
        self.assertEqual(doubt, set())

    def test_a_first_run(self) -> None:
        nodes = {"a": FakeNode(), "b": FakeNode()}
        mine = self.prepare(nodes, Batch(QUERY, 0), 0)
        self.assertTrue(self.finish(Batch(QUERY, 0), mine, nodes))
        self.assertEqual(self.outcome(nodes), ({branch.xid for branch in mine}, set()))

    def test_a_run_that_comes_too_late(self) -> None:
        nodes = {"a": FakeNode()}
        batch = Batch(QUERY, 0)
        first = self.prepare(nodes, batch, 0)
        self.finish(batch, first, nodes)
        second = self.prepare(nodes, batch, 1)
        self.assertFalse(self.finish(batch, second, nodes))
        self.assertEqual(self.outcome(nodes), ({branch.xid for branch in first}, set()))

    def test_two_drivers_at_once(self) -> None:
        """The second decides while the first one is about to."""
        nodes = {"a": FakeNode()}
        batch = Batch(QUERY, 0)
        first, second = self.prepare(nodes, batch, 0), self.prepare(nodes, batch, 1)
        nodes["a"].decide(batch, second, 0)
        self.assertFalse(self.finish(batch, first, nodes))
        self.assertEqual(self.outcome(nodes), ({branch.xid for branch in second}, set()))

    def test_lost_attempts_and_earlier_batches_are_rolled_back_and_nothing_of_others(self) -> None:
        nodes = {"a": FakeNode()}
        self.prepare(nodes, Batch(QUERY, 1), 0)
        self.prepare(nodes, Batch(QUERY, 2), 1)
        others = self.prepare(nodes, Batch(OTHER, 2), 2) + self.prepare(nodes, Batch(QUERY, 3), 3)
        mine = self.prepare(nodes, Batch(QUERY, 2), 4)
        self.finish(Batch(QUERY, 2), mine, nodes)
        self.assertEqual(self.outcome(nodes), ({branch.xid for branch in mine}, {branch.xid for branch in others}))

    def test_decisions_go_with_the_next_batch(self) -> None:
        nodes = {"a": FakeNode()}
        for number in range(3):
            self.finish(Batch(QUERY, number), self.prepare(nodes, Batch(QUERY, number), number), nodes)
        self.assertEqual(list(nodes["a"].decided), [(QUERY, 2)])
        job = Batch(OTHER, 0, job=True)
        self.finish(job, self.prepare(nodes, job, 9), nodes)
        self.assertEqual(list(nodes["a"].decided), [(QUERY, 2)])

    def test_nothing_to_do(self) -> None:
        nodes = {"a": FakeNode()}
        self.assertTrue(self.finish(Batch(QUERY, 0), [], nodes))
        self.assertEqual(nodes["a"].decided, {})

    def test_the_home_of_an_earlier_run_is_away(self) -> None:
        """Then nobody knows whether it was decided for."""
        nodes = {"a": FakeNode(), "b": FakeNode()}
        batch = Batch(QUERY, 0)
        self.prepare(nodes, batch, 0)
        rest = {"b": nodes["b"]}
        xid = new_xid(batch, "b", 0, 0, bytes(8))
        nodes["b"].prepared.add(xid)
        error = self.assertRaises(BrokerUnreachableError, finish, batch, [Branch("b", xid)], rest, "b", 0)
        self.assertIn("the node that knows whether they were decided for is away", str(error))
        self.assertEqual(nodes["b"].committed, [])

    def test_a_node_of_a_decided_batch_is_away(self) -> None:
        nodes = {"a": FakeNode(), "b": FakeNode()}
        batch = Batch(QUERY, 0)
        first = self.prepare(nodes, batch, 0)
        nodes["a"].decide(batch, first, 0)
        error = self.assertRaises(BrokerUnreachableError, self.finish, batch, [], {"a": nodes["a"]})
        self.assertIn("has branches on node b, which is away", str(error))
        self.finish(batch, [], nodes)
        self.assertEqual(self.outcome(nodes), ({branch.xid for branch in first}, set()))

    def test_the_decision_is_taken_away(self) -> None:
        class Thief(FakeNode):
            def decide(self, batch: Batch, branches: Sequence[Branch], now: int) -> None: ...

        nodes = {"a": Thief()}
        mine = self.prepare(nodes, Batch(QUERY, 0), 0)
        self.assertRaises(MqsparkError, self.finish, Batch(QUERY, 0), mine, nodes)
        self.assertEqual(nodes["a"].committed, [])

    def test_a_branch_that_is_gone_is_not_decided_for(self) -> None:
        """To commit it would look as if it had been committed before, and its rows would be lost."""
        nodes = {"a": FakeNode(), "b": FakeNode()}
        batch = Batch(QUERY, 0)
        mine = self.prepare(nodes, batch, 0)
        nodes["b"].prepared.remove(mine[1].xid)
        error = self.assertRaises(MqsparkError, self.finish, batch, mine, nodes)
        self.assertIn("is no longer prepared on node b", str(error))
        self.assertEqual((nodes["a"].decided, nodes["a"].committed, nodes["b"].committed), ({}, [], []))
        again = self.prepare(nodes, batch, 1)
        self.assertTrue(self.finish(batch, again, nodes))
        self.assertEqual(self.outcome(nodes), ({branch.xid for branch in again}, set()))


class UndoTests(BranchesTestCase):
    def test_what_was_not_decided(self) -> None:
        nodes = {"a": FakeNode()}
        mine = self.prepare(nodes, Batch(QUERY, 0), 0)
        undo(Batch(QUERY, 0), mine, nodes, "a")
        self.assertEqual(self.outcome(nodes), (set(), set()))

    def test_what_may_have_been_decided_stays(self) -> None:
        nodes = {"a": FakeNode(), "b": FakeNode()}
        mine = self.prepare(nodes, Batch(QUERY, 0), 0)
        undo(Batch(QUERY, 0), mine, {"b": nodes["b"]}, "a")
        nodes["a"].decide(Batch(QUERY, 0), mine, 0)
        undo(Batch(QUERY, 0), mine, nodes, "a")
        self.assertEqual(self.outcome(nodes), (set(), {branch.xid for branch in mine}))

    def test_of_a_write_job_nothing_is_left_in_doubt(self) -> None:
        """Nobody comes back to it: attempts whose answer never came are rolled back, too; those of a stream wait for its next run."""
        nodes = {"a": FakeNode(), "b": FakeNode()}
        job, other = Batch(QUERY, 0, job=True), Batch(OTHER, 0)
        self.prepare(nodes, job, 0)
        others = self.prepare(nodes, other, 1)
        undo(other, [], nodes, "a")
        undo(job, [], nodes, "a")
        self.assertEqual(self.outcome(nodes), (set(), {branch.xid for branch in others}))
