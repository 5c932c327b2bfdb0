"""The questions to all voters: two rounds, limits, and answers that cannot be used."""

from __future__ import annotations

import random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.votes import FAILOVER_VOTE, OLD_FAILOVER_VOTE
from mqbroker.ha.proof.poll import Outcome, Poll
from mqbroker.ha.proof.ports import Choice, UnreachableError
from mqbroker.ha.proof.vote_codec import ACTIVATION_VOTE
from mqbroker.ha.proof.voter import Voter
from mqclient.wire.primitives import Decoder, Encoder
from tests.support.clock import FakeClock
from tests.support.settings_store import SettingsStore


class Ways:
    """The network to voters, which answer when a test says so."""

    def __init__(self, voters: int) -> None:
        self.voters: dict[str, Voter] = {}
        self.java: set[str] = set()
        self.absent: set[str] = set()
        """Voters that have not even said of which kind they are."""
        for number in range(voters):
            store: Any = SettingsStore()
            store.when_synced = lambda ticket, function, *args: function(*args)
            self.voters[f"v{number}"] = Voter(store, f"v{number}", {})
        self.asked: list[tuple[str, str, bytes, Deferred[bytes]]] = []

    def ask_voter(self, node_id: str, choose: Choice) -> Deferred[bytes]:
        answer: Deferred[bytes] = Deferred()
        chosen = choose(node_id in self.java) if node_id not in self.absent else ("", b"")
        assert chosen is not None
        self.asked.append((node_id, *chosen, answer))
        return answer

    def answer(self, *silent: str) -> None:
        """Everybody answers what was asked so far, and nobody answers for ``silent``."""
        asked, self.asked = self.asked, []
        for node_id, _, question, answer in asked:
            if answer.called:
                continue
            if node_id in silent:
                answer.errback(UnreachableError("nobody"))
            else:
                self.voters[node_id].answer(question).chainDeferred(answer)


class PollTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.ways = Ways(3)
        self.outcomes: list[Outcome] = []

    def poll(self, copy_id: str = "me", *seconds: float) -> Poll:
        ways: Any = self.ways
        return Poll(ways, self.clock, random.Random(copy_id).randbytes, "node", copy_id, "own connector", *seconds)

    def ask(self, poll: Poll, needed: int = 2, active: bool = False) -> None:
        poll.ask(2, tuple(self.ways.voters), needed, active, self.outcomes.append)

    def test_a_majority_gives_the_sequence(self) -> None:
        self.ask(self.poll())
        self.ways.answer("v2")
        self.assertEqual({(handler, len(self.ways.voters)) for _, handler, _, _ in self.ways.asked}, {(ACTIVATION_VOTE, 3)})
        self.ways.answer("v0")
        self.assertEqual([each.value for each in self.outcomes], ["me"])
        self.assertIn("2 of 3 voters have given sequence 2 to me", self.outcomes[0].text)
        self.assertEqual(self.clock.pending, 0)

    def test_the_second_one_learns_who_has_it(self) -> None:
        for copy_id in ("me", "you"):
            self.ask(self.poll(copy_id))
            self.ways.answer()
            self.ways.answer()
        poll = self.poll("you")
        for _ in range(2):
            self.ask(poll)
            self.ways.answer()
            self.ways.answer()
        self.assertEqual({each.value for each in self.outcomes if each.value}, {"me"})
        self.assertEqual(self.outcomes[-1].value, "me")

    def test_old_data_are_told_so(self) -> None:
        poll = self.poll()
        poll.ask(7, tuple(self.ways.voters), 2, False, lambda outcome: None)
        self.ways.answer()
        poll.stop()
        self.ways.asked.clear()
        self.ask(self.poll("you"))
        self.ways.answer()
        self.assertEqual([(each.value, each.past) for each in self.outcomes], [("", 7)])
        self.assertIn("the data of sequence 1 are old", self.outcomes[0].text)

    def test_too_few_answers_end_the_attempt(self) -> None:
        self.ask(self.poll())
        self.ways.answer("v0", "v1")
        self.assertEqual([each.value for each in self.outcomes], [""])
        self.assertIn("2 are needed", self.outcomes[0].text)

    def test_silence_ends_it_after_its_time(self) -> None:
        self.ask(self.poll())
        self.clock.advance(1.9)
        self.assertEqual(self.outcomes, [])
        self.clock.advance(0.2)
        self.assertEqual(self.outcomes[0].text, "AMQ221069: too few voters have answered within 2 s")
        self.assertEqual([answer.called for *_, answer in self.ways.asked], [True] * 3)
        self.flushLoggedErrors()

    def test_the_time_for_an_answer_may_be_longer(self) -> None:
        self.ask(self.poll("me", 12))
        self.clock.advance(11.9)
        self.ways.answer()
        self.clock.advance(11.9)
        self.assertEqual(self.outcomes, [])
        self.clock.advance(0.2)
        self.assertIn("within 12 s", self.outcomes[0].text)

    def test_a_quorum_size_beyond_the_voters_asks_nobody(self) -> None:
        self.ask(self.poll(), needed=4)
        self.assertEqual(self.ways.asked, [])
        self.assertIn("quorum-size asks for 4 votes, and there are 3 voters", self.outcomes[0].text)

    def test_who_answers_for_another_one_or_in_garbage_does_not_count(self) -> None:
        self.ask(self.poll())
        asked, self.ways.asked = self.ways.asked, []
        self.ways.voters["v1"].answer(asked[0][2]).chainDeferred(asked[0][3])
        asked[1][3].callback(b"garbage")
        self.assertIn("2 are needed", self.outcomes[0].text)

    def test_after_a_stop_nothing_is_heard(self) -> None:
        poll = self.poll()
        self.ask(poll)
        poll.stop()
        self.ways.answer()
        self.clock.advance(5)
        self.assertEqual((self.outcomes, self.clock.pending), ([], 0))

    def java(self, agreed: bool, connector: str | None = None) -> bytes:
        encoder = Encoder()
        encoder.boolean(agreed)
        encoder.string("node")
        encoder.nullable_string(connector)
        return bytes(encoder.data)

    def test_java_voters_are_asked_as_ever_and_their_yes_counts(self) -> None:
        self.ways.java = {"v0", "v1", "v2"}
        self.ask(self.poll())
        self.assertEqual([handler for _, handler, _, _ in self.ways.asked], [FAILOVER_VOTE] * 3)
        self.assertFalse(Decoder(self.ways.asked[0][2], "vote").boolean())
        for *_, answer in self.ways.asked[:2]:
            answer.callback(self.java(True))
        for *_, answer in self.ways.asked[3:5]:
            answer.callback(self.java(True))
        self.assertEqual([each.value for each in self.outcomes], ["me"])

    def test_an_active_broker_asks_java_voters_whether_it_still_is_the_one(self) -> None:
        self.ways.java = {"v0", "v1", "v2"}
        self.ask(self.poll(), active=True)
        self.assertTrue(Decoder(self.ways.asked[0][2], "vote").boolean())
        for *_, answer in self.ways.asked[:2]:
            answer.callback(self.java(True, "another connector"))
        self.assertEqual([each.value for each in self.outcomes], [""])

    def test_a_java_voter_that_is_silent_is_asked_under_the_older_name_next(self) -> None:
        self.ways.java = {"v0"}
        poll = self.poll()
        self.ask(poll)
        self.ways.answer("v0", "v1")
        self.ask(poll)
        self.assertEqual(self.ways.asked[0][1], OLD_FAILOVER_VOTE)

    def test_a_java_voter_that_does_not_know_the_name_says_nothing_at_all(self) -> None:
        self.ways.java = {"v0"}
        poll = self.poll()
        for expected in (FAILOVER_VOTE, OLD_FAILOVER_VOTE, FAILOVER_VOTE):
            self.ask(poll)
            self.assertEqual(self.ways.asked[0][1], expected)
            self.ways.asked.clear()
            self.clock.advance(2.1)
        self.flushLoggedErrors()

    def test_a_java_voter_that_was_not_reached_is_asked_under_the_same_name_again(self) -> None:
        self.ways.java = self.ways.absent = {"v0"}
        poll = self.poll()
        self.ask(poll)
        self.ways.answer("v0", "v1")
        self.ask(poll)
        self.clock.advance(2.1)
        self.ways.asked.clear()
        self.ways.absent = set()
        self.ask(poll)
        self.assertEqual(self.ways.asked[0][1], FAILOVER_VOTE)
        self.flushLoggedErrors()

    def test_a_java_voter_that_answers_is_asked_under_the_same_name_again(self) -> None:
        self.ways.java = {"v0"}
        poll = self.poll()
        self.ask(poll)
        self.ways.asked[0][3].callback(self.java(True))
        self.clock.advance(2.1)
        self.ways.asked.clear()
        self.ask(poll)
        self.assertEqual(self.ways.asked[0][1], FAILOVER_VOTE)

    def test_who_turns_out_to_be_a_java_voter_is_asked_under_the_present_name_first(self) -> None:
        poll = self.poll()
        self.ask(poll)
        self.ways.java = {"v0"}
        self.ways.asked.clear()
        self.clock.advance(2.1)
        self.ask(poll)
        self.assertEqual(self.ways.asked[0][1], FAILOVER_VOTE)
