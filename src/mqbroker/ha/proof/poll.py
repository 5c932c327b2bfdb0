"""Asks all voters for one sequence, in two rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mqbroker.ha.proof.java_voters import JavaVotes
from mqbroker.ha.proof.paxos import Ballot, Progress, Proposer
from mqbroker.ha.proof.ports import Network, UnreachableError
from mqbroker.ha.proof.rules import ROUND_SECONDS
from mqbroker.ha.proof.vote_codec import ACTIVATION_VOTE, PROPOSER_SIZE, decode_answer, encode_question

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from mqbroker.messaging.ports import Cancellable, Clock

log = Logger(namespace="mqbroker.ha")


class Outcome(NamedTuple):
    """``value``: the copy that has the sequence, for good; empty when nothing was decided.  ``past``: a later sequence that is known.

    ``text`` says in words how it came.
    """

    value: str
    past: int
    text: str


class Poll:
    """The questions of one copy to the voters of its node.  Each :meth:`ask` is one attempt; a new one ends the last.

    ``round_seconds`` is how long the answers of each round are waited for.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        entropy: Callable[[int], bytes],
        node_id: str,
        copy_id: str,
        connector: str,
        round_seconds: float = ROUND_SECONDS,
    ) -> None:
        self._network = network
        self._round_seconds = round_seconds
        self._clock = clock
        self._entropy = entropy
        self._node_id = node_id
        self._copy_id = copy_id
        self._java = JavaVotes(node_id, connector)
        self._highest = 0
        self._active = False
        self._proposer: Proposer
        self._done: Callable[[Outcome], object]
        self._limit: Cancellable | None = None
        self._asked: list[Deferred[bytes]] = []
        self._java_asked: set[str] = set()
        """The Java voters among those that were asked in this round, and have not answered."""
        self._round = object()
        """Tells the answers of this round from late ones."""

    def ask(self, sequence: int, voters: Sequence[str], needed: int, active: bool, done: Callable[[Outcome], object]) -> None:
        """Try to get ``sequence`` for this copy; ``done`` hears once how that ended, unless :meth:`stop` comes first.

        ``active``: the copy is active and has lost its replica.
        """
        self.stop()
        self._done = done
        self._active = active
        ballot = Ballot(self._highest + 1, self._entropy(PROPOSER_SIZE))
        self._proposer = Proposer(self._node_id, sequence, self._copy_id, voters, needed, ballot)
        if needed > len(voters):
            self._end(f"quorum-size asks for {needed} votes, and there are {len(voters)} voters")
        else:
            self._ask_all()

    def stop(self) -> None:
        self._round = object()
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
        asked, self._asked = self._asked, []
        for each in asked:
            each.cancel()
        self._java_asked.clear()

    def _ask_all(self) -> None:
        self.stop()
        this_round = self._round
        self._limit = self._clock.call_later(self._round_seconds, self._too_late)
        question = encode_question(self._proposer.question)

        def choose(voter: str, java: bool) -> tuple[str, bytes]:
            if not java:
                return ACTIVATION_VOTE, question
            if this_round is self._round:
                self._java_asked.add(voter)
            return self._java.handler(voter), self._java.question(self._active)

        for voter in self._proposer.voters:
            if this_round is not self._round:
                return
            answer = self._network.ask_voter(voter, partial(choose, voter))
            self._asked.append(answer)
            answer.addCallback(partial(self._answered, this_round, voter))
            answer.addErrback(partial(self._failed, this_round, voter))

    def _answered(self, this_round: object, voter: str, vote: bytes) -> None:
        if this_round is not self._round:
            return
        proposer = self._proposer
        if voter in self._java_asked:
            self._java_asked.discard(voter)
            self._step(proposer.agreed(voter) if self._java.agrees(self._active, vote) else proposer.silent(voter))
            return
        answer = decode_answer(vote)
        self._step(proposer.heard(answer) if answer.voter == voter else proposer.silent(voter))

    def _failed(self, this_round: object, voter: str, failure: Failure) -> None:
        if this_round is not self._round:
            return
        java = voter in self._java_asked
        self._java_asked.discard(voter)
        if not isinstance(failure.value, UnreachableError):
            log.warn("the voter {voter} gives no answer that can be used: {reason}", voter=voter, reason=failure.getErrorMessage())
        elif java:
            self._java.silent(voter)
        self._step(self._proposer.silent(voter))

    def _too_late(self) -> None:
        for voter in self._java_asked:
            self._java.silent(voter)
        self._end(f"AMQ221069: too few voters have answered within {self._round_seconds:g} s")

    def _step(self, progress: Progress) -> None:
        proposer = self._proposer
        self._highest = max(self._highest, proposer.highest, proposer.ballot.number)
        if progress is Progress.NEXT_ROUND:
            self._ask_all()
        elif progress is Progress.DECIDED:
            self._end(f"{proposer.needed} of {len(proposer.voters)} voters have given sequence {proposer.sequence} to {proposer.decided}")
        elif progress is Progress.PAST:
            self._end(f"a voter knows of sequence {proposer.past} already: the data of sequence {proposer.sequence - 1} are old")
        elif progress is Progress.HOPELESS:
            self._end(f"too few of {len(proposer.voters)} voters answer, or another copy asks, too: {proposer.needed} are needed")

    def _end(self, text: str) -> None:
        self.stop()
        self._done(Outcome(self._proposer.decided, self._proposer.past, text))
