"""The state that the records of a journal add up to: the rules by which messages, branches, duplicate ids and bindings survive.

The broker, which starts from this state, and programs that only read a folder use the same rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mqclient.storageformat.frames import StorageFormatError
from mqclient.storageformat.images import Images
from mqclient.storageformat.page_records import PageBodyRecord, PageJournalRecord, PageRecord
from mqclient.storageformat.page_state import StoredPages
from mqclient.storageformat.records import (
    ADDRESS_BINDING,
    QUEUE_BINDING,
    AcknowledgeRecord,
    BindingGoneRecord,
    BindingRecord,
    BranchEndsRecord,
    BranchRecord,
    DeliveryCountRecord,
    DuplicateGoneRecord,
    DuplicateIdRecord,
    DuplicateIdsRecord,
    IdLimit,
    JsonValue,
    MessageRecord,
    Record,
    ScheduleRecord,
    encode_binding,
)

JsonObject = dict[str, JsonValue]
References = dict[int, tuple[int, int]]
"""(delivery count, scheduled ms) by queue id."""


@dataclass(slots=True)
class StoredMessage:
    """A message as the records leave it: where its record is, and its references (see ``live``: a queue id where that says it all)."""

    sequence: int
    record: MessageRecord
    references: int | References

    def reference_table(self) -> References:
        """The references by queue id, to be changed."""
        if isinstance(self.references, int):
            self.references = {self.references: (0, 0)}
        return self.references


@dataclass(slots=True)
class StoredBinding:
    sequence: int
    encoded: bytes
    value: JsonObject


@dataclass(slots=True)
class StoredBranch:
    sequence: int
    record: BranchRecord


@dataclass(slots=True)
class State:
    """The state that the records of both journals add up to.

    A message whose record has a ``branch_id`` does not count yet: its branch is among ``branches``, and prepared.
    """

    messages: dict[int, StoredMessage] = field(default_factory=dict)
    duplicates: dict[int, tuple[int, DuplicateIdRecord | DuplicateIdsRecord]] = field(default_factory=dict)
    branches: dict[int, StoredBranch] = field(default_factory=dict)
    bindings: dict[tuple[object, ...], StoredBinding] = field(default_factory=dict)
    id_limit: int = 1
    """No id from here on was used, as far as the journal says."""
    pages: StoredPages = field(default_factory=StoredPages)
    _undecided: dict[int, list[int]] = field(default_factory=dict)
    """The messages of each branch that has not ended.  A message may come before its branch: compaction moves messages one by one."""

    def apply(self, sequence: int, record: Record) -> None:
        """Take in the next record, which stands in segment ``sequence``."""
        if isinstance(record, MessageRecord):
            self._message(sequence, record)
        elif isinstance(record, AcknowledgeRecord):
            stored = self.messages.get(record.message_id)
            if stored is None:
                return
            if stored.references == record.queue_id:
                del self.messages[record.message_id]
            elif not isinstance(stored.references, int):
                stored.references.pop(record.queue_id, None)
                if not stored.references:
                    del self.messages[record.message_id]
        elif isinstance(record, DeliveryCountRecord | ScheduleRecord):
            self._reference(record)
        elif isinstance(record, DuplicateIdRecord | DuplicateIdsRecord):
            self.duplicates[record.record_id] = (sequence, record)
            self._used(record.record_id)
        elif isinstance(record, DuplicateGoneRecord):
            self.duplicates.pop(record.record_id, None)
        elif isinstance(record, BranchRecord):
            self.branches[record.branch_id] = StoredBranch(sequence, record)
            self._used(record.branch_id)
        elif isinstance(record, BranchEndsRecord):
            self._end_branch(record)
        elif isinstance(record, BindingRecord):
            key = key_of(record.what, record.value)
            self.bindings[key] = StoredBinding(sequence, record.encoded or encode_binding(record.what, record.value), record.value)
            used = record.value.get("id")
            if isinstance(used, int):
                self._used(used)
        elif isinstance(record, BindingGoneRecord):
            self.bindings.pop(key_of(record.what, record.value), None)
        elif isinstance(record, IdLimit):
            self.id_limit = record.limit
        elif isinstance(record, PageJournalRecord):
            self.pages.apply(sequence, record)
            if isinstance(record, PageRecord):
                self._used(record.page)
            elif isinstance(record, PageBodyRecord):
                self._used(record.body_id)

    def queue_ids(self) -> set[object]:
        return {key[1] for key in self.bindings if key[0] == QUEUE_BINDING}

    def drop_unrouted(self) -> list[int]:
        """Forget references to queues that are gone, and messages that have none left; returns the ids of both kinds of messages."""
        unrouted, changed = [], []
        queues = self.queue_ids()
        for message_id, stored in self.messages.items():
            if isinstance(stored.references, int):
                if stored.references not in queues:
                    unrouted.append(message_id)
                continue
            gone = [each for each in stored.references if each not in queues]
            for queue_id in gone:
                del stored.references[queue_id]
            if not stored.references:
                unrouted.append(message_id)
            elif gone:
                changed.append(message_id)
        for message_id in unrouted:
            del self.messages[message_id]
        self.pages.drop_unrouted(queues.__contains__)
        return sorted(unrouted + changed)

    def drop_unprepared(self) -> list[int]:
        """Forget messages of branches without a branch record (only damage can have that effect); returns their ids."""
        orphans = []
        for branch_id, message_ids in self._undecided.items():
            if branch_id not in self.branches:
                orphans += [message_id for message_id in dict.fromkeys(message_ids) if self.messages.pop(message_id, None) is not None]
        return sorted(orphans)

    def _end_branch(self, record: BranchEndsRecord) -> None:
        self.branches.pop(record.branch_id, None)
        for message_id in self._undecided.pop(record.branch_id, ()):
            stored = self.messages.get(message_id)
            if stored is None:
                continue
            if record.committed:
                stored.record.branch_id = 0
            else:
                del self.messages[message_id]

    def _message(self, sequence: int, record: MessageRecord) -> None:
        stored = self.messages.get(record.message_id)
        if stored is None or record.moved:
            queue_ids = record.queue_ids
            references = queue_ids[0] if len(queue_ids) == 1 else dict.fromkeys(queue_ids, (0, 0))
            self.messages[record.message_id] = StoredMessage(sequence, record, references)
            self._used(record.message_id)
            if record.branch_id:
                self._undecided.setdefault(record.branch_id, []).append(record.message_id)
            if record.body_id is not None:
                self._used(record.body_id)
        else:
            table = stored.reference_table()
            for queue_id in record.queue_ids:
                table.setdefault(queue_id, (0, 0))

    def _reference(self, record: DeliveryCountRecord | ScheduleRecord) -> None:
        stored = self.messages.get(record.message_id)
        if stored is None:
            return
        table = stored.reference_table()
        if record.queue_id in table:
            count, scheduled = table[record.queue_id]
            if isinstance(record, DeliveryCountRecord):
                table[record.queue_id] = (record.count, scheduled)
            else:
                table[record.queue_id] = (count, record.time_ms)

    def _used(self, number: int) -> None:
        if number >= self.id_limit:
            self.id_limit = number + 1


def replay(images: Images) -> State:
    """The state that the journals of a folder hold."""
    state = State()
    for segment, record in images.bindings.records():
        state.apply(segment.header.sequence, record)
    for segment, record in images.messages.records():
        state.apply(segment.header.sequence, record)
    state.drop_unrouted()
    state.drop_unprepared()
    return state


def key_of(what: int, value: JsonObject) -> tuple[object, ...]:
    """The key under which a binding replaces another one."""
    try:
        if what in (ADDRESS_BINDING, QUEUE_BINDING):
            return (what, value["id"])
        return (what, value["kind"], value["key"])
    except KeyError as error:
        raise StorageFormatError(f"binding without {error}") from error
