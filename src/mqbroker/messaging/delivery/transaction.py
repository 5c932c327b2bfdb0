"""A transaction, local or a branch of a global one: sends and acknowledgements that become visible together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mqbroker.messaging.core import MessagingCore, is_stored
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import BranchRecord, BranchState, StoreBatch
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.routing.duplicates import DuplicateIdCache
from mqclient.errors import DuplicateIdRejectedError, MQError
from mqclient.wire.primitives import Xid


class Transaction:
    """The work of a session since the last commit or rollback.

    ``failure`` is set when the transaction can only be rolled back; a commit then raises it.  ``prepared`` is the stored branch record,
    None before XA prepare.  ``heuristic``: management has decided; the store keeps the outcome.  ``brought`` are messages that another
    broker has handed over together with their acknowledgement; they are not stored before the transaction is prepared.  ``outside`` is
    its part at other brokers, of :class:`mqbroker.messaging.queues.elsewhere.Elsewhere`.
    """

    __slots__ = ("acknowledged", "brought", "duplicate_ids", "failure", "heuristic", "outside", "prepared", "sends")

    def __init__(self) -> None:
        self.sends: list[tuple[Message, list[Reference]]] = []
        self.acknowledged: list[Reference] = []
        self.brought: list[tuple[Message, list[Reference]]] = []
        self.duplicate_ids: dict[DuplicateIdCache, list[bytes]] = {}
        self.failure: MQError | None = None
        self.prepared: BranchRecord | None = None
        self.heuristic = False
        self.outside: object | None = None

    @property
    def empty(self) -> bool:
        return not (self.sends or self.acknowledged or self.brought or self.duplicate_ids or self.failure)

    def add_send(self, message: Message, references: list[Reference]) -> None:
        self.sends.append((message, references))

    def add_duplicate_ids(self, cache: DuplicateIdCache, duplicate_ids: Iterable[bytes]) -> None:
        """The cache shall know them from the commit, or the prepare, on."""
        self.duplicate_ids.setdefault(cache, []).extend(duplicate_ids)

    def mark_rollback_only(self, failure: MQError) -> None:
        """The first failure is the one that the commit reports.  Without its traceback, which would keep the refused message."""
        if self.failure is None:
            self.failure = failure.with_traceback(None)

    def take_out(self) -> Transaction:
        """Move the work into a new transaction, and go on with this one empty."""
        work = Transaction()
        work.sends, self.sends = self.sends, work.sends
        work.acknowledged, self.acknowledged = self.acknowledged, work.acknowledged
        work.brought, self.brought = self.brought, work.brought
        work.duplicate_ids, self.duplicate_ids = self.duplicate_ids, work.duplicate_ids
        work.failure, self.failure = self.failure, None
        work.prepared, self.prepared = self.prepared, None
        work.heuristic, self.heuristic = self.heuristic, False
        work.outside, self.outside = self.outside, None
        return work

    def reject_duplicate(self, message: Message) -> None:
        self.mark_rollback_only(
            DuplicateIdRejectedError(f"AMQ222059: Duplicate message detected - message {message.message_id} will not be routed")
        )

    def renew_caches(self, core: MessagingCore) -> None:
        """Replace duplicate id caches that were dropped, or made again, since this transaction used them."""
        known, self.duplicate_ids = self.duplicate_ids, {}
        for cache, duplicate_ids in known.items():
            renewed = core.duplicate_ids(cache.name)
            if renewed is not None:
                self.add_duplicate_ids(renewed, duplicate_ids)

    def store(self, core: MessagingCore) -> int:
        """Hand everything to the store as one batch; returns the ticket to wait for, 0 when there was nothing to store."""
        batch = core.store.begin()
        stored = False
        visible: list[tuple[Message, list[Reference]]] = []
        if self.prepared is not None:
            self._end_branch(batch, commit=True)
            stored = True
        elif core.reader_queues or core.ordered_queues or core.paging.addresses:
            self._number_anew(core)
        for message, references in self.sends:
            if self.prepared is None:
                kept, waiting = core.paging.store(batch, message, references)
                stored = stored or kept
            else:
                waiting = self._show_prepared(core, batch, message, references)
            if waiting or not references:
                visible.append((message, waiting))
        self.sends = visible
        if self.prepared is None:
            for cache, duplicate_ids in self.duplicate_ids.items():
                cache.add_all(duplicate_ids, batch)
                stored = True
        unknown = {reference for _, references in self.brought for reference in references}
        for reference in self._stored_acknowledged():
            if reference in unknown:
                continue
            batch.acknowledge(reference.queue.queue_id, reference.message)
            stored = True
        self.brought.clear()
        if core.elsewhere is not None and core.elsewhere.decide(self, batch):
            stored = True
        return core.commit_transaction(batch) if stored else 0

    def prepare(self, core: MessagingCore, xid: Xid, time_ms: int) -> int:
        """Hand everything to the store as one batch that does not count yet; returns the ticket to wait for."""
        branch_id = core.store.next_id()
        batch = core.store.begin()
        for cache, duplicate_id in self._each_duplicate_id():
            cache.add(duplicate_id, batch)
        acknowledged = self._stored_acknowledged()
        for message, durable in self._stored(self.brought):
            batch.add_message(message, [reference.queue.queue_id for reference in durable])
        self.brought.clear()
        self.prepared = BranchRecord(
            branch_id,
            xid,
            BranchState.PREPARED,
            time_ms,
            tuple((reference.queue.queue_id, reference.message.message_id) for reference in acknowledged),
            tuple(record_id for cache, duplicate_id in self._each_duplicate_id() if (record_id := cache.record_id(duplicate_id))),
        )
        batch.put_branch(self.prepared)
        if core.elsewhere is not None:
            core.elsewhere.remember(self, batch)
        for message, durable in self._stored(self.sends):
            batch.add_prepared(branch_id, message, [reference.queue.queue_id for reference in durable])
            _schedule(batch, message, durable)
        for reference in acknowledged:
            # So that a rollback after a restart knows how often the message was tried.
            batch.delivery_count(reference.queue.queue_id, reference.message, reference.delivery_count)
        return core.commit_transaction(batch)

    def take_back(self, core: MessagingCore) -> int:
        """Make the store forget the work that :meth:`prepare` has stored; returns the ticket to wait for, 0 when there was none."""
        if self.prepared is None:
            return 0
        batch = core.store.begin()
        self._end_branch(batch, commit=False)
        for cache, duplicate_id in self._each_duplicate_id():
            cache.discard(duplicate_id, batch)
        if core.elsewhere is not None:
            core.elsewhere.undo(self, batch)
        return core.commit_transaction(batch)

    def give_away(self, core: MessagingCore) -> int:
        """Another broker has all of this, prepared: make the store forget it; returns the ticket."""
        batch = core.store.begin()
        self._end_branch(batch, commit=False)
        for cache, duplicate_id in self._each_duplicate_id():
            cache.discard(duplicate_id, batch)
        for reference in self._stored_acknowledged():
            batch.acknowledge(reference.queue.queue_id, reference.message)
        return core.store.commit(batch)

    def _each_duplicate_id(self) -> Iterator[tuple[DuplicateIdCache, bytes]]:
        return ((cache, duplicate_id) for cache, duplicate_ids in self.duplicate_ids.items() for duplicate_id in duplicate_ids)

    def _end_branch(self, batch: StoreBatch, *, commit: bool) -> None:
        record = self.prepared
        assert record is not None
        batch.end_branch(record.branch_id, commit)
        if self.heuristic:
            outcome = BranchState.COMMITTED if commit else BranchState.ROLLED_BACK
            batch.put_branch(BranchRecord(record.branch_id, record.xid, outcome, record.time_ms))

    def _number_anew(self, core: MessagingCore) -> None:
        """Ids ascend in pages, and on queues where that matters, in the order in which messages become visible: that is now."""
        for message, references in self.sends:
            account = message.account
            if (account is not None and account.name in core.paging.addresses) or any(each.queue.numbers_ascend for each in references):
                message.renumber(core.store.next_id())

    @staticmethod
    def _show_prepared(core: MessagingCore, batch: StoreBatch, message: Message, references: list[Reference]) -> list[Reference]:
        """Make a prepared message visible, with a new id where ids have to ascend.  Returns the references to deliver."""
        account = message.account
        pages = account is not None and core.store.pager is not None and core.paging.wanted(account)
        if account is None or not (pages or any(each.queue.numbers_ascend for each in references)):
            return references
        copy = message.duplicate(core.store.next_id())
        fresh = [Reference(copy, each.queue, each.scheduled) for each in references]
        for reference in fresh:
            core.hold(reference, account)
        _, waiting = core.paging.store(batch, copy, fresh)
        for reference in references:
            if is_stored(reference) and not reference.queue.deleted:
                batch.acknowledge(reference.queue.queue_id, message)
            core.let_go(reference)
        return waiting

    @staticmethod
    def _stored(sends: list[tuple[Message, list[Reference]]]) -> Iterator[tuple[Message, list[Reference]]]:
        """The messages that the store is to keep, with their references there."""
        for message, references in sends:
            if message.durable:
                durable = [reference for reference in references if reference.queue.definition.durable and not reference.queue.deleted]
                if durable:
                    yield message, durable

    def _stored_acknowledged(self) -> list[Reference]:
        return [reference for reference in self.acknowledged if is_stored(reference) and not reference.queue.deleted]


def _schedule(batch: StoreBatch, message: Message, references: list[Reference]) -> None:
    for reference in references:
        if reference.scheduled:
            batch.schedule(reference.queue.queue_id, message, reference.scheduled)
