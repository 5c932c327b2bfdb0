"""A broker without its database."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.enhanced.solitude import is_alone
from mqclient.errors import NotConnectedError
from tests.unit.imq.enhanced.support import Cluster


class _Peer:
    def __init__(self, answer: Deferred[Any]) -> None:
        self._answer = answer

    def ask(self, operation: str) -> Deferred[Any]:
        return self._answer


class SolitudeTests(SynchronousTestCase):
    def alone(self, others: bool, *answers: Deferred[Any]) -> bool:
        peers: Any = type("Peers", (), {"by_id": dict(enumerate(map(_Peer, answers)))})
        return self.successResultOf(Deferred.fromCoroutine(is_alone(peers, others)))

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
        cluster.pass_time(6)
        ready = one.ready
        assert ready is not None
        self.assertNoResult(ready)
        one.database.away = False
        cluster.pass_time(2)
        self.assertEqual((one.granted_times, two.begun_again), (2, 0))
