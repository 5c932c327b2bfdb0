"""The surviving messages of a store's folders, for programs that only read them: first an index, then the messages file by file.

The index holds no content.  For a plain message the index keeps the id and, shared with all others of its queue and segment, the place: a
few dozen bytes, where the broker needs an object and the message.  The rules are the broker's own: ``replay``, ``replay_plain`` and
``page_messages`` decide, here as there.

This module neither locks nor writes.  While a broker works on the folders, segments and pages come and go between two reads: then a file is
missing (OSError) or does not fit the earlier reads (:class:`JournalDamagedError`, :class:`Loss`), and the caller begins anew with a fresh
index.
"""

from __future__ import annotations

import errno
import struct
from array import array
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Final

from mqclient.storageformat.errors import Loss
from mqclient.storageformat.files import Files
from mqclient.storageformat.frames import HEADER_SIZE, KIND_MESSAGES, StorageFormatError, decode_segment_header
from mqclient.storageformat.images import LogImage, find_images
from mqclient.storageformat.page_messages import surviving_in_page
from mqclient.storageformat.page_state import StoredPage
from mqclient.storageformat.records import ACKNOWLEDGE, ACKNOWLEDGED, FLAG_MOVED, MESSAGE, SINGLE_REFERENCE, MessageRecord
from mqclient.storageformat.replay import References, State, StoredBinding, StoredBranch, StoredMessage
from mqclient.storageformat.replay_plain import replay_plain
from mqclient.storageformat.salvage import JournalRecord, SegmentFile, salvage_journals, segment_files, segment_records

_HEAD_SIZE: Final = SINGLE_REFERENCE.size
_unpack_head = SINGLE_REFERENCE.unpack_from
_unpack_acknowledged = ACKNOWLEDGED.unpack_from
_unpack_i64 = struct.Struct(">q").unpack_from


@dataclass(frozen=True, slots=True)
class StoreFolders:
    """The four folders of a store; ``paging`` may be None, as in :class:`mqbroker.storage.settings.StoreSettings`."""

    journal: str
    bindings: str
    large_messages: str
    paging: str | None


@dataclass(frozen=True, slots=True)
class Details:
    """The entry of the index for a message that is not plain."""

    references: References
    branch_id: int
    """The prepared branch with which it counts, 0 = it counts."""


@dataclass(slots=True)
class SegmentShare:
    """The messages that survive in one segment file."""

    file: SegmentFile
    plain: dict[int, array[int]] = field(default_factory=dict)
    """Ids by queue id, ascending."""
    others: dict[int, Details] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageShare:
    """A page file with surviving messages, and the journal's records about it."""

    number: int
    page: StoredPage


@dataclass(slots=True)
class Index:
    """The surviving messages by file.  ``losses`` are places of the journals that cannot be read, for :func:`salvaged_index` only.

    ``segments`` and ``pages`` together have each message once; ``node_id`` is raw, None for empty folders.
    """

    node_id: bytes | None
    segments: list[SegmentShare]
    pages: list[PageShare]
    branches: dict[int, StoredBranch]
    bindings: dict[tuple[object, ...], StoredBinding]
    losses: list[Loss] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Survivor:
    """A message: where its frame begins, its record with all content, and its references (a queue id where that says it all)."""

    offset: int
    record: MessageRecord
    references: int | References
    branch_id: int = 0
    index: int | None = None
    """Its place in a page, None for a message of the journal."""


class PlainPlaces:
    """The places of plain messages (see :class:`mqclient.storageformat.replay_plain.Plain`): (sequence, queue id) by message id."""

    __slots__ = ("highest", "messages")

    def __init__(self) -> None:
        self.messages: dict[int, tuple[int, int]] = {}
        self.highest = 0

    def take(self, content: bytes, at: int, sequence: int, others: Container[int]) -> int:
        messages = self.messages
        size = len(content)
        places: dict[int, tuple[int, int]] = {}
        highest = self.highest
        while at < size:
            kind = content[at]
            if kind == MESSAGE and at + _HEAD_SIZE <= size:
                _, flags, headers, length, count, queue_id = _unpack_head(content, at)
                start = at + _HEAD_SIZE
                end = start + length
                if count != 1 or end > size or headers + 8 > length or (flags and flags != FLAG_MOVED):
                    break
                message_id: int = _unpack_i64(content, start + headers)[0]
                if message_id in others or (message_id in messages and not flags):
                    break
                place = places.get(queue_id)
                if place is None:
                    place = places[queue_id] = (sequence, queue_id)
                messages[message_id] = place
                if message_id > highest:
                    highest = message_id
                at = end
            elif kind == ACKNOWLEDGE and at + ACKNOWLEDGED.size <= size:
                _, queue_id, message_id = _unpack_acknowledged(content, at)
                acknowledged = messages.get(message_id)
                if acknowledged is not None:
                    if acknowledged[1] == queue_id:
                        del messages[message_id]
                elif message_id in others:
                    break
                at += ACKNOWLEDGED.size
            else:
                break
        self.highest = highest
        return at

    def take_out(self, message_id: int) -> StoredMessage | None:
        place = self.messages.pop(message_id, None)
        if place is None:
            return None
        sequence, queue_id = place
        return StoredMessage(sequence, MessageRecord(message_id, 0, (queue_id,), b"", None, None, 0, False), queue_id)

    def drop_unrouted(self, queue_ids: Container[object]) -> None:
        gone = [number for number, place in self.messages.items() if place[1] not in queue_ids]
        for number in gone:
            del self.messages[number]


