"""A broker as a voter: what it says is durable, also at its replica, before it is said, and it remembers it."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof import voter
from mqbroker.ha.proof.paxos import Ballot, Question, Round, Verdict
from mqbroker.ha.proof.vote_codec import decode_answer, encode_question
from mqbroker.ha.proof.voter import Voter
from mqclient.errors import MalformedPacketError, ProtocolError
from tests.support.settings_store import SettingsStore


def question(number: int, value: str = "", sequence: int = 2, node_id: str = "node") -> bytes:
    asked = Round.ACCEPT if value else Round.PROMISE
    return encode_question(Question(asked, node_id, sequence, Ballot(number, b"p" * 16), value))


class VoterTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.start({})

    def start(self, durable: dict[tuple[str, str], str]) -> None:
        self.store: Any = SettingsStore(durable)
        self.voter = Voter(self.store, "v1", dict(durable))

    def said(self, answer: Deferred[bytes]) -> Verdict:
        self.store.sync()
        return decode_answer(self.successResultOf(answer)).verdict

    def test_it_says_nothing_before_that_is_durable_and_replicated(self) -> None:
        replica = self.store.demand("replica")
        answer = self.voter.answer(question(1, "a"))
        self.assertNoResult(answer)
        self.store.sync()
        self.assertNoResult(answer)
        replica.hold(self.store.last)
        decoded = decode_answer(self.successResultOf(answer))
        self.assertEqual((decoded.voter, decoded.verdict, decoded.held.value), ("v1", Verdict.GIVEN, "a"))

    def test_a_repeated_answer_waits_for_the_first_one(self) -> None:
        first, again = self.voter.answer(question(1)), self.voter.answer(question(1))
        self.assertNoResult(again)
        self.assertEqual([self.said(first), self.said(again), self.store.commits], [Verdict.GIVEN, Verdict.GIVEN, 1])

    def test_it_remembers_after_a_restart_what_was_durable(self) -> None:
        self.said(self.voter.answer(question(3, "a")))
        self.start(self.store.durable)
        self.assertIs(self.said(self.voter.answer(question(2))), Verdict.OUTBID)
        answer = self.voter.answer(question(4))
        self.store.sync()
        held = decode_answer(self.successResultOf(answer)).held
        self.assertEqual((held.value, held.accepted.number, held.promised.number), ("a", 3, 4))

    def test_what_was_not_durable_was_not_said(self) -> None:
        lost = self.voter.answer(question(3, "a"))
        self.start(self.store.durable)
        self.assertNoResult(lost)
        self.assertIs(self.said(self.voter.answer(question(1, "b"))), Verdict.GIVEN)

    def test_nodes_have_nothing_to_do_with_each_other(self) -> None:
        self.said(self.voter.answer(question(5, "a", sequence=9)))
        self.assertIs(self.said(self.voter.answer(question(1, "b", node_id="other"))), Verdict.GIVEN)
        self.assertIs(self.said(self.voter.answer(question(9, "b"))), Verdict.PAST)

    def test_garbage_and_one_node_too_many_are_refused(self) -> None:
        self.assertRaises(MalformedPacketError, self.voter.answer, b"x")
        self.patch(voter, "NODES_MAX", 1)
        self.voter.answer(question(1))
        self.assertRaises(ProtocolError, self.voter.answer, question(1, node_id="other"))
        self.voter.answer(question(2))
