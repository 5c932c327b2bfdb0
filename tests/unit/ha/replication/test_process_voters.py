"""Voters that are asked in their own process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.replication.process_voters import ProcessVoters
from mqbroker.messaging.turns.turn import Turn
from mqclient.errors import ProtocolError
from tests.support.clock import FakeClock


class ProcessVotersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.turn = Turn(self.clock)
        self.asked: list[tuple[bytes, bool]] = []
        self.answer: Any = b"yes"
        self.voters = ProcessVoters()
        server: Any = SimpleNamespace(node_id="v1", clock=self.clock, turn=self.turn)
        self.leave = self.voters.join(server, {"vote": self.vote})

    def vote(self, question: bytes) -> Any:
        self.asked.append((question, self.turn.active))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def ask(self, node_id: str = "v1") -> Deferred[bytes]:
        found = self.voters.ask(node_id, lambda java: None if java else ("vote", b"question"))
        assert found is not None
        return found

    def run_due(self) -> None:
        while self.clock.run_due():
            pass

    def test_question_and_answer_come_from_calls_of_the_loop_in_a_turn_of_the_voter(self) -> None:
        later: Deferred[bytes] = Deferred()
        self.answer = later
        answer = self.ask()
        self.assertEqual(self.asked, [])
        self.run_due()
        self.assertEqual(self.asked, [(b"question", True)])
        later.callback(b"late")
        self.assertNoResult(answer)
        self.run_due()
        self.assertEqual(self.successResultOf(answer), b"late")

    def test_who_has_no_question_has_an_empty_answer(self) -> None:
        found: Any = self.voters.ask("v1", lambda java: None)
        self.assertEqual(self.successResultOf(found), b"")

    def test_a_question_without_an_answer_fails(self) -> None:
        self.answer = ProtocolError("one too many")
        answer = self.ask()
        self.run_due()
        self.failureResultOf(answer, ProtocolError)

    def test_nobody_is_asked_who_is_not_active_here(self) -> None:
        answer = self.ask()
        self.leave()
        self.run_due()
        self.assertNoResult(answer)
        for node_id in ("v1", "v2"):
            self.assertIsNone(self.voters.ask(node_id, lambda java: ("vote", b"")))
        self.assertEqual(self.asked, [])

    def test_an_answer_that_nobody_waits_for_is_dropped(self) -> None:
        later: Deferred[bytes] = Deferred()
        self.answer = later
        answer = self.ask()
        self.run_due()
        answer.cancel()
        self.failureResultOf(answer)
        later.callback(b"late")
        self.run_due()
