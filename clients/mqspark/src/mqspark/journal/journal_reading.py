"""The reading of a task in a data folder: one file, or the files that a running broker has meanwhile made of it."""

from __future__ import annotations

import logging
import os
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from mqclient.storageformat.errors import Loss
from mqclient.storageformat.files import BODY_SUFFIX, join, page_path
from mqclient.storageformat.frames import KIND_BINDINGS, KIND_MESSAGES, KIND_PAGE
from mqclient.storageformat.images import find_images
from mqclient.storageformat.page_messages import decompress
from mqclient.storageformat.page_records import PageCompressed
from mqclient.storageformat.records import MessageRecord, Record, decode_records
from mqclient.storageformat.salvage import SegmentFile, segment_files
from mqclient.storageformat.surviving import (
    Index,
    PageShare,
    SegmentShare,
    StoreFolders,
    Survivor,
    image_files,
    records_of,
    survivors_of,
    survivors_of_page,
)
from mqspark.errors import JournalError
from mqspark.journal.journal_folder import LocalFiles, Patience, damage_text, read_index, steady

log: Final = logging.getLogger(__name__)


class PackedShare:
    """A share of the messages, small enough to travel to a task: the ids of plain messages as packed differences."""

    def __init__(self, share: SegmentShare | PageShare) -> None:
        self._share: SegmentShare | PageShare = share
        self._plain: dict[int, bytes] = {}
        if isinstance(share, SegmentShare):
            self._share = SegmentShare(share.file, {}, share.others)
            for queue_id, ids in share.plain.items():
                self._plain[queue_id] = zlib.compress(np.diff(np.frombuffer(ids, np.int64), prepend=0).tobytes(), 1)

    def unpack(self) -> SegmentShare | PageShare:
        if isinstance(self._share, PageShare):
            return self._share
        plain = {}
        for queue_id, packed in self._plain.items():
            plain[queue_id] = array("q", np.cumsum(np.frombuffer(zlib.decompress(packed), np.int64)).tobytes())
        return SegmentShare(self._share.file, plain, self._share.others)


@dataclass(frozen=True, slots=True)
class Found:
    """A message, and the file that it is in."""

    survivor: Survivor
    file: str
    sequence: int


