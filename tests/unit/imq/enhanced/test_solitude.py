"""A broker without its database."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.enhanced.solitude import LATER_FAILURES, Solitude, is_alone
from mqclient.errors import NotConnectedError
from tests.unit.imq.enhanced.support import Cluster


class _Peer:
    def __init__(self, answer: Deferred[Any]) -> None:
        self._answer = answer

    def ask(self, operation: str) -> Deferred[Any]:
        return self._answer


def peers_with(*answers: Deferred[Any]) -> Any:
    return type("Peers", (), {"by_id": dict(enumerate(map(_Peer, answers)))})


class CountTests(SynchronousTestCase):
    """Three looks have failed, and no other member has the database either."""

    def setUp(self) -> None:
        self.given_up = 0
        self.solitude = Solitude(3, self.give_up)
        for _ in range(3):
            self.fails(succeed(False))

    def give_up(self) -> None:
        self.given_up += 1

    def fails(self, *answers: Deferred[Any]) -> None:
        self.solitude.unanswered(OSError("away"), peers_with(*answers), bool(answers))

    def test_another_one_that_has_it_again_first_is_no_proof(self) -> None:
        self.fails(succeed(True))
        self.fails(succeed(True))
        self.solitude.answered()
        for _ in range(3):
            self.fails(succeed(True))
        self.assertEqual(self.given_up, 0)

    def test_it_is_alone_when_looks_go_on_failing(self) -> None:
        for _ in range(LATER_FAILURES):
            self.fails(succeed(True))
        self.assertEqual(self.given_up, 0)
        self.fails(succeed(True))
        self.assertEqual(self.given_up, 1)

    def test_a_late_answer_counts_from_when_it_comes(self) -> None:
        late: Deferred[Any] = Deferred()
        self.fails(late)
        for _ in range(LATER_FAILURES):
            self.fails(succeed(True))
        late.callback(True)
        for _ in range(LATER_FAILURES):
            self.assertEqual(self.given_up, 0)
            self.fails(succeed(True))
        self.assertEqual(self.given_up, 1)

    def test_what_was_so_before_the_others_lost_it_counts_no_more(self) -> None:
        self.fails(succeed(True))
        self.fails(succeed(False))
        for _ in range(LATER_FAILURES):
            self.fails(succeed(True))
        self.assertEqual(self.given_up, 0)


class SolitudeTests(SynchronousTestCase):
    def alone(self, others: bool, *answers: Deferred[Any]) -> bool:
        return self.successResultOf(Deferred.fromCoroutine(is_alone(peers_with(*answers), others)))

    def test_another_one_has_it(self) -> None:
        self.assertTrue(self.alone(True, succeed(False), succeed(True)))

    def test_nobody_has_it(self) -> None:
        self.assertFalse(self.alone(True, succeed(False), fail(NotConnectedError("gone"))))

    def test_nobody_can_be_asked(self) -> None:
        self.assertTrue(self.alone(True))
        self.assertFalse(self.alone(False), "it is the only one")

    def test_the_database_is_asked_until_it_answers(self) -> None:
        cluster = Cluster(self.addCleanup)
        one = cluster.add(1)
        two = cluster.add(2)
        one.database.away = True
        cluster.pass_time(6 + LATER_FAILURES)
        ready = one.ready
        assert ready is not None
        self.assertNoResult(ready)
        one.database.away = False
        cluster.pass_time(2)
        self.assertEqual((one.granted_times, two.begun_again), (2, 0))
