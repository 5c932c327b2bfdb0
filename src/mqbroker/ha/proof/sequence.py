"""The source from which a copy gets its next sequence: the voters of its node, or a lock manager in their place (decision 38)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mqbroker.ha.locks.claims import Claim, Verdict
from mqbroker.ha.proof.paxos import needed_votes
from mqbroker.ha.proof.ports import Purpose

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from mqbroker.ha.locks.proof import LockProof
    from mqbroker.ha.proof.copy_keeper import CopyKeeper
    from mqbroker.ha.proof.poll import Outcome, Poll
    from mqbroker.ha.proof.rules import ProofRules


class Search(NamedTuple):
    """The knowledge of a copy that asks for its sequence.  ``reason`` says how the other copy was asked, and what it answered."""

    purpose: Purpose
    serving: bool
    """Is the broker active, and without a replica?"""
    absent: bool
    """Is nobody active or seeking where the other copy should be?"""
    reason: str


class Decision(Enum):
    """The outcome of a question for the sequence."""

    GIVEN = auto()
    """This copy has the sequence."""
    REFUSED = auto()
    """Another copy goes on."""
    OPEN = auto()
    """Nobody settles it now."""


Decided = Callable[[Decision, str], object]
"""Hears the end of a question, and the reason in words."""


class SequenceSource(Protocol):
    """Gives a copy its sequences, each to one copy only."""

    copies_decide: bool
    """Are the other copies asked first, and may a copy give itself up to another one?"""

    def ask(self, search: Search, decided: Decided) -> None:
        """Ask for the next sequence; ``decided`` is called once, perhaps at once, unless :meth:`stop` comes first."""

    def commit(self, sequence: int, done: Callable[[bool], object]) -> None:
        """The sequence is durable here; ``done`` hears whether it still is this copy's, unless :meth:`stop` comes first."""

    def stop(self) -> None:
        """Wait for no answer any more."""

    def release(self) -> None:
        """This copy is passive: another one may have its turn."""


class VoterSource:
    """The voters.  A pair alone, which has none, gets its sequence because nobody is there where the other copy should be."""

    copies_decide = True

    def __init__(self, poll: Poll, keeper: CopyKeeper, rules: ProofRules, voters: Callable[[], Sequence[str]]) -> None:
        self._poll = poll
        self._keeper = keeper
        self._rules = rules
        self._voters = voters

    def ask(self, search: Search, decided: Decided) -> None:
        voters, record, reason = self._voters(), self._keeper.latest, search.reason
        if not record.complete:
            decided(Decision.OPEN, f"{reason}; this copy has given itself up, and only the other one can make it active")
        elif search.purpose is Purpose.START and not self._rules.primary:
            decided(Decision.OPEN, f"{reason}; a backup does not start with these data unless it meets the other copy")
        elif needed := needed_votes(len(voters), self._rules.quorum_size):
            self._poll.ask(record.sequence + 1, voters, needed, search.serving, partial(self._voted, search, decided))
        elif search.purpose in (Purpose.START, Purpose.COME_BACK):
            decided(Decision.OPEN, f"{reason}; a pair alone does not start before its copies have met")
        elif search.absent:
            decided(Decision.GIVEN, f"{reason}; there is nobody else to ask")
        else:
            decided(Decision.OPEN, reason)

    def _voted(self, search: Search, decided: Decided, outcome: Outcome) -> None:
        if outcome.value == self._keeper.latest.copy_id:
            takes_over = search.purpose is Purpose.TAKE_OVER
            decided(Decision.GIVEN, f"AMQ221071: {outcome.text}" if takes_over else outcome.text)
        elif outcome.value or outcome.past:
            decided(Decision.REFUSED, f"AMQ224098: {outcome.text}" if search.serving else outcome.text)
        else:
            decided(Decision.OPEN, f"{search.reason}; {outcome.text}")

    def commit(self, sequence: int, done: Callable[[bool], object]) -> None:
        """The voters know already."""
        done(True)

    def stop(self) -> None:
        self._poll.stop()

    def release(self) -> None:
        """Nothing to do: this copy holds nothing that another one could have meanwhile."""


class LockSource:
    """A lock manager.  ``broken`` hears that the record of this copy cannot be changed."""

    copies_decide = False

    def __init__(self, locks: LockProof, node_id: str, keeper: CopyKeeper, broken: Callable[[Failure], object]) -> None:
        self._locks = locks
        self._node_id = node_id
        self._keeper = keeper
        self._broken = broken
        self._step = object()
        """Tells the answer that is waited for from late ones."""

    def ask(self, search: Search, decided: Decided) -> None:
        self._claim(decided)

    def _claim(self, decided: Decided) -> None:
        self._step = step = object()
        self._locks.claim(self._node_id, self._keeper.latest.sequence + 1, partial(self._claimed, step, decided))

    def _claimed(self, step: object, decided: Decided, claim: Claim | str) -> None:
        if step is not self._step:
            return
        if isinstance(claim, str):
            decided(Decision.OPEN, claim)
        elif claim.verdict is Verdict.CLAIMED:
            decided(Decision.GIVEN, claim.text)
        elif claim.verdict is Verdict.SKIP:
            self._keeper.skip().addCallbacks(lambda _: self._claim(decided) if step is self._step else None, self._broken)
        elif claim.verdict is Verdict.STALE:
            decided(Decision.REFUSED, claim.text)
        else:
            decided(Decision.OPEN, claim.text)

    def commit(self, sequence: int, done: Callable[[bool], object]) -> None:
        self._locks.commit(sequence, done)

    def stop(self) -> None:
        self._step = object()
        self._locks.stop()

    def release(self) -> None:
        self._locks.release()
