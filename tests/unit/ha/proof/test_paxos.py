"""Never two values for a sequence, whatever is lost, late, doubled or forgotten in a crash; and a value soon, once all is well."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof import paxos
from mqbroker.ha.proof.paxos import NO_BALLOT, Answer, Ballot, Held, Progress, Proposer, Question, Round, Verdict, needed_votes


def ballot(number: int, proposer: bytes = b"p") -> Ballot:
    return Ballot(number, proposer.ljust(16, b"\0"))


def ask(number: int, sequence: int = 2, value: str = "") -> Question:
    return Question(Round.ACCEPT if value else Round.PROMISE, "node", sequence, ballot(number), value)


class AcceptorTests(SynchronousTestCase):
    def test_a_promise_keeps_lower_ballots_out(self) -> None:
        held, verdict = paxos.consider(Held(), ask(2))
        self.assertEqual((held, verdict), (Held(2, ballot(2)), Verdict.GIVEN))
        self.assertEqual(paxos.consider(held, ask(1)), (held, Verdict.OUTBID))
        self.assertEqual(paxos.consider(held, ask(1, value="a")), (held, Verdict.OUTBID))
        self.assertEqual(paxos.consider(held, ask(2)), (held, Verdict.GIVEN))

    def test_what_was_accepted_is_told_with_the_next_promise(self) -> None:
        held, _ = paxos.consider(Held(), ask(1, value="a"))
        self.assertEqual(paxos.consider(held, ask(2))[0], Held(2, ballot(2), ballot(1), "a"))

    def test_a_later_sequence_makes_the_earlier_one_past(self) -> None:
        held, _ = paxos.consider(Held(), ask(1, value="a"))
        later, verdict = paxos.consider(held, ask(1, sequence=5))
        self.assertEqual((later, verdict), (Held(5, ballot(1)), Verdict.GIVEN))
        self.assertEqual(paxos.consider(later, ask(9, sequence=2)), (later, Verdict.PAST))


class ProposerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.proposer = Proposer("node", 2, "me", ("v1", "v2", "v3"), 2, ballot(1))

    def answer(self, voter: str, held: Held | None = None, verdict: Verdict = Verdict.GIVEN) -> Progress:
        question = self.proposer.question
        return self.proposer.heard(Answer(voter, question.round, question.ballot, verdict, held or Held(2, question.ballot)))

    def test_two_rounds_with_a_majority_decide(self) -> None:
        self.assertEqual(
            [self.answer("v1"), self.answer("v1"), self.answer("v2")], [Progress.NOTHING, Progress.NOTHING, Progress.NEXT_ROUND]
        )
        self.assertEqual(self.proposer.question, Question(Round.ACCEPT, "node", 2, ballot(1), "me"))
        self.assertEqual([self.answer("v3"), self.answer("v1")], [Progress.NOTHING, Progress.DECIDED])
        self.assertEqual(self.proposer.decided, "me")

    def test_the_value_of_the_highest_ballot_is_proposed(self) -> None:
        self.answer("v1", Held(2, ballot(1), ballot(0, b"z"), "other"))
        self.answer("v2", Held(2, ballot(1), NO_BALLOT, ""))
        self.assertEqual(self.proposer.question.value, "other")

    def test_strangers_and_late_answers_do_not_count(self) -> None:
        late = Answer("v1", Round.PROMISE, ballot(9), Verdict.GIVEN, Held(2, ballot(9)))
        self.assertEqual([self.answer("v9"), self.proposer.heard(late), self.answer("v1")], [Progress.NOTHING] * 3)
        self.assertEqual(self.proposer.highest, 9)

    def test_without_a_majority_it_is_hopeless(self) -> None:
        self.assertEqual(self.answer("v1", Held(2, ballot(7)), Verdict.OUTBID), Progress.NOTHING)
        self.assertEqual((self.proposer.silent("v2"), self.proposer.highest), (Progress.HOPELESS, 7))

    def test_a_later_sequence_is_past(self) -> None:
        self.assertEqual((self.answer("v1", Held(4), Verdict.PAST), self.proposer.past), (Progress.PAST, 4))

    def test_one_that_knows_no_ballots_agrees_to_both_rounds(self) -> None:
        self.assertEqual(
            [self.proposer.agreed("v1"), self.answer("v2"), self.answer("v2")], [Progress.NOTHING, Progress.NEXT_ROUND, Progress.DECIDED]
        )

    def test_a_majority_is_needed_or_more(self) -> None:
        self.assertEqual([needed_votes(voters, -1) for voters in (1, 2, 3, 4, 5)], [1, 2, 2, 3, 3])
        # As Artemis has it: of so many nodes, of which the own one has no vote.
        self.assertEqual([needed_votes(0, size) for size in (-1, 1, 2, 3, 4, 5, 6, 7)], [0, 0, 1, 2, 3, 3, 4, 4])
        self.assertEqual([needed_votes(4, 1), needed_votes(4, 6), needed_votes(1, 3)], [3, 4, 2])


class Network:
    """Voters with durable states, proposers that come and go, and messages that are lost, late and doubled."""

    def __init__(self, rng: random.Random, voters: int, later: bool) -> None:
        self.rng = rng
        self.voters = [f"v{number}" for number in range(voters)]
        self.later = later
        self.durable: dict[str, Held] = {}
        self.memory: dict[str, Held] = {}
        self.unsynced: list[tuple[str, int, Answer]] = []
        """Answers that wait for their voter's disk."""
        self.questions: list[tuple[str, int, Question]] = []
        self.answers: list[tuple[int, Answer]] = []
        self.proposers: list[Proposer] = []
        self.decided: set[str] = set()

    def propose(self) -> None:
        rng = self.rng
        number = rng.randrange(1, 6)
        later = self.later and rng.random() < 0.1
        proposer = Proposer(
            "node", 3 if later else 2, rng.choice("abc"), self.voters, needed_votes(len(self.voters), -1), Ballot(number, rng.randbytes(16))
        )
        self.proposers.append(proposer)
        self.ask_all(len(self.proposers) - 1)

    def ask_all(self, index: int) -> None:
        self.questions += [(voter, index, self.proposers[index].question) for voter in self.voters]

    def receive(self) -> None:
        if self.questions:
            place = self.rng.randrange(len(self.questions))
            voter, index, question = self.questions[place]
            if self.rng.random() < 0.9:
                del self.questions[place]
            held, verdict = paxos.consider(self.memory.get(voter, Held()), question)
            self.memory[voter] = held
            self.unsynced.append((voter, index, Answer(voter, question.round, question.ballot, verdict, held)))

    def sync(self) -> None:
        for voter, index, answer in self.unsynced:
            self.answers.append((index, answer))
            self.durable[voter] = self.memory[voter]
        self.unsynced.clear()

    def crash(self) -> None:
        voter = self.rng.choice(self.voters)
        self.unsynced = [each for each in self.unsynced if each[0] != voter]
        self.memory[voter] = self.durable.get(voter, Held())

    def hear(self) -> None:
        if self.answers:
            place = self.rng.randrange(len(self.answers))
            index, answer = self.answers[place]
            if self.rng.random() < 0.9:
                del self.answers[place]
            self.deliver(index, answer)

    def deliver(self, index: int, answer: Answer) -> None:
        proposer = self.proposers[index]
        progress = proposer.heard(answer)
        if progress is Progress.NEXT_ROUND:
            self.ask_all(index)
        elif progress is Progress.DECIDED and proposer.sequence == 2:
            self.decided.add(proposer.decided)

    def lose(self) -> None:
        for messages in (self.questions, self.answers):
            if messages:
                del messages[self.rng.randrange(len(messages))]  # type: ignore[attr-defined]

    def run(self, steps: int) -> None:
        acts = [self.receive] * 8 + [self.hear] * 8 + [self.sync] * 4 + [self.crash, self.lose, self.propose]
        for _ in range(steps):
            self.rng.choice(acts)()

    def settle(self) -> None:
        """One proposer is left, and everything arrives."""
        self.questions.clear()
        number = 1 + max((each.promised.number for each in self.memory.values()), default=0)
        self.proposers.append(Proposer("node", 2, "z", self.voters, needed_votes(len(self.voters), -1), Ballot(number, bytes(16))))
        self.ask_all(len(self.proposers) - 1)
        while self.questions:
            self.receive()
            self.sync()
            while self.answers:
                self.deliver(*self.answers.pop())