class FolderReader:
    """Reads shares of a folder.  With ``skips`` places that cannot be read are left out, with a line in the log."""

    def __init__(self, folders: StoreFolders, skips: bool, patience: Patience | None = None) -> None:
        self.files = LocalFiles()
        self.folders = folders
        self._skips = skips
        self._patience = patience or Patience()

    # --- planning

    def index(self) -> Index:
        """Raises JournalError."""
        index = read_index(self.files, self.folders, self._skips)
        for loss in index.losses:
            self._loss(loss)
        return index

    def record_files(self) -> list[SegmentFile]:
        """The files whose records count, the journal of bindings first.  Raises JournalError."""
        folders = self.folders
        if self._skips:
            found = segment_files(self.files, folders.bindings, KIND_BINDINGS) + segment_files(self.files, folders.journal, KIND_MESSAGES)
        else:
            images = steady(lambda: find_images(self.files, folders.journal, folders.bindings), self._patience)
            found = image_files(images.bindings, KIND_BINDINGS) + image_files(images.messages, KIND_MESSAGES)
        if folders.paging is not None and self.files.list(folders.paging):
            for share in self.index().pages:
                path = page_path(folders.paging, share.page.address or "", share.number)
                found.append(SegmentFile(path, KIND_PAGE, share.number, share.page.end))
        return found

    # --- messages

    def messages(self, share: SegmentShare | PageShare) -> Iterator[Found]:
        """The messages of a share, each once; messages settled since the share was made may be missing.  Raises JournalError."""
        done: set[int] = set()
        left = [share]
        while left:
            problem = ""
            each = left[-1]
            try:
                for found in self._survivors(each):
                    if isinstance(found, Loss):
                        problem = self._loss(found)
                        if problem:
                            break
                    elif found.survivor.record.message_id not in done:
                        done.add(found.survivor.record.message_id)
                        yield found
            except OSError as error:
                problem = f"{error.filename or 'a file'} cannot be read: {error.strerror or error}"
            if not problem:
                left.pop()
            elif self._patience.again(problem):
                left = _again(left, self.index(), done)
            else:
                raise JournalError(problem)

    def body(self, record: MessageRecord) -> int | None:
        """The open file with the body of a large message; None when the message is not there any more.  Raises JournalError."""
        path = join(self.folders.large_messages, f"{record.body_id}{BODY_SUFFIX}")
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            problem = f"the body of large message {record.message_id} cannot be read: {path}: {error.strerror}"
        else:
            size = os.fstat(descriptor).st_size
            if size >= record.body_size:
                return descriptor
            os.close(descriptor)
            problem = f"the body of large message {record.message_id} is cut off: {path} has {size} of {record.body_size} bytes"
        if self._skips:
            log.warning("%s; the message is left out", problem)
            return None
        if self._is_gone(record.message_id):
            return None
        raise JournalError(f"{problem}. With onDamage=skip such messages are left out; the table 'damage' lists them")

    def losses(self, share: SegmentShare | PageShare) -> Iterator[Loss]:
        """The unreadable places of pages and large bodies; those of segments are in the index."""
        for each in self._survivors(share):
            if isinstance(each, Loss):
                if isinstance(share, PageShare):
                    yield each
                continue
            record = each.survivor.record
            if record.body_id is None or not record.body_size:
                continue
            path = join(self.folders.large_messages, f"{record.body_id}{BODY_SUFFIX}")
            size = self.files.size(path) if self.files.exists(path) else 0
            if size < record.body_size:
                yield Loss(path, size, record.body_size - size, (record.message_id,), "the body of a large message is missing or cut off")

    def _survivors(self, share: SegmentShare | PageShare) -> Iterator[Found | Loss]:
        if isinstance(share, SegmentShare):
            for each in survivors_of(self.files, share):
                yield each if isinstance(each, Loss) else Found(each, share.file.path, share.file.sequence)
            return
        paging = self.folders.paging or ""
        path = page_path(paging, share.page.address or "", share.number)
        for each in survivors_of_page(self.files, paging, share):
            yield each if isinstance(each, Loss) else Found(each, path, share.number)

    def _is_gone(self, message_id: int) -> bool:
        """Was a message settled that was there before?"""
        index = self.index()
        if any(message_id in ids for share in index.segments for ids in (share.others, *share.plain.values())):
            return False
        return not any(
            not isinstance(each, Loss) and each.survivor.record.message_id == message_id
            for page in index.pages
            for each in self._survivors(page)
        )

    # --- records

    def records(self, file: SegmentFile) -> Iterator[tuple[int, int, Record]]:
        """(position, offset of the frame, record) of everything in a file; nothing when a broker has removed it.  Raises JournalError."""
        done = 0
        while True:
            problem = ""
            position = 0
            try:
                for each in records_of(self.files, file):
                    if isinstance(each, Loss):
                        problem = self._loss(each)
                        if problem:
                            break
                        continue
                    for record in _unpacked(each.record):
                        if position >= done:
                            yield position, each.offset, record
                        position += 1
                        done = max(done, position)
            except OSError as error:
                problem = f"{file.path} cannot be read: {error.strerror or error}"
            if not problem:
                return
            if not self._patience.again(problem):
                raise JournalError(problem)
            if not any(each.path == file.path for each in self.record_files()):
                return

    def _loss(self, loss: Loss) -> str:
        """The text about a loss; empty when losses are to be skipped."""
        problem = damage_text(loss)
        if self._skips:
            log.warning("left out: %s", problem)
            return ""
        return problem


def _unpacked(record: Record) -> Iterator[Record]:
    if isinstance(record, PageCompressed):
        yield from decode_records(memoryview(decompress(record.data, record.size)))
    else:
        yield record


def _again(left: list[SegmentShare | PageShare], index: Index, done: set[int]) -> list[SegmentShare | PageShare]:
    """The places where the messages of ``left`` that are not ``done`` are now."""
    pages = {share.number for share in left if isinstance(share, PageShare)}
    wanted: set[int] = set()
    for share in left:
        if isinstance(share, SegmentShare):
            wanted.update(share.others, *share.plain.values())
    wanted -= done
    found: list[SegmentShare | PageShare] = [share for share in index.pages if share.number in pages]
    for fresh in index.segments if wanted else ():
        plain = {queue_id: array("q", (each for each in ids if each in wanted)) for queue_id, ids in fresh.plain.items()}
        others = {message_id: details for message_id, details in fresh.others.items() if message_id in wanted}
        plain = {queue_id: ids for queue_id, ids in plain.items() if ids}
        if plain or others:
            found.append(SegmentShare(fresh.file, plain, others))
    return found
