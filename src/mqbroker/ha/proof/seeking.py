"""How a copy gets the proof that it alone may be active, and what it says to the other copies of its node (decision 36)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.ha.proof.copy_keeper import Copying, CopyKeeper
from mqbroker.ha.proof.copy_record import CopyRecord, CopyStateError, OtherCopy
from mqbroker.ha.proof.meeting import Activity, Standing
from mqbroker.ha.proof.noted_copy import NotedCopy
from mqbroker.ha.proof.poll import Poll
from mqbroker.ha.proof.ports import Network, Owner, Purpose, UnreachableError
from mqbroker.ha.proof.rules import ProofRules
from mqbroker.ha.proof.seeking_machine import (
    SEEKING,
    SeekingData,
    holding,
    make_seeking,
    passive,
    raising,
    yielding,
)
from mqbroker.ha.proof.sequence import Decision, LockSource, Search, SequenceSource, VoterSource
from mqclient.errors import MQError

if TYPE_CHECKING:
    from mqbroker.ha.locks.proof import LockProof
    from mqbroker.messaging.ports import Cancellable, Clock

LAPSE_SECONDS = 5.0
"""How long an active broker lets answers wait for the proof; then its connections end."""

SEARCH_SIZE = 16
"""Random bytes that tell searches apart."""

log = Logger(namespace="mqbroker.ha")


def not_met(failure: Failure) -> None:
    """The errback of a visit that nothing depends on: only a defect is told."""
    if not isinstance(failure.value, UnreachableError | MQError | CancelledError):
        log.failure("the visit of another copy failed", failure)


class Seeker:
    """One copy of the node ``node_id``.  It lives as long as its broker, over several activations.

    ``voters`` gives the list of voters as this copy has it (``mqbroker.ha.proof.voters``), also of a copy that seeks to be active; it may
    not raise.  ``connector`` is the own connector in the form that Java voters answer with.  ``network_answers`` asks the places of the
    network check: unless one of them answers a passive copy seeks no proof, as it may be this copy that is cut off.  None: there is no such
    check.  With ``locks``, the lock manager, neither voters nor other copies are asked, and no copy gives itself up to another one: each
    sequence comes from the lock manager (decision 38).
    """

    def __init__(
        self,
        keeper: CopyKeeper,
        node_id: str,
        rules: ProofRules,
        voters: Callable[[], Sequence[str]],
        network: Network,
        owner: Owner,
        clock: Clock,
        entropy: Callable[[int], bytes],
        connector: str = "",
        network_answers: Callable[[], Deferred[bool]] | None = None,
        locks: LockProof | None = None,
    ) -> None:
        self._network_answers = network_answers
        self._keeper = keeper
        self._node_id = node_id
        self._rules = rules
        self._voters = voters
        self._owner = owner
        self._clock = clock
        self._entropy = entropy
        self._machine = make_seeking(SeekingData(self))
        self._noted = NotedCopy(network, clock, lambda: self.standing, self._answered, self._unanswered)
        poll = Poll(network, clock, entropy, node_id, keeper.record.copy_id, connector, rules.round_seconds)
        self._source: SequenceSource = (
            VoterSource(poll, keeper, rules, voters) if locks is None else LockSource(locks, node_id, keeper, self._broken)
        )
        self._state = passive.name
        """The name of the machine's state."""
        self._purpose = Purpose.START
        self._search = ""
        self._was_passive = True
        """Was this copy passive before it gave itself up?"""
        self._serving = False
        """Is the broker active, perhaps without the proof that it needs now?"""
        self._absent = False
        """Is nobody active or seeking where the other copy should be?"""
        self._reason = ""
        """Why it stands as it does, for the log."""
        self._logged = ""
        """The reason that was logged last: a lock manager is asked several times a second, and a reason that stays is told once."""
        self._for: Standing | None = None
        """The copy in whose favour this one is refused, or gives itself up."""
        self._waiting: list[Deferred[None]] = []
        """Callers that wait until this copy has given itself up."""
        self._timer: Cancellable | None = None
        self._lapse: Cancellable | None = None
        self._ready: Deferred[None] = succeed(None)
        """Fires once the voters can be told."""
        self._visit: Deferred[Any] = succeed(None)
        """The visit by which the other copy gets the word of this one."""
        self._step = object()
        """Tells the answers that this step waits for from late ones."""

    # --- what it is

    @property
    def state(self) -> str:
        """The present step of this copy towards the proof, in few words."""
        return self._state

    @property
    def alone(self) -> bool:
        """May this copy acknowledge without another one?  It has the proof, and has noted nobody since."""
        return self._state == holding.name and not self._keeper.latest.shared

    @property
    def may_seek(self) -> bool:
        """Can a search end well?  A passive copy that meets no active one seeks then."""
        return self._keeper.latest.usable

    @property
    def standing(self) -> Standing:
        record = self._keeper.latest
        noted = record.other.copy_id if record.usable and record.other is not None else ""
        return Standing(
            self._node_id,
            record.copy_id,
            self._activity,
            record.state,
            record.sequence,
            self._rules.primary,
            record.took_over,
            noted,
            self._search,
        )

    @property
    def _activity(self) -> Activity:
        state = self._state
        if state in (raising.name, holding.name):
            return Activity.ACTIVE
        if state in (passive.name, yielding.name):
            return Activity.PASSIVE
        return Activity.ACTIVE if self._serving else Activity.SEEKING

    # --- requests of the owner

    def seek(self, purpose: Purpose) -> None:
        """Seek the proof; :meth:`Owner.granted` or :meth:`Owner.refused` tells the end.

        Ignored while it seeks already, and while it gives itself up: then it is passive soon.

        :attr:`Purpose.GO_ON` is for an active broker at the moment when its replica does not answer any more; until it is granted nothing
        that is durable may be acknowledged.
        """
        if self._state not in (passive.name, holding.name):
            return
        # A copy that was refused may have missed something, and has to meet the other copy as at a start.
        fits = self._serving if purpose is Purpose.GO_ON else self._keeper.in_sync or purpose is Purpose.COME_BACK
        self._purpose = purpose if fits else Purpose.START
        self._search = self._entropy(SEARCH_SIZE).hex()
        self._reason = ""
        self._for = None
        if self._serving:
            self._lapse = self._clock.call_later(LAPSE_SECONDS, self._end_serving)
        else:
            self._ready = self._owner.begin_seeking()
        self._machine.seek()

    def cease(self) -> None:
        """The broker is no longer active, and seeks nothing.  Nothing durable changes, and other copies are still answered.

        So an active broker hands over: it writes everything, ceases, and lets its replica take over, which asks it to give itself up.
        """
        self._machine.cease()

    def lock_lost(self, reason: str) -> None:
        """The lock manager says that another broker may have the lock by now."""
        if self._serving or self._state in (raising.name, holding.name):
            self._owner.failed(f"the lock of this broker is lost: {reason}")

    def note(self, other: OtherCopy) -> Deferred[CopyRecord]:
        """From this call on nothing is acknowledged that ``other`` does not have; once the result fires it may be told that it is complete.

        It has everything that was acknowledged before.  Fails with CopyStateError unless this copy is :attr:`alone`: without the proof,
        and as long as the loss of an earlier replica has not raised the sequence.
        """
        if not self.alone:
            other_copy = ", with another copy" if self._state == holding.name else ""
            return fail(CopyStateError(f"no copy becomes complete while its active broker is {self._state}{other_copy}"))
        return self._keeper.note(other)

    def begin_copy(self, other: OtherCopy) -> Deferred[Copying]:
        """The data of this copy are about to be replaced by those of ``other``.  Fails with CopyStateError unless it is passive."""
        if self._state != passive.name:
            return fail(CopyStateError(f"a copy that is {self.state} is not overwritten"))
        return self._keeper.begin_copy(other)

    def visit(self, connector: str) -> Deferred[Standing]:
        """Meet the copy at ``connector``, and give this one up to it if it is to go on.  Results in how the other one stands then.

        For a copy that is passive, since it listens nowhere, and for an active one that hears of another active one of its node.  Fails
        with UnreachableError, MQError or whatever the network says.
        """
        met = self._noted.ask_at(connector, self.standing)

        def give_word(other: Standing) -> Standing | Deferred[Standing]:
            if not self._must_yield(other):
                return other
            word = self._yield_to(other)
            return word.addCallback(lambda _: self._noted.ask_at(connector, replace(self.standing, word_for=other.search)))

        return met.addCallback(give_word)

    def meet(self, connector: str) -> Deferred[Any]:
        """Ask a broker of this node that is not the noted copy.  If it is active, and goes on, a search of this copy is refused."""
        search = self._search

        def met(other: Standing) -> None:
            own = self.standing
            goes_on = other.node_id == own.node_id and other.activity is Activity.ACTIVE and not own.preferred_to(other)
            if goes_on and search == self._search and self._state in (each.name for each in SEEKING):
                self._refused(f"the copy {other.copy_id}, which is active at sequence {other.sequence}, goes on", other)

        return self._noted.ask_at(connector, self.standing).addCallback(met).addErrback(not_met)

    # --- what other copies say

    def answer(self, question: bytes) -> Deferred[bytes]:
        """The answer to a question under the handler's name :data:`~mqbroker.ha.proof.meeting.MEETING`; durable before it is given.

        Raises MalformedPacketError.
        """
        asker = Standing.decode(question)
        if self._source.copies_decide and asker.gives_word_to(self.standing):
            self._proven(f"the copy {asker.copy_id} has given itself up")
        given = self._yield_to(asker) if self._must_yield(asker) else succeed(None)
        return given.addCallback(lambda _: self._durable(replace(self.standing, word_for=asker.search).encode()))

    def _durable(self, answer: bytes) -> Deferred[bytes]:
        return self._keeper.settled().addCallback(lambda _: answer)

    def _must_yield(self, other: Standing) -> bool:
        if not self._source.copies_decide:
            return False
        state = self._state
        return state == yielding.name or (state != raising.name and self.standing.yields_to(other))

    def _yield_to(self, other: Standing) -> Deferred[None]:
        durable: Deferred[None] = Deferred()
        self._waiting.append(durable)
        if self._state != yielding.name:
            self._for = other
            self._reason = f"the copy {other.copy_id} at sequence {other.sequence} goes on, and this one has given itself up"
            self._machine.yield_()
        return durable

    # --- the work of the states

    def entered(self, state: str) -> None:
        self._state = state

    def ask_other(self) -> None:
        self._step = step = object()
        self._ready.addCallback(lambda _: self._begin_asking(step))

    def _begin_asking(self, step: object) -> None:
        if step is not self._step:
            return
        if self._serving or self._network_answers is None:
            self._ask_others()
        else:
            self._network_answers().addCallback(partial(self._network_asked, step))

    def _network_asked(self, step: object, answers: bool) -> None:
        if step is not self._step:
            return
        if answers:
            self._ask_others()
        else:
            self._undecided("none of the places of the network check answers")

    def _ask_others(self) -> None:
        record = self._keeper.latest
        rules = self._rules
        copies_decide = self._source.copies_decide
        if not record.usable or not (copies_decide or record.complete):
            self._refused(f"these data are {record.state.value}")
        elif not copies_decide:
            self._machine.unanswered()
        elif record.other is None:
            self._proven("no other copy has these data")
        elif self._purpose is Purpose.START and rules.primary and rules.check_for_active_server is False:
            self._proven("check-for-active-server is false: nobody was asked, and another copy may be active")
        elif self._purpose is Purpose.GO_ON and rules.vote_on_replication_failure is False:
            self._proven("vote-on-replication-failure is false: nobody was asked, and the replica may become active")
        else:
            by_absence = self._purpose in (Purpose.TAKE_OVER, Purpose.GO_ON) and not self._voters()
            self._noted.ask(record.other, self._purpose, by_absence)

    def _unanswered(self, absent: bool, reason: str) -> None:
        self._absent = absent
        self._reason = reason
        self._machine.unanswered()

    def _answered(self, noted: OtherCopy, other: Standing) -> None:
        own = self.standing
        self._absent = other.node_id != own.node_id or (other.activity is Activity.PASSIVE and other.copy_id != own.copy_id)
        who = f"the copy {other.copy_id}, which is {other.activity.name.lower()} and {other.state.value} at sequence {other.sequence},"
        if other.node_id != own.node_id or other.copy_id == own.copy_id:
            self._reason = f"{noted.connector} is not the other copy, but the copy {other.copy_id} of node {other.node_id}"
            self._machine.unanswered()
        elif other.gives_word_to(own):
            self._proven(f"the copy {other.copy_id} has given itself up")
        elif other.search and self._must_yield(other):
            # It may be that it cannot ask us.
            self._yield_to(other)
            self._visit = self.visit(noted.connector).addErrback(not_met)
        elif other.activity is Activity.ACTIVE and not own.preferred_to(other):
            self._refused(f"{who} goes on", other)
        elif other.copy_id == noted.copy_id and (other.sequence > own.sequence or (other.complete and not own.complete)):
            self._refused(f"{who} is to go on", other)
        elif other.activity is not Activity.PASSIVE and other.preferred_to(own):
            self._undecided(f"{who} is to go on, and has to ask")
        else:
            self._reason = f"{who} does not give itself up"
            self._machine.unanswered()

    def ask_for_sequence(self) -> None:
        self._source.ask(Search(self._purpose, self._serving, self._absent, self._reason), self._decided)

    def _decided(self, decision: Decision, text: str) -> None:
        if decision is Decision.GIVEN:
            self._proven(text)
        elif decision is Decision.REFUSED:
            self._refused(text)
        else:
            self._undecided(text)

    def _proven(self, text: str) -> None:
        if self._state in (each.name for each in SEEKING):
            self._reason = text
            self._machine.proven()

    def _refused(self, text: str, other: Standing | None = None) -> None:
        self._reason, self._for = text, other
        self._machine.refused()

    def _undecided(self, text: str) -> None:
        self._log("this broker may not be active yet: {text}", text)
        self._reason = text
        self._machine.undecided()

    def pause(self) -> None:
        chance = 0.5 + int.from_bytes(self._entropy(2), "big") / 65536
        self._timer = self._clock.call_later(self._rules.retry_seconds * chance, self._machine.again)
        self._owner.look_around()

    def raise_sequence(self) -> None:
        self._stop_asking()
        record = self._keeper.latest
        took_over = self._purpose is Purpose.TAKE_OVER or (not record.shared and record.took_over)
        self._step = step = object()
        raised = self._keeper.raise_to(record.sequence + 1, took_over)
        raised.addCallbacks(lambda record: self._commit(record.sequence) if step is self._step else None, self._broken)

    def _commit(self, sequence: int) -> None:
        """The sequence is durable here: before anything is acknowledged at it, whoever gave it must know."""
        step = self._step

        def committed(done: bool) -> None:
            if step is not self._step:
                return
            if done:
                self._machine.raised()
            else:
                self._owner.failed(f"another broker has the lock since sequence {sequence} was claimed")

        self._source.commit(sequence, committed)

    def hold(self) -> None:
        self._end_search()
        self._serving = True
        sequence = self._keeper.latest.sequence
        self._logged = ""
        code = "AMQ221037: " if self._purpose is Purpose.TAKE_OVER else ""
        log.info(code + "this broker may be active at sequence {sequence}: {text}", sequence=sequence, text=self._reason)
        self._owner.granted(sequence, self._reason)

    def give_up(self) -> None:
        self._stop_asking()
        record = self._keeper.latest
        # The copy that was noted has everything that was acknowledged since.
        diverged = self._serving and not (record.shared and self._for is not None and self.standing.noted == self._for.copy_id)
        step = self._step
        self._was_passive = not self._search and not self._serving
        if diverged:
            log.warn(
                "this broker may have acknowledged messages that the copy {copy} has not: before the next copy its data go to an "
                "oldreplica.n of each folder, with a file 'kept' in it, and stay there until an operator has compared them",
                copy=self._for.copy_id if self._for is not None else "of another broker",
            )
        if self._serving:
            self._end_serving()
        elif self._was_passive:
            self._owner.stop_copying()

        def durable(_: CopyRecord) -> None:
            if step is self._step:
                self._machine.yielded()
            else:
                self._tell_waiting()

        self._keeper.give_up(diverged).addCallbacks(durable, self._broken)

    def tell_yielded(self) -> None:
        self._search = ""
        self._tell_waiting()
        if not self._was_passive:
            self.tell_refused()

    def tell_refused(self) -> None:
        self._end_search()
        if self._serving:
            self._end_serving()
        self._keeper.fell_behind()
        self._source.release()
        code = "AMQ221070: " if self._purpose is Purpose.TAKE_OVER else ""
        if self._purpose is Purpose.GO_ON and self._for is not None and self._for.activity is Activity.ACTIVE:
            code = "AMQ224098: "
        self._log(code + "this broker is passive: {text}", self._reason)
        self._owner.refused(self._reason, self._for)

    def rest(self) -> None:
        self._end_search()
        self._visit.cancel()
        self._serving = False
        self._keeper.fell_behind()
        self._source.release()

    def _log(self, text: str, reason: str) -> None:
        if self._source.copies_decide or reason != self._logged:
            self._logged = reason
            log.info(text, text=reason)

    def _tell_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    def _end_serving(self) -> None:
        """The broker is no longer active; if it seeks it goes on doing so."""
        self._stop_lapse()
        self._serving = False
        self._owner.end_clients()

    def _end_search(self) -> None:
        self._stop_asking()
        self._search = ""

    def _stop_asking(self) -> None:
        self._step = object()
        self._noted.stop()
        self._source.stop()
        self._stop_lapse()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_lapse(self) -> None:
        if self._lapse is not None:
            self._lapse.cancel()
            self._lapse = None

    def _broken(self, failure: Failure) -> None:
        self._owner.failed(f"the record of this copy cannot be changed: {failure.getErrorMessage()}")
