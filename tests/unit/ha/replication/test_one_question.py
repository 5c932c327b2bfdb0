"""A question to another broker over a connection of its own; what comes back is in the tests of :mod:`mqbroker.ha.replication.network`."""

from __future__ import annotations

from pathlib import Path

from twisted.internet.defer import Deferred

from mqbroker.ha.proof.meeting import MEETING
from mqbroker.ha.proof.ports import UnreachableError
from mqbroker.ha.replication.one_question import ask_once
from mqbroker.node.presence import open_side
from tests.unit.cluster.bridge_support import connector
from tests.unit.ha.replication.support import PairCase, ProcessClock, Runtime, alone


class QuestionTests(PairCase):
    def ask(self, port: int, question: bytes | None) -> Deferred[bytes]:
        side = open_side(self.primary.configuration(), None, Path(), Runtime(self.network, ProcessClock(self.clock)))
        asked = Deferred.fromCoroutine(ask_once(side, connector(port), lambda java: None if question is None else (MEETING, question)))
        self.run_for(0.2)
        return asked

    def setUp(self) -> None:
        super().setUp()
        self.primary = alone(self)

    def test_an_answer_ends_the_connection(self) -> None:
        self.assertTrue(self.successResultOf(self.ask(1, self.primary.activation._own.seeker.standing.encode())))
        self.assertEqual(self.successResultOf(self.ask(1, None)), b"")
        self.run_for(1)
        self.assertEqual([link for link in self.network.links if link.open], [])

    def test_nobody_is_there_and_nobody_answers(self) -> None:
        self.failureResultOf(self.ask(9, b""), UnreachableError)
        self.failureResultOf(self.ask(1, b"damaged"), UnreachableError)
