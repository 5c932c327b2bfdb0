"""Reading journals beyond damage: every frame whose checksum holds is taken, in order, with any bytes between.

This module never writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mqclient.storageformat.errors import Loss
from mqclient.storageformat.files import Files, join, read_beyond_errors, segment_name, segment_sequence
from mqclient.storageformat.frames import (
    FRAME_MAGIC,
    HEADER_SIZE,
    KIND_BINDINGS,
    KIND_MESSAGES,
    Frame,
    SegmentHeader,
    StorageFormatError,
    claimed_contents,
    decode_segment_header,
    find_frames,
    frame_at,
)
from mqclient.storageformat.images import MARK_MISSING, record_ids
from mqclient.storageformat.page_records import PageGoneRecord
from mqclient.storageformat.records import ADDRESS_BINDING, QUEUE_BINDING, Mark, MessageRecord, Record, Trim, decode_records
from mqclient.storageformat.replay import State


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """A record where it stands: file, the file's sequence, and offset of its frame."""

    file: str
    sequence: int
    offset: int
    record: Record


@dataclass(slots=True)
class SalvagedJournals:
    """The state from the readable records of both journals, before messages that have lost their queue or their branch are dropped.

    ``losses`` are the places that cannot be read, first those of messages, then those of bindings; ``gone`` are the pages that are
    recorded as gone.
    """

    state: State
    losses_of_messages: list[Loss]
    losses_of_bindings: list[Loss]
    gone: set[int] = field(default_factory=set)

    @property
    def losses(self) -> list[Loss]:
        return [*self.losses_of_messages, *self.losses_of_bindings]


