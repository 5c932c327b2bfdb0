"""The messages in page files, and which of them are left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mqclient.errors import MalformedPacketError
from mqclient.storageformat.errors import JournalDamagedError, Loss
from mqclient.storageformat.files import Files, page_path, read_beyond_errors
from mqclient.storageformat.frames import (
    HEADER_SIZE,
    KIND_PAGE,
    SegmentHeader,
    StorageFormatError,
    claimed_contents,
    decode_segment_header,
    find_frames,
    frame_at,
)
from mqclient.storageformat.page_records import PageCompressed, PagePosition
from mqclient.storageformat.page_state import NOT_RECORDED, StoredPage, has_bit
from mqclient.storageformat.records import MessageRecord, decode_records
from mqclient.storageformat.replay import References, State, StoredMessage
from mqclient.wire.message import scan_headers, scheduled_time

CONTENT_MAX = 1 << 30
"""Bytes that a compressed record of a page may claim to unpack to."""


def page_records(content: memoryview) -> Iterator[tuple[int, MessageRecord]]:
    """The messages of a page's frame with their index.  Raises :class:`StorageFormatError`."""
    index = 0
    for record in decode_records(content):
        if isinstance(record, PagePosition):
            index = record.index
        elif isinstance(record, PageCompressed):
            for inner in decode_records(memoryview(decompress(record.data, record.size))):
                if not isinstance(inner, MessageRecord):
                    raise StorageFormatError(f"{type(inner).__name__} in a page")
                yield index, inner
                index += 1
        elif isinstance(record, MessageRecord):
            yield index, record
            index += 1
        else:
            raise StorageFormatError(f"{type(record).__name__} in a page")


def is_durable(record: MessageRecord) -> bool:
    return scan_headers(record.buffer, record.headers).durable


def claimed_ids(data: bytes, start: int, end: int) -> list[int]:
    """The ids of the durable messages that a damaged place of a page still seems to hold."""
    ids: list[int] = []
    for content in claimed_contents(data, start, end):
        try:
            for _, record in page_records(content):
                if _may_be_durable(record):
                    ids.append(record.message_id)
        except StorageFormatError:
            pass
    return ids


def _may_be_durable(record: MessageRecord) -> bool:
    try:
        return is_durable(record)
    except MalformedPacketError:
        return True


def decompress(data: bytes, size: int) -> bytes:
    """The ``size`` bytes that were compressed to ``data``.  Raises :class:`StorageFormatError`."""
    import lz4.block

    if size > CONTENT_MAX:
        raise StorageFormatError(f"compressed content of {size} bytes")
    try:
        content = bytes(lz4.block.decompress(data, uncompressed_size=size))
    except (lz4.block.LZ4BlockError, ValueError, OverflowError, MemoryError) as error:
        raise StorageFormatError(f"compressed content cannot be read: {error}") from error
    if len(content) != size:
        raise StorageFormatError(f"compressed content has {len(content)} bytes instead of {size}")
    return content


def read_page_header(files: Files, path: str, number: int, end: int) -> SegmentHeader:
    """The header of a page file that has at least ``end`` bytes.  Raises :class:`JournalDamagedError`."""
    try:
        size = files.size(path)
        header = decode_segment_header(files.read(path, 0, HEADER_SIZE))
    except (OSError, StorageFormatError) as error:
        raise JournalDamagedError(path, 0, (), f"this page is needed and cannot be read: {error}") from error
    if header.sequence != number or header.kind != KIND_PAGE:
        raise JournalDamagedError(path, 0, (), f"this is page {header.sequence} under another name")
    if size < end:
        raise JournalDamagedError(path, size, (), f"the page ends here, although it was written up to {end}")
    return header


@dataclass(frozen=True, slots=True)
class PagedMessage:
    """A message of a page: where its frame begins, its index, its record, and its references that are left."""

    offset: int
    index: int
    record: MessageRecord
    references: References


def surviving_in_page(files: Files, directory: str, number: int, page: StoredPage) -> Iterator[PagedMessage | Loss]:
    """The messages that are left of a page, and the places that cannot be read.  ``directory`` is the folder of all pages."""
    for found in _records(files, page_path(directory, page.address or "", number), number, page):
        if isinstance(found, Loss):
            yield found
            continue
        offset, index, record = found
        references = {queue_id: _details(page, queue_id, index, record) for queue_id in record.queue_ids if _is_left(page, queue_id, index)}
        if references and is_durable(record):
            yield PagedMessage(offset, index, record, references)


def unfold_pages(files: Files, directory: str, state: State) -> list[Loss]:
    """Move the messages that are left in pages to ``state.messages``.  Returns the places that could not be read."""
    losses: list[Loss] = []
    pages, state.pages.by_number = state.pages.by_number, {}
    for number, page in sorted(pages.items()):
        for found in surviving_in_page(files, directory, number, page):
            if isinstance(found, Loss):
                losses.append(found)
            else:
                state.messages[found.record.message_id] = StoredMessage(0, found.record, found.references)
    return losses


def _is_left(page: StoredPage, queue_id: int, index: int) -> bool:
    queue = page.queues.get(queue_id)
    return queue is not None and queue.messages > queue.acknowledged and not has_bit(queue.bits, index)


def _details(page: StoredPage, queue_id: int, index: int, record: MessageRecord) -> tuple[int, int]:
    """Delivery count and schedule; what the message itself says, where the store was never told of a schedule."""
    count, time = page.queues[queue_id].details.get(index, (0, NOT_RECORDED))
    if time == NOT_RECORDED:
        time = scheduled_time(record.buffer, scan_headers(record.buffer, record.headers).properties)
    return count, time


def _records(files: Files, path: str, number: int, page: StoredPage) -> Iterator[tuple[int, int, MessageRecord] | Loss]:
    try:
        data = read_beyond_errors(files, path)
        header = replace(decode_segment_header(data, lenient=True), sequence=number)
        read_page_header(files, path, number, 0)
    except JournalDamagedError as error:
        yield Loss(path, 0, HEADER_SIZE, (), error.reason)
    except (OSError, StorageFormatError) as error:
        yield Loss(path, 0, page.end, (), f"this page is needed and cannot be read: {error}")
        return
    at = HEADER_SIZE
    while at < page.end:
        frame = frame_at(memoryview(data), at, header.seed)
        if frame is None:
            # Bytes beyond the end that the journal noted were never committed.
            frame = next((each for each in find_frames(data, header.seed, at + 1) if each.offset < page.end), None)
            end = page.end if frame is None else frame.offset
            yield Loss(path, at, end - at, tuple(claimed_ids(data, at, end)), "no valid frame in a page")
            if frame is None:
                return
        try:
            for index, record in page_records(frame.content):
                yield frame.offset, index, record
        except StorageFormatError as error:
            ids = tuple(claimed_ids(data, frame.offset, frame.end))
            yield Loss(path, frame.offset, frame.end - frame.offset, ids, str(error))
        at = frame.end
