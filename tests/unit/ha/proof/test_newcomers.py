"""Brokers of the cluster that may become voters: who is asked, when, and who joins."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.newcomers import AGAIN_SECONDS, Newcomers
from mqbroker.ha.proof.ports import Introduction, UnreachableError
from tests.support.clock import FakeClock

VOTER = Introduction(java=False, votes=True, paired=False)


class NewcomersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.asked: list[tuple[str, Deferred[Introduction]]] = []
        self.joined: list[str] = []
        self.newcomers = Newcomers(self.clock, self.meet, self.joined.append)

    def meet(self, node_id: str) -> Deferred[Introduction]:
        answer: Deferred[Introduction] = Deferred()
        self.asked.append((node_id, answer))
        return answer

    def test_each_is_asked_in_turn_and_those_that_vote_join(self) -> None:
        for node_id in ("a", "b", "c", "b"):
            self.newcomers.seen(node_id)
        self.assertEqual([node_id for node_id, _ in self.asked], ["a"])
        for number, said in enumerate((VOTER, VOTER._replace(votes=False), VOTER._replace(java=True))):
            self.asked[number][1].callback(said)
        self.assertEqual((self.joined, len(self.asked), self.clock.pending), (["a", "c"], 3, 0))

    def test_who_does_not_answer_is_asked_again_while_it_is_there(self) -> None:
        for node_id in ("a", "b"):
            self.newcomers.seen(node_id)
        for number in range(2):
            self.asked[number][1].errback(UnreachableError("nobody"))
        self.newcomers.gone("b")
        self.clock.advance(AGAIN_SECONDS)
        self.assertEqual([node_id for node_id, _ in self.asked], ["a", "b", "a"])
        self.asked[2][1].callback(VOTER)
        self.assertEqual((self.joined, self.clock.pending), (["a"], 0))

    def test_who_has_left_meanwhile_does_not_join(self) -> None:
        self.newcomers.seen("a")
        self.newcomers.seen("b")
        self.newcomers.gone("a")
        self.newcomers.gone("b")
        self.asked[0][1].callback(VOTER)
        self.assertEqual((self.joined, len(self.asked)), ([], 1))

    def test_after_a_stop_nobody_is_asked(self) -> None:
        for node_id in ("a", "b"):
            self.newcomers.seen(node_id)
        self.newcomers.stop()
        self.assertTrue(self.asked[0][1].called)
        self.assertEqual((self.joined, len(self.asked), self.clock.pending), ([], 1, 0))
