"""Journals as they are on the disk: which segments count, and where the last one ends.

This module never writes.  Damage raises :class:`JournalDamagedError`, except at the end of the last segment, where a crash may leave a part
of a write that was never acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mqclient.storageformat.errors import JournalDamagedError
from mqclient.storageformat.files import Files, is_temporary, join, segment_name, segment_sequence
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
from mqclient.storageformat.records import (
    AcknowledgeRecord,
    BranchRecord,
    DeliveryCountRecord,
    Mark,
    MessageRecord,
    Record,
    ScheduleRecord,
    Trim,
    decode_records,
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

    The segments are read in two parts: the last one at once, because the other journal needs its marks; all others by :meth:`complete`,
    when the end of the last one is known.  ``mark`` is the highest mark, ``stale`` are files without meaning.
    """

    def __init__(self, files: Files, directory: str, kind: int) -> None:
        self._files = files
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
        """The end of the journal: file and offset."""
        return (self.segments[-1].path, self.segments[-1].end) if self.segments else (self._directory, 0)

    def complete(self, cut: int | None = None) -> None:
        """Find all segments that count; frames in the last one from offset ``cut`` on do not."""
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
            header = self._header(sequence, self._files.read(self._path(sequence), 0, HEADER_SIZE))
            following = LogSegment(header, self._path(sequence), following.header.previous_end)
            self.segments.append(following)
        self.segments.reverse()
        self.segments.append(last)

    def frames(self) -> Iterator[tuple[LogSegment, Frame]]:
        """Every frame that counts, in order."""
        for segment in self.segments:
            data = self._files.read(segment.path)
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
        for name in self._files.list(self._directory):
            sequence = segment_sequence(self._kind, name)
            if sequence is not None:
                self._numbers.append(sequence)
            elif is_temporary(self._kind, name):
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
        data = self._files.read(path)
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


@dataclass(slots=True)
class Images:
    """Both journals of a folder, without the frames that do not count."""

    messages: LogImage
    bindings: LogImage
    mark: int
    """The highest mark in use, marks that were cut off included."""


def find_images(files: Files, journal_directory: str, bindings_directory: str) -> Images:
    """Both journals, without the bindings whose other half did not reach the disk (see ``journal``)."""
    messages = LogImage(files, journal_directory, KIND_MESSAGES)
    bindings = LogImage(files, bindings_directory, KIND_BINDINGS)
    if bindings.mark < messages.mark:
        raise JournalDamagedError(*bindings.last_end(), (), MARK_MISSING)
    mark = max(messages.mark, bindings.mark)
    halves = [offset for offset, number in bindings.tail_marks if number > messages.mark] if messages.segments else []
    bindings.complete(halves[0] if halves else None)
    messages.complete()
    return Images(messages, bindings, mark)
