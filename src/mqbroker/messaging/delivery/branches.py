"""Branches of XA transactions: the work of a global transaction at this broker, named by an xid.

A branch belongs to the broker; sessions work in it (:meth:`Branches.enter`) and leave it.  Until it is prepared it ends with the connection
that began it, or after its timeout.  From then on it is *in doubt*: nothing but a commit or a rollback ends it, also after a restart.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from enum import IntEnum

from mqbroker.messaging.core import MessagingCore
from mqbroker.messaging.delivery.settlement import Settlement
from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.ports import BranchRecord, BranchState, Cancellable, Recovered, RecoveredBranch, RecoveredDuplicateId
from mqbroker.messaging.queues.groups import has_group
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.turns.context import OperationContext
from mqclient.errors import IllegalStateError, MQError, TransactionRolledBackError
from mqclient.wire.primitives import Xid

BRANCHES_MAX = 10_000
"""Branches of one connection that are not prepared; a transaction manager has a few per thread."""

PREPARED_MAX = 10_000
"""Prepared branches of the broker; the next one is rolled back at its prepare.  A prepared branch stays until a transaction manager
decides, also after a restart."""

XID_PART_LENGTH_MAX = 64
"""Bytes of a branch qualifier, and of a global transaction id (the XA specification)."""


class XACode(IntEnum):
    """Answers to XA requests, with the numbers of the XA standard."""

    HEURISTIC_COMMIT = 7
    HEURISTIC_ROLLBACK = 6
    ROLLED_BACK = 100
    ROLLED_BACK_TIMEOUT = 106
    RESOURCE_ERROR = -3
    UNKNOWN_XID = -4
    INVALID = -5
    WRONG_STATE = -6
    DUPLICATE_XID = -8


class XAError(Exception):
    """An XA request that fails with a code of the XA standard."""

    def __init__(self, code: XACode, text: str) -> None:
        super().__init__(text)
        self.code = code


COORDINATED_FORMAT = 0x4D51_4844
"""The format id of records of work that has branches at other brokers: here the outcome is decided, or not yet."""


class Branch:
    """A branch of a transaction.  ``owner`` is the connection that began it, ``workers`` are the sessions that work in it now.

    ``began_ms`` is by the wall clock, ``deadline`` by the monotonic clock (s, None = none).  ``rolled_back`` is set when the branch has
    ended while sessions were working in it.
    """

    __slots__ = ("began_ms", "deadline", "owner", "rolled_back", "suspended", "transaction", "workers", "xid")

    def __init__(self, xid: Xid, owner: object, began_ms: int) -> None:
        self.xid = xid
        self.owner = owner
        self.began_ms = began_ms
        self.deadline: float | None = None
        self.suspended = False
        self.rolled_back: XACode | None = None
        self.transaction = Transaction()
        self.workers: set[object] = set()

    @property
    def prepared(self) -> bool:
        return self.transaction.prepared is not None


def xid_base64(xid: Xid) -> str:
    """The name of a branch for management: branch qualifier, global transaction id and format id in URL-safe base64.

    The format id comes as Artemis writes it, lowest byte first, each the remainder of a division by 255: clients log such names.
    """
    shifted = [xid.format_id >> shift for shift in (0, 8, 16, 24)]
    remainders = bytes((abs(number) % 255 * (1 if number > 0 else -1)) & 0xFF for number in shifted)
    return base64.urlsafe_b64encode(xid.branch_qualifier + xid.global_transaction_id + remainders).decode()


def xid_text(xid: Xid) -> str:
    """An xid for a person, in the style of Artemis."""
    qualifier, transaction_id = (".".join(map(str, part)) for part in (xid.branch_qualifier, xid.global_transaction_id))
    return f"XidImpl (bq:{qualifier} formatID:{xid.format_id} gtxid:{transaction_id} base64:{xid_base64(xid)})"


class Branches:
    """All branches of the broker.  Requests raise :class:`XAError`; prepare and commit also raise the error that made a branch
    rollback-only."""

    def __init__(self, core: MessagingCore, settlement: Settlement) -> None:
        self._core = core
        self._settlement = settlement
        self._context = OperationContext(core.store)
        self._open: dict[Xid, Branch] = {}
        self._unprepared: dict[object, dict[Xid, Branch]] = {}
        """The branches that end with their owner."""
        self._decided: dict[Xid, BranchRecord] = {}
        """Branches that management has committed or rolled back, until their transaction manager forgets them."""
        self._coordinated: list[BranchRecord] = []
        """Stored by an earlier process or another broker: branches at other brokers whose outcome depends on this one."""
        self.unreadable: list[str] = []
        """Places of stored records that cannot be read, each of a branch here or of one at another broker."""
        self._timer: Cancellable | None = None

    # --- work

    def start(self, xid: Xid, owner: object, timeout_seconds: int = 0) -> Branch:
        """Begin a branch that may last ``timeout_seconds`` until it is prepared, 0 = ``transaction-timeout``."""
        if xid in self._open or xid in self._decided:
            raise XAError(XACode.DUPLICATE_XID, f"there is a branch of this xid already: {xid_text(xid)}")
        if len(xid.branch_qualifier) > XID_PART_LENGTH_MAX or len(xid.global_transaction_id) > XID_PART_LENGTH_MAX:
            raise XAError(XACode.INVALID, f"a part of this xid is longer than {XID_PART_LENGTH_MAX} bytes")
        if len(self._unprepared.get(owner, ())) >= BRANCHES_MAX:
            raise XAError(XACode.RESOURCE_ERROR, f"this connection has {BRANCHES_MAX} branches that are not prepared")
        owned = self._unprepared.setdefault(owner, {})
        branch = self._open[xid] = owned[xid] = Branch(xid, owner, self._core.clock.wall_ms())
        self.set_timeout(branch, timeout_seconds)
        return branch

    def replace(self, branch: Branch, xid: Xid) -> None:
        """The session that worked in ``branch`` begins another one without having ended it: ``branch`` is rolled back."""
        self._core.report(
            "AMQ222176",
            f"a session that worked in the XA branch {xid_text(branch.xid)} replaces it by {xid_text(xid)}; "
            "this is most likely the consequence of an earlier failure of its connection: rolled back",
        )
        self._roll_back(branch, XACode.ROLLED_BACK)

    def set_timeout(self, branch: Branch, seconds: int) -> None:
        """Let the branch last ``seconds`` from now on, 0 = ``transaction-timeout``."""
        limit = seconds or self._core.options.transaction_timeout / 1000
        branch.deadline = self._core.clock.monotonic() + limit if limit > 0 else None
        self._arm()

    def find(self, xid: Xid) -> Branch:
        branch = self._open.get(xid)
        if branch is None:
            raise XAError(XACode.UNKNOWN_XID, f"there is no branch of this xid: {xid_text(xid)}")
        return branch

    def knows(self, xid: Xid) -> bool:
        return xid in self._open

    @staticmethod
    def enter(branch: Branch, worker: object) -> None:
        """A session works in the branch from now on."""
        if branch.prepared:
            raise XAError(XACode.WRONG_STATE, f"this branch is prepared: {xid_text(branch.xid)}")
        branch.workers.add(worker)

    def leave(self, branch: Branch, worker: object) -> None:
        """The session no longer works in the branch.  Work that it did after the branch was rolled back is undone."""
        branch.workers.discard(worker)
        if branch.rolled_back is not None:
            self._settlement.rollback(branch.transaction.take_out())

    def fail(self, branch: Branch) -> Transaction:
        """The branch can only be rolled back from now on.  Returns its work, which the caller has to undo."""
        work = branch.transaction.take_out()
        branch.transaction.mark_rollback_only(
            work.failure or TransactionRolledBackError(f"the work of this branch was rolled back: {xid_text(branch.xid)}")
        )
        return work

    # --- two phases

    def prepare(self, xid: Xid) -> int:
        """Returns the ticket after which the answer may be given.  A branch that is refused because there are too many is rolled back."""
        branch = self._resting(xid)
        if branch.prepared:
            return self._core.store.ticket()
        if self._core.elsewhere is not None:
            self._core.elsewhere.prepare(branch.transaction, xid)
        if self._prepared_count >= PREPARED_MAX:
            self._roll_back(branch, XACode.ROLLED_BACK)
            raise XAError(
                XACode.ROLLED_BACK,
                f"{PREPARED_MAX} prepared branches wait for their transaction managers already; this one was rolled back: {xid_text(xid)}",
            )
        try:
            ticket = self._settlement.prepare(branch.transaction, xid, branch.began_ms)
        except MQError as error:
            # The branch stays for the rollback that its transaction manager sends now; it cannot be prepared after all.
            branch.transaction.take_out()
            branch.transaction.mark_rollback_only(error)
            raise
        self._disown(branch)
        return ticket

    def commit(self, xid: Xid, one_phase: bool, context: OperationContext) -> int:
        """Returns the ticket after which the answer may be given; the messages become visible in the order of ``context``."""
        self._check_undecided(xid)
        branch = self._resting(xid)
        if branch.prepared is one_phase:
            state = "prepared already" if one_phase else "not prepared"
            raise XAError(XACode.WRONG_STATE, f"this branch is {state}: {xid_text(xid)}")
        if one_phase and self._core.elsewhere is not None:
            self._core.elsewhere.prepare(branch.transaction, None)
        self._remove(branch)
        return self._settlement.commit(branch.transaction, context)

    def rollback(self, xid: Xid) -> int:
        """Returns the ticket after which the answer may be given.  Sessions that still work in the branch hear of it when they leave."""
        self._check_undecided(xid)
        branch = self.find(xid)
        if branch.suspended:
            raise XAError(XACode.WRONG_STATE, f"this branch is suspended: {xid_text(xid)}")
        return self._roll_back(branch, XACode.ROLLED_BACK)

    def forget(self, xid: Xid) -> int:
        """The transaction manager has heard how the branch was decided.  Returns the ticket after which the answer may be given."""
        record = self._decided.pop(xid, None)
        if record is None:
            raise XAError(XACode.UNKNOWN_XID, f"nobody has decided this branch: {xid_text(xid)}")
        batch = self._core.store.begin()
        batch.end_branch(record.branch_id, False)
        return self._core.store.commit(batch)

    def moved(self, branch: Branch) -> int:
        """A prepared branch is prepared on another broker now, with all its work.  Returns the ticket after which it is gone from here."""
        self._remove(branch)
        return self._settlement.give_away(branch.transaction)

    def in_doubt(self) -> list[Xid]:
        """The branches for a transaction manager to recover: prepared ones, and those that management has decided."""
        decided = self.decided(BranchState.COMMITTED) + self.decided(BranchState.ROLLED_BACK)
        return [*(branch.xid for branch in self.prepared()), *(record.xid for record in decided)]

    def take_coordinated(self) -> list[BranchRecord]:
        """The records restored since the last call of branches at other brokers, whose outcome depends on this one."""
        found, self._coordinated = self._coordinated, []
        return found

    # --- for management

    @property
    def _prepared_count(self) -> int:
        return len(self._open) - sum(map(len, self._unprepared.values()))

    def prepared(self) -> list[Branch]:
        return [branch for branch in self._open.values() if branch.prepared]

    def decided(self, outcome: BranchState) -> list[BranchRecord]:
        return [record for record in self._decided.values() if record.state is outcome]

    def decide(self, name: str, *, commit: bool) -> bool:
        """Commit or roll back a prepared branch, named by :func:`xid_base64`, without its transaction manager.

        Returns whether there is one.  Raises IllegalStateError when the name fits several: it does not say where one part of an xid ends
        and the next begins.
        """
        name = name.replace("+", "-").replace("/", "_")
        found = [branch for branch in self.prepared() if xid_base64(branch.xid) == name]
        if not found:
            return False
        if len(found) > 1:
            raise IllegalStateError(
                f"{len(found)} prepared branches have the name {name}: {', '.join(xid_text(each.xid) for each in found)}"
            )
        (branch,) = found
        transaction = branch.transaction
        record = transaction.prepared
        assert record is not None
        transaction.heuristic = True
        outcome = BranchState.COMMITTED if commit else BranchState.ROLLED_BACK
        self._decided[branch.xid] = BranchRecord(record.branch_id, branch.xid, outcome, branch.began_ms)
        if commit:
            self._remove(branch)
            self._settlement.commit(transaction, self._context)
        else:
            self._roll_back(branch, XACode.HEURISTIC_ROLLBACK)
        return True

    def acknowledged_on(self, queue: Queue) -> int:
        """How many messages of a queue prepared branches hold."""
        return sum(reference.queue is queue for branch in self.prepared() for reference in branch.transaction.acknowledged)

    # --- ends without a request: timeouts and lost connections

    def abandon(self, owner: object) -> None:
        """The connection is gone, and with it the branches that it has not prepared."""
        for branch in list(self._unprepared.get(owner, {}).values()):
            self._roll_back(branch, XACode.ROLLED_BACK)
        self._unprepared.pop(owner, None)

    def adopt(self, old: object, new: object) -> None:
        """The client has come back on another connection."""
        owned = self._unprepared.pop(old, {})
        for branch in owned.values():
            branch.owner = new
        if owned:
            self._unprepared.setdefault(new, {}).update(owned)

    def stop(self) -> None:
        """End the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        period_ms = self._core.options.transaction_timeout_scan_period
        if self._timer is None and period_ms > 0:
            self._timer = self._core.clock.call_later(period_ms / 1000, self._core.turn.run, self._scan)

    def _scan(self) -> None:
        self._timer = None
        now = self._core.clock.monotonic()
        unprepared = [branch for owned in self._unprepared.values() for branch in owned.values()]
        try:
            for branch in unprepared:
                if branch.deadline is not None and branch.deadline <= now:
                    self._core.report("AMQ222103", f"transaction with xid {xid_text(branch.xid)} timed out")
                    self._roll_back(branch, XACode.ROLLED_BACK_TIMEOUT)
        finally:
            if any(self._unprepared.values()):
                self._arm()

    # --- start

    def restore(
        self,
        recovered: Recovered,
        queues: Mapping[int, Queue],
        held: Mapping[tuple[int, int], Reference],
        duplicate_ids: Mapping[int, RecoveredDuplicateId],
    ) -> None:
        """Take over the stored branches.  ``held`` are the references that prepared branches have acknowledged, ``duplicate_ids`` all that
        are stored, by record.

        A branch of another broker stays in the store until the next start while there is one of the same xid here.
        """
        self.unreadable += recovered.unreadable
        for entry in recovered.branches:
            record = entry.record
            if record.xid.format_id == COORDINATED_FORMAT:
                self._coordinated.append(record)
            elif record.xid in self._open or record.xid in self._decided:
                text = f"another broker had a branch of the same xid, which waits until this one has ended: {xid_text(record.xid)}"
                self._core.report("AMQ222909", text)
            elif record.state is BranchState.PREPARED:
                branch = self._open[record.xid] = Branch(record.xid, None, record.time_ms)
                branch.transaction = self._restored(entry, queues, held, duplicate_ids)
            else:
                self._decided[record.xid] = record

    def _restored(
        self,
        entry: RecoveredBranch,
        queues: Mapping[int, Queue],
        held: Mapping[tuple[int, int], Reference],
        duplicate_ids: Mapping[int, RecoveredDuplicateId],
    ) -> Transaction:
        core = self._core
        transaction = Transaction()
        transaction.prepared = entry.record
        for message, places in entry.messages:
            references = [
                Reference(message, queues[place.queue_id], place.scheduled, place.delivery_count)
                for place in places
                if place.queue_id in queues
            ]
            for reference in references:
                core.hold(reference, core.addresses.get(message.address, reference.queue.address).memory)
                reference.queue.arriving += 1
                if has_group(message):
                    reference.queue.keep_groups()
            transaction.add_send(message, references)
        for place in entry.record.acknowledged:
            if place in held:
                transaction.acknowledged.append(held[place])
        for record_id in entry.record.duplicate_ids:
            duplicate = duplicate_ids.get(record_id)
            cache = None if duplicate is None else core.duplicate_ids(duplicate.cache)
            if duplicate is not None and cache is not None:
                transaction.add_duplicate_ids(cache, (duplicate.duplicate_id,))
        return transaction

    # --- inside

    def _check_undecided(self, xid: Xid) -> None:
        record = self._decided.get(xid)
        if record is not None:
            committed = record.state is BranchState.COMMITTED
            raise XAError(
                XACode.HEURISTIC_COMMIT if committed else XACode.HEURISTIC_ROLLBACK,
                f"this branch was {'committed' if committed else 'rolled back'} by management: {xid_text(xid)}",
            )

    def _resting(self, xid: Xid) -> Branch:
        """The branch, which no session may be working in."""
        branch = self.find(xid)
        if branch.suspended or branch.workers:
            state = "suspended" if branch.suspended else "worked in"
            raise XAError(XACode.WRONG_STATE, f"this branch is {state}: {xid_text(xid)}")
        return branch

    def _roll_back(self, branch: Branch, code: XACode) -> int:
        self._remove(branch)
        branch.rolled_back = code
        return self._settlement.rollback(branch.transaction.take_out())

    def _remove(self, branch: Branch) -> None:
        del self._open[branch.xid]
        self._disown(branch)

    def _disown(self, branch: Branch) -> None:
        owned = self._unprepared.get(branch.owner)
        if owned is not None:
            owned.pop(branch.xid, None)
            if not owned:
                del self._unprepared[branch.owner]
