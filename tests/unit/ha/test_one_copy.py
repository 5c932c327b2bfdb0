"""What a broker without a copy of its data does for those that have one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.ha.one_copy import OneCopy
from mqbroker.ha.proof.paxos import Ballot, Question, Round, Verdict
from mqbroker.ha.proof.ports import Introduction
from mqbroker.ha.proof.vote_codec import ACTIVATION_VOTE, INTRODUCTION, decode_answer, decode_introduction, encode_question
from tests.support.settings_store import SettingsStore

QUESTION = encode_question(Question(Round.PROMISE, "node", 2, Ballot(1, b"p" * 16), ""))


class OneCopyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store: Any = SettingsStore({})
        self.votes: dict[str, Any] = {}
        self.server: Any = SimpleNamespace(
            node_id="v1",
            cluster=object(),
            cluster_channel=SimpleNamespace(register_vote=self.votes.__setitem__),
            configuration=Configuration(),
        )

    def test_an_active_broker_of_a_cluster_votes_about_others(self) -> None:
        OneCopy().serve(self.server, self.store, {})
        answer = self.votes[ACTIVATION_VOTE](None, QUESTION)
        self.store.sync()
        self.assertIs(decode_answer(self.successResultOf(answer)).verdict, Verdict.GIVEN)
        self.assertEqual(self.introduction(), Introduction(java=False, votes=True, paired=False))

    def introduction(self) -> Introduction:
        return decode_introduction(self.votes[INTRODUCTION](None, b""), "v1")

    def test_a_broker_that_keeps_nothing_does_not_vote_and_says_so(self) -> None:
        self.server.configuration = Configuration(persistence_enabled=False)
        OneCopy().serve(self.server, self.store, {})
        self.assertEqual(list(self.votes), [INTRODUCTION])
        self.assertFalse(self.introduction().votes)

    def test_a_broker_without_a_cluster_is_asked_by_nobody(self) -> None:
        self.server.cluster = None
        OneCopy().serve(self.server, self.store, {})
        self.assertEqual(self.votes, {})

    def test_another_broker_may_go_on_at_once(self) -> None:
        done: list[bool] = []
        OneCopy().let_go(lambda: done.append(True))
        self.assertEqual(done, [True])
