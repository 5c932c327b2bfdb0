"""Salvage of a damaged journal into a new one (``mqbroker data recover``).

Every frame whose checksum holds is taken, in order, whatever stands between.  What an unreadable frame said is lost: messages in it, and
acknowledgements in it, so that messages which were consumed may come again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mqbroker.cli.journal_folder import DataFolders
from mqbroker.storage.replay import State, record_ids
from mqbroker.storage.segments import segment_name, segment_sequence
from mqclient.storageformat.frames import (
    FRAME_MAGIC,
    HEADER_SIZE,
    KIND_BINDINGS,
    KIND_MESSAGES,
    SegmentHeader,
    StorageFormatError,
    claimed_content,
    decode_segment_header,
    encode_frame,
    find_frames,
)
from mqclient.storageformat.records import (
    QUEUE_BINDING,
    decode_records,
    encode_delivery_count,
    encode_duplicate_id,
    encode_id_limit,
    encode_message_head,
    encode_schedule,
)

_SEGMENT_SIZE: Final = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Loss:
    """A place that could not be read: bytes ``start`` to ``end`` of ``file``, and the message ids that can be made out in it."""

    file: str
    start: int
    end: int
    message_ids: tuple[int, ...]

    def __str__(self) -> str:
        ids = ", ".join(map(str, self.message_ids)) or "none could be made out"
        return f"{self.file}: bytes {self.start} to {self.end} cannot be read; message ids: {ids}"


@dataclass(slots=True)
class Salvage:
    """What could be read."""

    state: State = field(default_factory=State)
    losses: list[Loss] = field(default_factory=list)
    node_id: bytes = bytes(16)
    missing_bodies: list[int] = field(default_factory=list)
    """Ids of large messages whose body is lost, and which are left out therefore."""
    without_queue: list[int] = field(default_factory=list)
    """Ids of messages whose queue is not known any more, and which are left out therefore."""


def salvage(folders: DataFolders) -> Salvage:
    """Read what can be read of both journals.  Changes nothing."""
    found = Salvage()
    for folder, kind in ((folders.bindings, KIND_BINDINGS), (folders.journal, KIND_MESSAGES)):
        numbers = sorted(number for path in folder.iterdir() if (number := segment_sequence(kind, path.name)) is not None)
        first = _first_needed(folder, kind, numbers)
        for number in numbers:
            if number >= first:
                _read_segment(folder / segment_name(kind, number), number, found)
        for gap in range(first, numbers[-1] if numbers else first):
            if gap not in numbers:
                found.losses.append(Loss(str(folder / segment_name(kind, gap)), 0, 0, ()))
    state = found.state
    for message_id, stored in state.messages.items():
        if not any((QUEUE_BINDING, queue_id) in state.bindings for queue_id in stored.references):
            found.without_queue.append(message_id)
    state.drop_unrouted()
    for message_id, stored in list(state.messages.items()):
        if stored.record.body_id is not None and not folders.large_body(stored.record.body_id).is_file():
            found.missing_bodies.append(message_id)
            del state.messages[message_id]
    return found


def _first_needed(folder: Path, kind: int, numbers: list[int]) -> int:
    """The oldest segment that counts, as the newest readable header says it."""
    for number in reversed(numbers):
        try:
            with (folder / segment_name(kind, number)).open("rb") as file:
                return decode_segment_header(file.read(HEADER_SIZE)).first
        except StorageFormatError:
            continue
    return numbers[0] if numbers else 1


def _read_segment(path: Path, number: int, found: Salvage) -> None:
    data = path.read_bytes()
    try:
        header = decode_segment_header(data, lenient=True)
    except StorageFormatError:
        found.losses.append(Loss(str(path), 0, len(data), ()))
        return
    if header.node_id != bytes(16):
        found.node_id = header.node_id
    at = HEADER_SIZE
    for frame in find_frames(data, header.seed, HEADER_SIZE):
        if frame.offset > at:
            found.losses.append(_loss(path, data, at, frame.offset))
        at = frame.end
        try:
            for record in decode_records(frame.content):
                found.state.apply(number, record)
        except StorageFormatError:
            found.losses.append(Loss(str(path), frame.offset, frame.end, tuple(record_ids(frame.content))))
    rest = data.find(FRAME_MAGIC, at)
    if rest >= 0:
        found.losses.append(_loss(path, data, at, len(data.rstrip(b"\0"))))


def _loss(path: Path, data: bytes, start: int, end: int) -> Loss:
    return Loss(str(path), start, end, tuple(record_ids(claimed_content(memoryview(data), start))))


def write_journal(found: Salvage, source: DataFolders, target: DataFolders, salt: int) -> None:
    """Write what was read as a new store into empty folders, with copies of the large bodies.

    Raises FileExistsError when a folder exists, and OSError when the disk is full.
    """
    for folder in (target.journal, target.bindings, target.large_messages):
        folder.mkdir(parents=True)
    _write_segments(target.bindings, KIND_BINDINGS, found.node_id, salt, _binding_frames(found.state))
    _write_segments(target.journal, KIND_MESSAGES, found.node_id, salt, _message_frames(found.state))
    for stored in found.state.messages.values():
        body_id = stored.record.body_id
        if body_id is not None and not target.large_body(body_id).exists():
            shutil.copyfile(source.large_body(body_id), target.large_body(body_id))


def _binding_frames(state: State) -> Iterator[list[bytes]]:
    yield [encode_id_limit(state.id_limit)]
    for binding in state.bindings.values():
        yield [binding.encoded]


def _message_frames(state: State) -> Iterator[list[bytes]]:
    for record_id, (_, duplicate) in sorted(state.duplicates.items()):
        yield [encode_duplicate_id(record_id, duplicate.cache, duplicate.duplicate_id)]
    for message_id in sorted(state.messages):
        stored = state.messages[message_id]
        record = stored.record
        body = None if record.body_id is None else (record.body_id, record.body_size)
        parts = [encode_message_head(record.headers, len(record.buffer), tuple(stored.references), record.address, body), record.buffer]
        for queue_id, (count, scheduled) in stored.references.items():
            if count:
                parts.append(encode_delivery_count(queue_id, message_id, count))
            if scheduled:
                parts.append(encode_schedule(queue_id, message_id, scheduled))
        yield parts


def _write_segments(folder: Path, kind: int, node_id: bytes, salt: int, frames: Iterator[list[bytes]]) -> None:
    sequence = 1
    previous_end = 0
    pending = next(frames, None)
    while sequence == 1 or pending is not None:
        header = SegmentHeader(kind, sequence, node_id, salt, 1, previous_end, 0)
        offset = HEADER_SIZE
        with (folder / segment_name(kind, sequence)).open("xb") as file:
            file.write(header.encode())
            while pending is not None and offset < _SEGMENT_SIZE:
                frame = encode_frame(pending, header.seed, offset, offset)
                file.write(frame)
                offset += len(frame)
                pending = next(frames, None)
        previous_end = offset
        sequence += 1
