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
from mqbroker.localfs import LocalFileSystem
from mqbroker.storage.recover import salvage_state
from mqbroker.storage.replay import State
from mqbroker.storage.segments import segment_name
from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.frames import (
    HEADER_SIZE,
    KIND_BINDINGS,
    KIND_MESSAGES,
    SegmentHeader,
    encode_frame,
)
from mqclient.storageformat.records import (
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
    settings = StoreSettings(str(folders.journal), str(folders.bindings), str(folders.large_messages))
    saved = salvage_state(LocalFileSystem(), settings)
    return Salvage(
        saved.state,
        [Loss(loss.file, loss.offset, loss.offset + loss.size, loss.message_ids) for loss in saved.losses],
        saved.node_id or bytes(16),
        list(saved.missing_bodies),
        saved.without_queue,
    )


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
        references = stored.reference_table()
        parts = [encode_message_head(record.headers, len(record.buffer), tuple(references), record.address, body), record.buffer]
        for queue_id, (count, scheduled) in references.items():
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
