"""Transactions that have consumed from other members: a branch at each home, the decision with the own part, two phases.

The broker of the consuming client decides.  A branch at a home without a decision here, and without a transaction that may still be
decided, is rolled back.  The consequences of a decision are in :mod:`mqbroker.imq.delivery.decisions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from mqbroker.cluster.links.outgoing import node_id_bytes
from mqbroker.imq.delivery.decisions import BRANCH_FORMAT, ID_LENGTH, Decisions, TakenOver, branch_of, record_of
from mqbroker.imq.delivery.home import Home, Runner
from mqbroker.imq.delivery.remote_consumer import RemoteConsumer, by_consumer
from mqbroker.messaging.delivery.branches import Branches
from mqbroker.messaging.ports import BranchRecord, BranchState
from mqbroker.messaging.queues.references import RemoteReference
from mqclient.errors import MQError, TransactionOutcomeUnknownError, TransactionRolledBackError
from mqclient.wire.primitives import Xid

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.ports import StoreBatch
    from mqbroker.messaging.queues.elsewhere import Work


class _Part:
    """The branches of one transaction at homes.

    ``consumers`` have brought the messages; none after a restart.  ``one_phase``: there is nothing to decide here, so the home commits at
    once.  ``records``: what is stored of the branches of a prepared transaction.
    """

    def __init__(self, branches: Sequence[Xid], consumers: Iterable[RemoteConsumer] = (), *, one_phase: bool = False) -> None:
        self.branches = branches
        self.consumers = consumers
        self.one_phase = one_phase
        self.records: Sequence[BranchRecord] = ()
        self.unanswered = 0
        self.failure: MQError | None = None
        self._waiting: list[Callable[[], object]] = []

    def when_answered(self, function: Callable[[], object]) -> None:
        if self.unanswered:
            self._waiting.append(function)
        else:
            function()

    def answered(self, failure: MQError | None) -> None:
        """One home has answered."""
        self.failure = self.failure or failure
        self.unanswered -= 1
        if not self.unanswered:
            waiting, self._waiting = self._waiting, []
            for function in waiting:
                function()


class Coordination:
    """The transactions of this broker that take part elsewhere.  ``homes`` are the linked members by node id."""

    def __init__(
        self, core: MessagingCore, branches: Branches, node_id: bytes, homes: Mapping[str, Home], runner: Runner, taken: TakenOver
    ) -> None:
        self._core = core
        self._branches = branches
        self._own_id = node_id
        self._homes = homes
        self._runner = runner
        self._parts: dict[_Part, None] = {}
        """The parts of transactions that are not decided."""
        self.decisions = Decisions(core, branches, node_id, homes, runner, taken, self._open_branches)
        self.restore()

    def restore(self) -> None:
        """Go on with what was stored: at the start, or when another broker's data have come, before clients can use them."""
        prepared: dict[bytes, list[BranchRecord]] = {}
        for record in self._branches.take_coordinated():
            if record.state is BranchState.COMMITTED:
                self.decisions.restore(record)
            else:
                prepared.setdefault(record.xid.global_transaction_id[ID_LENGTH:], []).append(record)
        if not prepared:
            return
        for branch in self._branches.prepared():
            if branch.transaction.outside is None and (records := prepared.pop(_number_of(branch.xid), None)):
                branch.transaction.outside = self._restored(records)
        for records in prepared.values():
            # Another branch of the same xid is in the way until the next start: so long nobody decides.
            self._restored(records)

    def _restored(self, records: Sequence[BranchRecord]) -> _Part:
        part = _Part([branch_of(record) for record in records])
        part.records = records
        self._parts[part] = None
        return part

    @property
    def undecided(self) -> int:
        """Branches at homes whose outcome is not decided, or not known there."""
        return len(self.decisions) + sum(len(part.branches) for part in self._parts)

    # --- one transaction

    def prepare(self, work: Any, xid: Xid | None) -> Callable[[Callable[[], object]], None] | None:
        """Prepare the branches at homes.  None when they have answered, or there are none; else what calls a function then."""
        part = _part_of(work)
        if part is None:
            part = self._begin(work, xid)
            if part is None:
                return None
            work.outside = part
            self._parts[part] = None
        if part.unanswered:
            return part.when_answered
        if part.failure is not None:
            work.mark_rollback_only(part.failure)
        return None

    def _begin(self, work: Any, xid: Xid | None) -> _Part | None:
        remote = [reference for reference in work.acknowledged if isinstance(reference, RemoteReference)]
        if not remote or work.failure is not None:
            return None
        consumers = by_consumer(remote)
        lost = next((consumer for consumer in consumers if consumer.lost or consumer.home not in self._homes), None)
        if lost is not None:
            work.mark_rollback_only(_lost_link(lost))
            return None
        work.acknowledged[:] = [reference for reference in work.acknowledged if not isinstance(reference, RemoteReference)]
        by_home: dict[str, list[Callable[[], None]]] = {}
        for consumer, references in consumers.items():
            by_home.setdefault(consumer.home, []).append(consumer.take_over(references))
        number = self._core.store.next_id().to_bytes(ID_LENGTH, "big") if xid is None else _number_of(xid)
        branches = [Xid(BRANCH_FORMAT, node_id_bytes(home), self._own_id + number) for home in by_home]
        part = _Part(branches, tuple(consumers), one_phase=xid is None and len(branches) == 1 and work.empty)
        part.unanswered = len(branches)
        for (home, acknowledge), branch in zip(by_home.items(), branches, strict=True):
            self._homes[home].do_in_branch(branch, partial(_call_all, acknowledge))
            self._runner.spawn(self._ask(part, self._homes[home], branch))
        return part

    async def _ask(self, part: _Part, home: Home, branch: Xid) -> None:
        failure: MQError | None = None
        try:
            answer = await (home.commit(branch, one_phase=True) if part.one_phase else home.prepare(branch))
            if answer.error:
                failure = TransactionRolledBackError(f"{home.member.name} cannot commit what was consumed from there: {answer.message}")
        except MQError as error:
            text = f"the link to {home.member.name}, from where this transaction has consumed, was lost: {error}"
            failure = TransactionOutcomeUnknownError(text) if part.one_phase else TransactionRolledBackError(text)
        self._core.turn.run(part.answered, failure)

    def remember(self, work: Work, batch: StoreBatch) -> None:
        """The transaction is being prepared."""
        part = _part_of(work)
        if part is not None:
            part.records = [record_of(self._core, branch, BranchState.PREPARED) for branch in part.branches]
            for record in part.records:
                batch.put_branch(record)

    def decide(self, work: Work, batch: StoreBatch) -> bool:
        """The transaction is being committed.  Returns whether the decision was stored."""
        part = _part_of(work)
        if part is None or part.one_phase:
            return False
        for record in part.records:
            batch.end_branch(record.branch_id, True)
        for branch in part.branches:
            batch.put_branch(self.decisions.add(branch))
        return True

    def undo(self, work: Work, batch: StoreBatch) -> None:
        """The prepared transaction is being rolled back."""
        part = _part_of(work)
        for record in () if part is None else part.records:
            batch.end_branch(record.branch_id, False)

    def committed(self, work: Work) -> None:
        """The decision is durable."""
        part = self._take(work)
        if part is not None and not part.one_phase:
            for branch in part.branches:
                self.decisions.commit(branch)

    def rolled_back(self, work: Work) -> None:
        """The transaction was rolled back: its messages go back to their homes, which count that."""
        part = self._take(work)
        if part is not None:
            for consumer in part.consumers:
                consumer.begin_again()
            for branch in part.branches:
                self.decisions.roll_back(branch)
        remote = [reference for reference in work.acknowledged if isinstance(reference, RemoteReference)]
        if remote:
            work.acknowledged[:] = [reference for reference in work.acknowledged if not isinstance(reference, RemoteReference)]
            for consumer, references in by_consumer(remote).items():
                consumer.begin_again(references)

    def _take(self, work: Work) -> _Part | None:
        """The outcome is known."""
        part = _part_of(work)
        if part is not None:
            work.outside = None
            self._parts.pop(part, None)
        return part

    def _open_branches(self) -> set[Xid]:
        return {branch for part in self._parts for branch in part.branches}


def _part_of(work: Work) -> _Part | None:
    part = work.outside
    assert part is None or isinstance(part, _Part)
    return part


def _number_of(xid: Xid) -> bytes:
    """The number of a client's branch: the same after a restart."""
    text = b"".join((xid.format_id.to_bytes(8, "big", signed=True), bytes((len(xid.branch_qualifier),)), xid.branch_qualifier))
    return blake2b(text + xid.global_transaction_id, digest_size=ID_LENGTH).digest()


def _call_all(functions: Iterable[Callable[[], None]]) -> None:
    for function in functions:
        function()


def _lost_link(consumer: RemoteConsumer) -> MQError:
    return TransactionRolledBackError(
        f"a message of queue {consumer.owner.queue.name} that this transaction has consumed went back to its home: the link there was lost"
    )
