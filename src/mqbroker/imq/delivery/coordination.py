"""Transactions that have consumed from other members: a branch at each home, the decision with the own part, two phases.

The broker of the consuming client decides.  A branch at a home without a decision here, and without a transaction that may still be
decided, is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from twisted.logger import Logger

from mqbroker.cluster.links.outgoing import node_id_bytes
from mqbroker.imq.delivery.home import Home, Runner
from mqbroker.imq.delivery.remote_consumer import RemoteConsumer, by_consumer
from mqbroker.messaging.delivery.branches import COORDINATED_FORMAT, Branches
from mqbroker.messaging.ports import BranchRecord, BranchState
from mqbroker.messaging.queues.references import RemoteReference
from mqclient.errors import MQError, TransactionOutcomeUnknownError, TransactionRolledBackError
from mqclient.wire.primitives import Xid
from mqclient.xa import XA_HEURCOM, XA_HEURHAZ, XA_HEURMIX, XA_HEURRB, XAER_NOTA

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.ports import StoreBatch
    from mqbroker.messaging.queues.elsewhere import Work
    from mqclient.wire.packets import XaResponse

BRANCH_FORMAT = 0x4D51_4842
"""The format id of a branch at a home."""
_BY_MANAGEMENT = (XA_HEURCOM, XA_HEURHAZ, XA_HEURMIX, XA_HEURRB)
_ID_LENGTH = 16
"""Bytes of a node id, and of the number of a transaction."""

log = Logger(namespace="mqbroker.imq")


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

    def __init__(self, core: MessagingCore, branches: Branches, node_id: bytes, homes: Mapping[str, Home], runner: Runner) -> None:
        self._core = core
        self._own_id = node_id
        self._homes = homes
        self._runner = runner
        self._parts: dict[_Part, None] = {}
        """Those that are not decided."""
        self._decisions: dict[Xid, BranchRecord] = {}
        """By branch: those that are committed, until their home has done so."""
        self._committing: set[Xid] = set()
        self._restore(branches)

    def _restore(self, branches: Branches) -> None:
        """Take over what was stored."""
        prepared: dict[bytes, list[BranchRecord]] = {}
        for record in branches.coordinated:
            if record.state is BranchState.COMMITTED:
                self._decisions[_branch_of(record.xid)] = record
            else:
                prepared.setdefault(record.xid.global_transaction_id[_ID_LENGTH:], []).append(record)
        for branch in branches.prepared():
            records = prepared.get(_number_of(branch.xid))
            if records:
                part = _Part([_branch_of(record.xid) for record in records])
                part.records = records
                branch.transaction.outside = part
                self._parts[part] = None

    @property
    def undecided(self) -> int:
        """Branches at homes whose outcome is not decided, or not known there."""
        return len(self._decisions) + sum(len(part.branches) for part in self._parts)

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
        number = self._core.store.next_id().to_bytes(_ID_LENGTH, "big") if xid is None else _number_of(xid)
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
            part.records = [self._record(branch, BranchState.PREPARED) for branch in part.branches]
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
            record = self._decisions[branch] = self._record(branch, BranchState.COMMITTED)
            batch.put_branch(record)
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
                self._commit_at(branch)

    def rolled_back(self, work: Work) -> None:
        """The transaction was rolled back: its messages go back to their homes, which count that."""
        part = self._take(work)
        if part is not None:
            for consumer in part.consumers:
                consumer.begin_again()
            for branch in part.branches:
                self._roll_back_at(branch)
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

    # --- the second phase

    def _home_of(self, branch: Xid) -> Home | None:
        return next((home for home in self._homes.values() if node_id_bytes(home.node_id) == branch.branch_qualifier), None)

    def _commit_at(self, branch: Xid) -> None:
        found = self._home_of(branch)
        if found is not None and branch not in self._committing:
            self._committing.add(branch)
            self._runner.spawn(self._commit(found, branch))

    async def _commit(self, home: Home, branch: Xid) -> None:
        try:
            answer = await home.commit(branch, one_phase=False)
        except MQError:
            return  # asked again when the link is up
        finally:
            self._committing.discard(branch)
        if await self._ended(home, branch, answer, "commit"):
            self._core.turn.run(self._forget, branch)

    def _roll_back_at(self, branch: Xid) -> None:
        found = self._home_of(branch)
        if found is not None:
            self._runner.spawn(self._roll_back(found, branch))

    async def _roll_back(self, home: Home, branch: Xid) -> None:
        try:
            answer = await home.roll_back(branch)
        except MQError as error:
            # There is no decision: that is asked when the link is up.
            log.debug("a branch at {home} could not be rolled back: {reason}", home=home.member.name, reason=str(error))
        else:
            await self._ended(home, branch, answer, "roll back")

    async def _ended(self, home: Home, branch: Xid, answer: XaResponse, wanted: str) -> bool:
        """Has the branch ended at its home?  Management may have ended it otherwise; that is logged, and the home may forget it."""
        if not answer.error or answer.response_code == XAER_NOTA:
            return True
        log.warn("{home} does not {wanted} the branch of a transaction: {text}", home=home.member.name, wanted=wanted, text=answer.message)
        if answer.response_code not in _BY_MANAGEMENT:
            return False
        try:
            await home.forget(branch)
        except MQError:
            return False  # asked again when the link is up
        return True

    def _forget(self, branch: Xid) -> None:
        """The home has committed."""
        record = self._decisions.pop(branch, None)
        if record is not None:
            batch = self._core.store.begin()
            batch.end_branch(record.branch_id, False)
            self._core.store.commit(batch)

    def ask_in_doubt(self, home: Home) -> None:
        """There is a link to a home: end its branches in doubt whose outcome this broker knows."""
        self._runner.spawn(self._ask_in_doubt(home))

    async def _ask_in_doubt(self, home: Home) -> None:
        try:
            found = await home.in_doubt()
        except MQError:
            return  # the link is lost again
        self._core.turn.run(self._end, home, found)

    def _end(self, home: Home, found: Iterable[Xid]) -> None:
        mine = [xid for xid in found if xid.format_id == BRANCH_FORMAT and xid.global_transaction_id.startswith(self._own_id)]
        open_ones = set(self._open_branches())
        for branch in mine:
            if branch in open_ones:
                continue
            if branch in self._decisions:
                self._commit_at(branch)
            else:
                self._roll_back_at(branch)
        raw = node_id_bytes(home.node_id)
        ended = [branch for branch in self._decisions if branch.branch_qualifier == raw and branch not in mine]
        for branch in ended:
            if branch not in self._committing and branch not in open_ones:
                self._forget(branch)

    def _open_branches(self) -> Iterator[Xid]:
        for part in self._parts:
            yield from part.branches

    def _record(self, branch: Xid, state: BranchState) -> BranchRecord:
        core = self._core
        xid = branch._replace(format_id=COORDINATED_FORMAT)
        return BranchRecord(core.store.next_id(), xid, state, core.clock.wall_ms())


def _part_of(work: Work) -> _Part | None:
    part = work.outside
    assert part is None or isinstance(part, _Part)
    return part


def _branch_of(record: Xid) -> Xid:
    return record._replace(format_id=BRANCH_FORMAT)


def _number_of(xid: Xid) -> bytes:
    """The number of a client's branch: the same after a restart."""
    text = b"".join((xid.format_id.to_bytes(8, "big", signed=True), bytes((len(xid.branch_qualifier),)), xid.branch_qualifier))
    return blake2b(text + xid.global_transaction_id, digest_size=_ID_LENGTH).digest()


def _call_all(functions: Iterable[Callable[[], None]]) -> None:
    for function in functions:
        function()


def _lost_link(consumer: RemoteConsumer) -> MQError:
    return TransactionRolledBackError(
        f"a message of queue {consumer.owner.queue.name} that this transaction has consumed went back to its home: the link there was lost"
    )
