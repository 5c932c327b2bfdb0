"""Single-decree Paxos: which copy of a node gets an activation sequence, as the questions and answers of two rounds (decision 36).

Each pair of node id and sequence is one decision.  A proposer asks a majority to promise, and then, with the value of the highest ballot
that was accepted before, or with its own, to accept.  Nothing here does input or output: whoever holds the state of an acceptor stores it
before it gives an answer away.

An acceptor keeps one state for each node id, that of the highest sequence it was asked about.  Older ones it may forget: a copy asks for
a sequence only when it is complete at the one before, so whoever asks for less has data of the past, and is told so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum, auto
from typing import NamedTuple


class Ballot(NamedTuple):
    """One attempt.  ``proposer`` is random for each search of a copy, so that no two attempts share a ballot, also after a restart."""

    number: int
    proposer: bytes


NO_BALLOT = Ballot(0, bytes(16))
"""Less than all others."""


class Round(IntEnum):
    """The two rounds of questions to an acceptor."""

    PROMISE = 0
    ACCEPT = 1


class Verdict(IntEnum):
    """The answer of an acceptor."""

    GIVEN = 0
    OUTBID = 1
    """A higher ballot has its promise."""
    PAST = 2
    """The acceptor was asked about a later sequence of this node."""


@dataclass(frozen=True, slots=True)
class Question:
    """``value`` is the id of a copy, empty when a promise is asked for."""

    round: Round
    node_id: str
    sequence: int
    ballot: Ballot
    value: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """The state of an acceptor about one node.  ``value`` is that of the ballot ``accepted``."""

    sequence: int = 0
    promised: Ballot = NO_BALLOT
    accepted: Ballot = NO_BALLOT
    value: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Of ``voter`` (its node id) to the question with this round and ballot, and what it holds now."""

    voter: str
    round: Round
    ballot: Ballot
    verdict: Verdict
    held: Held


def consider(held: Held, question: Question) -> tuple[Held, Verdict]:
    """The answer of an acceptor that holds ``held``, and the state that it has to hold before it gives the answer."""
    if question.sequence < held.sequence:
        return held, Verdict.PAST
    if question.sequence > held.sequence:
        held = Held(question.sequence)
    if question.ballot < held.promised:
        return held, Verdict.OUTBID
    if question.round is Round.PROMISE:
        return replace(held, promised=question.ballot), Verdict.GIVEN
    return Held(question.sequence, question.ballot, question.ballot, question.value), Verdict.GIVEN


class Progress(Enum):
    """The change that an answer has made."""

    NOTHING = auto()
    NEXT_ROUND = auto()
    """Promised: ask the voters :attr:`Proposer.question` again, which is the one of the second round now."""
    DECIDED = auto()
    """For good: see :attr:`Proposer.decided`."""
    PAST = auto()
    """A later sequence is known: see :attr:`Proposer.past`."""
    HOPELESS = auto()
    """Too many voters refuse this ballot or do not answer: try a higher one, later."""


@dataclass
class Proposer:
    """One attempt of a copy to get a sequence.

    ``voters`` are node ids, ``needed`` how many of them must agree: a majority, at least.  ``value`` is the id of the copy.
    """

    node_id: str
    sequence: int
    value: str
    voters: Sequence[str]
    needed: int
    ballot: Ballot
    decided: str = ""
    past: int = 0
    """The later sequence that a voter knows."""
    highest: int = 0
    """The highest number of a ballot that was heard of."""
    _round: Round = Round.PROMISE
    _proposed: str = ""
    _best: Ballot = NO_BALLOT
    _given: set[str] = field(default_factory=set)
    _refused: set[str] = field(default_factory=set)
    _agreed: set[str] = field(default_factory=set)

    @property
    def question(self) -> Question:
        return Question(self._round, self.node_id, self.sequence, self.ballot, self._proposed)

    def heard(self, answer: Answer) -> Progress:
        """An answer, of whatever voter and to whatever question."""
        self.highest = max(self.highest, answer.held.promised.number)
        if (answer.round, answer.ballot) != (self._round, self.ballot) or answer.voter not in self.voters or self.decided:
            return Progress.NOTHING
        if answer.verdict is Verdict.PAST:
            self.past = answer.held.sequence
            return Progress.PAST
        if answer.verdict is Verdict.OUTBID:
            return self.silent(answer.voter)
        if self._round is Round.PROMISE and answer.held.accepted > self._best:
            self._best, self._proposed = answer.held.accepted, answer.held.value
        self._given.add(answer.voter)
        return self._count()

    def agreed(self, voter: str) -> Progress:
        """A voter that knows no ballots, a Java broker, agrees: to both rounds."""
        self._agreed.add(voter)
        return self._count()

    def silent(self, voter: str) -> Progress:
        """A voter refuses, or does not answer, in this round."""
        self._refused.add(voter)
        hopeless = len(self.voters) - len(self._refused - self._given - self._agreed) < self.needed
        return Progress.HOPELESS if hopeless and not self.decided else Progress.NOTHING

    def _count(self) -> Progress:
        if self.decided or len(self._given | self._agreed) < self.needed:
            return Progress.NOTHING
        if self._round is Round.ACCEPT:
            self.decided = self._proposed
            return Progress.DECIDED
        self._round = Round.ACCEPT
        self._proposed = self._proposed or self.value
        self._given, self._refused = set(), set()
        return Progress.NEXT_ROUND


def needed_votes(voters: int, quorum_size: int) -> int:
    """How many of so many voters must agree: a majority, or more if ``quorum-size`` (-1 = not set) says so; 0: nobody needs to be asked.

    ``quorum-size`` is that of Artemis: it counts nodes, the own one among them, which casts no vote.
    """
    majority = voters // 2 + 1 if voters else 0
    wanted = 0 if quorum_size < 0 else quorum_size // 2 if quorum_size <= 2 else quorum_size // 2 + 1
    return max(majority, wanted)
