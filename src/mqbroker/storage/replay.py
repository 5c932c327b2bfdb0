"""Reading journals back: which segments count, where the last one ends, and what their records add up to.

Nothing here writes.  Damage raises :class:`JournalDamagedError`, except at the end of the last segment, where it is what a crash leaves of
a write that nobody was told about.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mqbroker.storage.bindings import JsonObject, key_of
from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.filesystem import FileSystem, join
from mqbroker.storage.page_state import StoredPages
from mqbroker.storage.segments import SUFFIX, TEMPORARY, segment_name, segment_sequence
from mqclient.storageformat.frames import (
    HEADER_SIZE,
    KIND_BINDINGS,
    KIND_MESSAGES,
    Frame,
    SegmentHeader,
    StorageFormatError,
    claimed_content,
    decode_segment_header,
    find_frames,
    read_frames,
)
from mqclient.storageformat.page_records import PageBodyRecord, PageJournalRecord, PageRecord
from mqclient.storageformat.records import (
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
    Mark,
    MessageRecord,
    Record,
    ScheduleRecord,
    Trim,
    decode_records,
    encode_binding,
)

MARK_MISSING = "bindings end here, although the journal of messages says that more of them were durable"
IDS_AROUND = 4
"""Message ids named on each side of a damaged place."""


def record_ids(content: memoryview) -> list[int]:
    """The message ids that the records in ``content`` name, as far as they can be read."""
    ids: dict[int, None] = {}
    try:
        for record in decode_records(content):
            if isinstance(record, MessageRecord | AcknowledgeRecord | DeliveryCountRecord | ScheduleRecord):
                ids[record.message_id] = None
            elif isinstance(record, BranchRecord):
                ids.update((message_id, None) for _, message_id in record.acknowledged)
    except StorageFormatError:
        pass
    return list(ids)


@dataclass(slots=True)
class LogSegment:
    """A segment file that counts: its frames stand from ``HEADER_SIZE`` to ``end``."""

    header: SegmentHeader
    path: str
    end: int


class LogImage:
    """The segments of one journal as they are on the disk, oldest first.

    It is read in two parts: the last segment at once, which tells what the other journal must know; all others by :meth:`complete`, when
    it is known where the last one ends.  ``mark`` is the highest mark, ``stale`` are files that mean nothing any more.
    """

    def __init__(self, file_system: FileSystem, directory: str, kind: int) -> None:
        self._file_system = file_system
        self._directory = directory
        self._kind = kind
        self.segments: list[LogSegment] = []
        self.stale: list[str] = []
        self.first = 1
        """The oldest sequence that counts."""
        self.mark = 0
        self.tail_marks: list[tuple[int, int]] = []
        """(offset, mark) of frames that were not known to be durable when the last one was written."""
        self._trims: list[tuple[int, int]] = []
        """(offset of the frame, sequence) of the trim records in the last segment."""
        self._numbers: list[int] = []
        self._find()

    @property
    def node_id(self) -> bytes | None:
        return self.segments[-1].header.node_id if self.segments else None

    def last_end(self) -> tuple[str, int]:
        """Where the journal ends: file and offset."""
        return (self.segments[-1].path, self.segments[-1].end) if self.segments else (self._directory, 0)

    def complete(self, cut: int | None = None) -> None:
        """Find all segments that count; what is in the last one from offset ``cut`` on does not."""
        if not self.segments:
            return
        last = self.segments.pop()
        if cut is not None:
            last.end = cut
        self.first = max([last.header.first, *(sequence for offset, sequence in self._trims if offset < last.end)])
        self.stale += (self._path(number) for number in self._numbers if number < self.first)
        found = set(self._numbers)
        following = last
        for sequence in range(last.header.sequence - 1, self.first - 1, -1):
            if sequence not in found:
                raise JournalDamagedError(self._path(sequence), 0, (), "this segment is missing")
            header = self._header(sequence, self._file_system.read(self._path(sequence), 0, HEADER_SIZE))
            following = LogSegment(header, self._path(sequence), following.header.previous_end)
            self.segments.append(following)
        self.segments.reverse()
        self.segments.append(last)

    def frames(self) -> Iterator[tuple[LogSegment, Frame]]:
        """Every frame that counts, in order."""
        for segment in self.segments:
            data = self._file_system.read(segment.path)
            at = HEADER_SIZE
            for frame in read_frames(memoryview(data), segment.header.seed, HEADER_SIZE, segment.end):
                at = frame.end
                yield segment, frame
            if at != segment.end:
                raise self._damaged(segment, data, at, f"no valid frame, although this segment was written up to {segment.end}")

    def records(self) -> Iterator[tuple[LogSegment, Record]]:
        for segment, frame in self.frames():
            try:
                for record in decode_records(frame.content):
                    yield segment, record
            except StorageFormatError as error:
                raise JournalDamagedError(segment.path, frame.offset, record_ids(frame.content), str(error)) from error

    def _find(self) -> None:
        for name in self._file_system.list(self._directory):
            sequence = segment_sequence(self._kind, name)
            if sequence is not None:
                self._numbers.append(sequence)
            elif name.endswith(SUFFIX + TEMPORARY) and segment_sequence(self._kind, name.removesuffix(TEMPORARY)) is not None:
                self.stale.append(join(self._directory, name))
        if self._numbers:
            self.segments.append(self._read_last(max(self._numbers)))

    def _path(self, sequence: int) -> str:
        return join(self._directory, segment_name(self._kind, sequence))

    def _header(self, sequence: int, data: bytes) -> SegmentHeader:
        try:
            header = decode_segment_header(data)
        except StorageFormatError as error:
            raise JournalDamagedError(self._path(sequence), 0, (), str(error)) from error
        if header.sequence != sequence or header.kind != self._kind:
            raise JournalDamagedError(self._path(sequence), 0, (), f"this is segment {header.sequence} under another name")
        return header

    def _read_last(self, sequence: int) -> LogSegment:
        """The last segment up to the first place without a valid frame; raises when frames behind it say that it was durable."""
        path = self._path(sequence)
        data = self._file_system.read(path)
        header = self._header(sequence, data)
        segment = LogSegment(header, path, HEADER_SIZE)
        self.mark = header.mark
        durable = 0
        for frame in read_frames(memoryview(data), header.seed):
            segment.end = frame.end
            durable = max(durable, frame.durable)
            try:
                for record in decode_records(frame.content):
                    if isinstance(record, Trim):
                        self._trims.append((frame.offset, record.sequence))
                    elif isinstance(record, Mark):
                        self.mark = record.number
                        self.tail_marks.append((frame.offset, record.number))
            except StorageFormatError as error:
                raise JournalDamagedError(path, frame.offset, record_ids(frame.content), str(error)) from error
        if any(frame.durable > segment.end for frame in find_frames(data, header.seed, segment.end)):
            raise self._damaged(segment, data, segment.end, "no valid frame, although later ones say that this place was durable")
        self.tail_marks = [(offset, mark) for offset, mark in self.tail_marks if offset >= durable]
        return segment

    def _damaged(self, segment: LogSegment, data: bytes, offset: int, reason: str) -> JournalDamagedError:
        view = memoryview(data)
        before = [each for frame in read_frames(view, segment.header.seed, HEADER_SIZE, offset) for each in record_ids(frame.content)]
        ids = before[-IDS_AROUND:] + record_ids(claimed_content(view, offset))
        after = next(find_frames(data, segment.header.seed, offset + 1), None)
        if after is not None:
            ids += record_ids(after.content)[:IDS_AROUND]
        return JournalDamagedError(segment.path, offset, list(dict.fromkeys(ids)), reason)


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
    """What the records of both journals add up to.

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
    """The messages of each branch that has not ended.  They may come before the branch: compaction moves them one by one."""

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
            self.bindings[key] = StoredBinding(sequence, encode_binding(record.what, record.value), record.value)
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
        """Forget messages of branches of which nothing else is known (only damage can have that effect); returns their ids."""
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


@dataclass(slots=True)
class Images:
    """Both journals of a folder, with what does not count cut off."""

    messages: LogImage
    bindings: LogImage
    mark: int
    """The highest mark in use, counting those that were cut off."""


def find_images(file_system: FileSystem, journal_directory: str, bindings_directory: str) -> Images:
    """Both journals, without the bindings whose other half did not reach the disk (see ``journal``)."""
    messages = LogImage(file_system, journal_directory, KIND_MESSAGES)
    bindings = LogImage(file_system, bindings_directory, KIND_BINDINGS)
    if bindings.mark < messages.mark:
        raise JournalDamagedError(*bindings.last_end(), (), MARK_MISSING)
    mark = max(messages.mark, bindings.mark)
    halves = [offset for offset, number in bindings.tail_marks if number > messages.mark] if messages.segments else []
    bindings.complete(halves[0] if halves else None)
    messages.complete()
    return Images(messages, bindings, mark)


def replay(images: Images) -> State:
    """Everything that the journals of a folder hold."""
    state = State()
    for segment, record in images.bindings.records():
        state.apply(segment.header.sequence, record)
    for segment, record in images.messages.records():
        state.apply(segment.header.sequence, record)
    state.drop_unrouted()
    state.drop_unprepared()
    return state
