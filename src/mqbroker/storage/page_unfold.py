"""The pages of a broker that does not run, for programs that read or save what a folder holds: all of their messages, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.filesystem import FileSystem, join
from mqbroker.storage.page_reader import claimed_ids, is_durable, page_records
from mqbroker.storage.page_recovery import read_header
from mqbroker.storage.page_state import StoredPage
from mqbroker.storage.pages import folder_name, has_bit, page_name
from mqbroker.storage.replay import State, StoredMessage
from mqclient.storageformat.frames import HEADER_SIZE, StorageFormatError, decode_segment_header, find_frames, frame_at
from mqclient.storageformat.records import MessageRecord


@dataclass(frozen=True, slots=True)
class PageLoss:
    """A place in a page file that cannot be read: ``size`` bytes from ``offset``, with the ids that can be made out there."""

    file: str
    offset: int
    size: int
    message_ids: tuple[int, ...]
    reason: str


def unfold_pages(file_system: FileSystem, directory: str, state: State) -> list[PageLoss]:
    """Move what is left in pages to ``state.messages``.  Returns what could not be read."""
    losses: list[PageLoss] = []
    pages, state.pages.by_number = state.pages.by_number, {}
    for number, page in sorted(pages.items()):
        path = join(join(directory, folder_name(page.address or "")), page_name(number))
        for found in _records(file_system, path, number, page):
            if isinstance(found, PageLoss):
                losses.append(found)
                continue
            index, record = found
            references = {queue_id: _details(page, queue_id, index) for queue_id in record.queue_ids if _is_left(page, queue_id, index)}
            if references and is_durable(record):
                state.messages[record.message_id] = StoredMessage(0, record, references)
    return losses


def _is_left(page: StoredPage, queue_id: int, index: int) -> bool:
    queue = page.queues.get(queue_id)
    return queue is not None and queue.messages > queue.acknowledged and not has_bit(queue.bits, index)


def _details(page: StoredPage, queue_id: int, index: int) -> tuple[int, int]:
    count, time = page.queues[queue_id].details.get(index, (0, 0))
    return count, max(time, 0)


def _records(file_system: FileSystem, path: str, number: int, page: StoredPage) -> Iterator[tuple[int, MessageRecord] | PageLoss]:
    try:
        data = file_system.read(path)
        header = replace(decode_segment_header(data, lenient=True), sequence=number)
        read_header(file_system, path, number, 0)
    except JournalDamagedError as error:
        yield PageLoss(path, 0, HEADER_SIZE, (), error.reason)
    except (OSError, StorageFormatError) as error:
        yield PageLoss(path, 0, page.end, (), f"this page is needed and cannot be read: {error}")
        return
    at = HEADER_SIZE
    while at < page.end:
        frame = frame_at(memoryview(data), at, header.seed)
        if frame is None:
            # What stands beyond the end that the journal noted was never committed.
            frame = next((each for each in find_frames(data, header.seed, at + 1) if each.offset < page.end), None)
            end = page.end if frame is None else frame.offset
            yield PageLoss(path, at, end - at, tuple(claimed_ids(data, at, end)), "no valid frame in a page")
            if frame is None:
                return
        try:
            yield from page_records(frame.content)
        except StorageFormatError as error:
            ids = tuple(claimed_ids(data, frame.offset, frame.end))
            yield PageLoss(path, frame.offset, frame.end - frame.offset, ids, str(error))
        at = frame.end