class PropertyTests(SynchronousTestCase):
    @settings(max_examples=150, deadline=None)
    @given(st.integers(0, 1 << 32), st.integers(1, 5), st.booleans())
    def test_never_two_values(self, seed: int, voters: int, later: bool) -> None:
        network = Network(random.Random(seed), voters, later)
        network.run(300)
        self.assertLessEqual(len(network.decided), 1)
        if not later:
            network.settle()
            self.assertEqual(len(network.decided), 1)

    def found(self) -> bool:
        for seed in range(200):
            network = Network(random.Random(seed), 3, False)
            network.run(300)
            if len(network.decided) > 1:
                return True
        return False

    def test_a_voter_that_answers_before_it_is_durable_is_found(self) -> None:
        def hurry(network: Network) -> None:
            network.answers += [(index, answer) for _, index, answer in network.unsynced]
            network.unsynced.clear()

        self.assertFalse(self.found())
        self.patch(Network, "sync", hurry)
        self.assertTrue(self.found())

    def test_a_voter_that_grants_twice_is_found(self) -> None:
        real = paxos.consider
        self.patch(paxos, "consider", lambda held, question: real(Held(held.sequence), question))
        self.assertTrue(self.found())

    def test_two_attempts_that_share_a_ballot_are_found(self) -> None:
        self.patch(Network, "propose", _propose_without_chance)
        self.assertTrue(self.found())


def _propose_without_chance(network: Network) -> None:
    rng = network.rng
    network.proposers.append(Proposer("node", 2, rng.choice("abc"), network.voters, 2, Ballot(rng.randrange(1, 3), bytes(16))))
    network.ask_all(len(network.proposers) - 1)