def salvage_journals(files: Files, journal_directory: str, bindings_directory: str, buffers: bool = True) -> SalvagedJournals:
    """Save all readable records of both journals.  Without ``buffers`` the messages are recorded without their content."""
    state = State()
    losses: list[Loss] = []
    losses_of_bindings: list[Loss] = []
    messages = _readable(files, journal_directory, KIND_MESSAGES, losses, buffers=buffers)
    highest = _highest_mark(files, journal_directory, KIND_MESSAGES, messages) if messages and not losses else None
    bindings = _readable(files, bindings_directory, KIND_BINDINGS, losses_of_bindings, highest)
    found = _highest_mark(files, bindings_directory, KIND_BINDINGS, bindings)
    if found < (highest or 0) and not losses_of_bindings:
        losses_of_bindings.append(Loss(bindings_directory, 0, 0, (), MARK_MISSING))
    for each in bindings + messages:
        try:
            state.apply(each.sequence, each.record)
        except StorageFormatError as error:
            losses_of_bindings.append(Loss(each.file, each.offset, 0, (), str(error)))
    _drop_replaced(state)
    gone = {each.record.page for each in messages if isinstance(each.record, PageGoneRecord)}
    return SalvagedJournals(state, losses, losses_of_bindings, gone)


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment file: written up to ``end`` if that is known; ``last``: no other one follows."""

    path: str
    kind: int
    sequence: int
    end: int | None
    last: bool = False


def segment_files(files: Files, directory: str, kind: int) -> list[SegmentFile]:
    """All segment files of a journal, oldest first, outdated ones too."""
    sequences = sorted(sequence for name in files.list(directory) if (sequence := segment_sequence(kind, name)) is not None)
    found: list[SegmentFile] = []
    for index, sequence in enumerate(sequences):
        last = index + 1 == len(sequences)
        end: int | None = None
        if not last and sequences[index + 1] == sequence + 1:
            end = _end_noted_in(files, join(directory, segment_name(kind, sequence + 1)))
        found.append(SegmentFile(join(directory, segment_name(kind, sequence)), kind, sequence, end, last))
    return found


def journal_records(files: Files, directory: str, kind: int) -> Iterator[JournalRecord | Loss]:
    """All records in the segments of one journal, in order, outdated ones too: for print-outs and salvage."""
    before: SegmentFile | None = None
    for segment in segment_files(files, directory, kind):
        if before is not None and segment.sequence != before.sequence + 1:
            yield _missing(directory, kind, before.sequence + 1, segment.sequence - 1)
        yield from segment_records(files, segment)
        before = segment


def _drop_replaced(state: State) -> None:
    """Keep the youngest of several queues or addresses of one name: the others were deleted, and the record of that is lost."""
    youngest: dict[tuple[object, object], object] = {}
    for what, number in sorted((key for key in state.bindings if key[0] in (ADDRESS_BINDING, QUEUE_BINDING)), reverse=True):
        name = state.bindings[what, number].value.get("name")
        if youngest.setdefault((what, name), number) != number:
            del state.bindings[what, number]


def _readable(
    files: Files, directory: str, kind: int, losses: list[Loss], highest: int | None = None, buffers: bool = True
) -> list[JournalRecord]:
    """The records of one journal that count, as far as they can be read; none from a mark above ``highest`` on."""
    records: list[JournalRecord] = []
    first = 1
    oldest = min((sequence for name in files.list(directory) if (sequence := segment_sequence(kind, name)) is not None), default=None)
    for each in journal_records(files, directory, kind):
        if isinstance(each, Loss):
            losses.append(each)
            continue
        if highest is not None and isinstance(each.record, Mark) and each.record.number > highest:
            break
        if not buffers and isinstance(each.record, MessageRecord):
            each.record.buffer = b""
        records.append(each)
        if isinstance(each.record, Trim):
            first = max(first, each.record.sequence)
    noted = [header.first for header in _headers(files, directory, kind)]
    first = max(first, *noted, 1)
    losses[:] = [loss for loss in losses if not _before(loss, directory, kind, first)]
    if noted and oldest is not None and oldest > first:
        losses.append(_missing(directory, kind, first, oldest - 1))
    return [record for record in records if record.sequence >= first]


def _missing(directory: str, kind: int, first: int, last: int) -> Loss:
    return Loss(join(directory, segment_name(kind, last)), 0, 0, (), f"missing: the segments from {first} to {last}")


def _before(loss: Loss, directory: str, kind: int, first: int) -> bool:
    """Does the loss lie in a segment that is not needed any more?"""
    sequence = segment_sequence(kind, loss.file.removeprefix(join(directory, "")))
    return sequence is not None and sequence < first


def _highest_mark(files: Files, directory: str, kind: int, records: list[JournalRecord]) -> int:
    """The highest mark in a journal: bindings with a higher one than messages lack their other half (see ``journal``)."""
    marks = [each.record.number for each in records if isinstance(each.record, Mark)]
    return max((0, *marks, *(header.mark for header in _headers(files, directory, kind))))


def _headers(files: Files, directory: str, kind: int) -> Iterator[SegmentHeader]:
    """The headers that can be read."""
    for name in files.list(directory):
        if segment_sequence(kind, name) is not None:
            header, problem = _read_header(files, join(directory, name))
            if header is not None and not problem:
                yield header


def segment_records(files: Files, segment: SegmentFile) -> Iterator[JournalRecord | Loss]:
    """The records of one segment, and the places that cannot be read."""
    path, end = segment.path, segment.end
    try:
        data = read_beyond_errors(files, path)
    except OSError as error:
        yield Loss(path, 0, 0, (), f"cannot be read: {error}")
        return
    header, problem = _header(data)
    if problem:
        yield Loss(path, 0, min(HEADER_SIZE, len(data)), (), problem)
    if header is None:
        return
    at = HEADER_SIZE
    while end is None or at < end:
        frame = frame_at(memoryview(data), at, header.seed)
        if frame is None:
            later = list(find_frames(data, header.seed, at + 1))
            if end is None and not _was_written(segment, data, at, later):
                return
            frame = later[0] if later else None
            stop = frame.offset if frame is not None else end if end is not None else len(data)
            ids = dict.fromkeys(number for content in claimed_contents(data, at, stop) for number in record_ids(content))
            yield Loss(path, at, stop - at, tuple(ids), "no valid frame")
            if frame is None:
                return
        yield from _frame_records(path, segment.sequence, frame)
        at = frame.end


def _was_written(segment: SegmentFile, data: bytes, at: int, later: list[Frame]) -> bool:
    """Was there a frame at this place, in a segment whose end nobody has noted?  In the last one a crash may have torn what follows."""
    if segment.last:
        return any(each.durable > at for each in later)
    return bool(later) or data.startswith(FRAME_MAGIC, at)


def _frame_records(path: str, sequence: int, frame: Frame) -> Iterator[JournalRecord | Loss]:
    try:
        for record in decode_records(frame.content):
            yield JournalRecord(path, sequence, frame.offset, record)
    except StorageFormatError as error:
        yield Loss(path, frame.offset, frame.end - frame.offset, tuple(record_ids(frame.content)), str(error))


def _header(data: bytes) -> tuple[SegmentHeader | None, str]:
    """The header, read as well as possible, and its error."""
    try:
        return decode_segment_header(data), ""
    except StorageFormatError as error:
        try:
            return decode_segment_header(data, lenient=True), str(error)
        except StorageFormatError:
            return None, str(error)


def _read_header(files: Files, path: str) -> tuple[SegmentHeader | None, str]:
    try:
        return _header(files.read(path, 0, HEADER_SIZE))
    except OSError as error:
        return None, str(error)


def _end_noted_in(files: Files, path: str) -> int | None:
    header, problem = _read_header(files, path)
    return None if header is None or problem else header.previous_end