def index_of(files: Files, folders: StoreFolders) -> Index:
    """The messages that a start of the broker would recover.

    Raises :class:`mqclient.storageformat.errors.JournalDamagedError` and OSError, of folders in use also where a broker has just
    changed something.
    """
    images = find_images(files, folders.journal, folders.bindings)
    plain = PlainPlaces()
    state = replay_plain(images, plain, buffers=False)
    segments = _shares(image_files(images.messages, KIND_MESSAGES), plain, state)
    return Index(images.messages.node_id or images.bindings.node_id, segments, _pages(state), state.branches, state.bindings)


def salvaged_index(files: Files, folders: StoreFolders) -> Index:
    """As :func:`index_of`, for all readable records of damaged folders, as the broker's recovery reads them; ``losses`` names the rest.

    Takes the memory of an object per record.
    """
    found = salvage_journals(files, folders.journal, folders.bindings, buffers=False)
    state = found.state
    state.drop_unrouted()
    state.drop_unprepared()
    segments = segment_files(files, folders.journal, KIND_MESSAGES)
    node_id = next((raw for each in reversed(segments) if (raw := _node_id(files, each)) is not None), None)
    return Index(node_id, _shares(segments, PlainPlaces(), state), _pages(state), state.branches, state.bindings, found.losses)


def image_files(image: LogImage, kind: int) -> list[SegmentFile]:
    """The segments that count, oldest first."""
    return [SegmentFile(each.path, kind, each.header.sequence, each.end) for each in image.segments]


def records_of(files: Files, segment: SegmentFile) -> Iterator[JournalRecord | Loss]:
    """All records in one segment file, and the places that cannot be read.  Raises OSError, also when the file is another one by now."""
    data = files.read(segment.path)
    try:
        header = decode_segment_header(data)
    except StorageFormatError:
        pass
    else:
        if (header.sequence, header.kind) != (segment.sequence, segment.kind):
            raise OSError(errno.ESTALE, "the file has become another segment", segment.path)
    yield from segment_records(_Held(files, segment.path, data), segment)


def survivors_of(files: Files, share: SegmentShare) -> Iterator[Survivor | Loss]:
    """The messages of a segment file with their content, and the places that cannot be read.  Raises OSError as :func:`records_of`."""
    queue_of = {message_id: queue_id for queue_id, ids in share.plain.items() for message_id in ids}
    others = dict(share.others)
    for each in records_of(files, share.file):
        if isinstance(each, Loss):
            yield each
            continue
        record = each.record
        if not isinstance(record, MessageRecord):
            continue
        queue_id = queue_of.pop(record.message_id, None)
        if queue_id is not None:
            yield Survivor(each.offset, record, queue_id)
        elif record.message_id in others:
            details = others.pop(record.message_id)
            yield Survivor(each.offset, record, details.references, details.branch_id)


def survivors_of_page(files: Files, directory: str, share: PageShare) -> Iterator[Survivor | Loss]:
    """The messages of a page with their content, and the places that cannot be read.  ``directory`` is the folder of all pages."""
    for each in surviving_in_page(files, directory, share.number, share.page):
        yield each if isinstance(each, Loss) else Survivor(each.offset, each.record, each.references, 0, each.index)


class _Held:
    """A file system in which one file has the contents that were read before."""

    def __init__(self, files: Files, path: str, data: bytes) -> None:
        self._files = files
        self._path = path
        self._data = data

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        if path != self._path:
            return self._files.read(path, offset, size)
        return self._data if not offset and size < 0 else self._data[offset:] if size < 0 else self._data[offset : offset + size]

    def size(self, path: str) -> int:
        return len(self._data) if path == self._path else self._files.size(path)

    def list(self, directory: str) -> list[str]:
        return self._files.list(directory)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)


def _shares(segments: list[SegmentFile], plain: PlainPlaces, state: State) -> list[SegmentShare]:
    """The segments in which a message survives."""
    shares = {each.sequence: SegmentShare(each) for each in segments}
    for message_id, (sequence, queue_id) in plain.messages.items():
        found = shares[sequence].plain
        ids = found.get(queue_id)
        if ids is None:
            ids = found[queue_id] = array("q")
        ids.append(message_id)
    for message_id, stored in state.messages.items():
        share = shares[stored.sequence]
        references = stored.references
        if isinstance(references, int):
            if not stored.record.branch_id:
                share.plain.setdefault(references, array("q")).append(message_id)
                continue
            references = {references: (0, 0)}
        share.others[message_id] = Details(references, stored.record.branch_id)
    for share in shares.values():
        share.plain = {queue_id: array("q", sorted(ids)) for queue_id, ids in share.plain.items()}
    return [share for share in shares.values() if share.plain or share.others]


def _pages(state: State) -> list[PageShare]:
    return [PageShare(number, page) for number, page in sorted(state.pages.by_number.items())]


def _node_id(files: Files, segment: SegmentFile) -> bytes | None:
    try:
        return decode_segment_header(files.read(segment.path, 0, HEADER_SIZE)).node_id
    except (OSError, StorageFormatError):
        return None
