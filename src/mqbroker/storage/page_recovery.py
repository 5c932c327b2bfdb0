"""From what the journal says of pages to the pages of a running broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.filesystem import FileSystem, join
from mqbroker.storage.largebodies import FileLargeBody
from mqbroker.storage.live import LiveIndex
from mqbroker.storage.page_state import StoredPage, StoredPages
from mqbroker.storage.pages import Folder, Page, PageBody, PageQueue, page_name
from mqbroker.storage.segments import Segment
from mqclient.storageformat.frames import HEADER_SIZE, KIND_PAGE, SegmentHeader, StorageFormatError, decode_segment_header, read_frames

if TYPE_CHECKING:
    from mqbroker.storage.pager import FilePager

_log = Logger()


def adopt_pages(
    pager: FilePager,
    stored: StoredPages,
    bodies: dict[int, FileLargeBody],
    segments: Mapping[int, Segment],
    index: LiveIndex,
    synced: bool,
) -> None:
    """Make the pages that the journal names those of ``pager``.

    Raises :class:`JournalDamagedError` when one is missing or too short.  Pages that were not ``synced`` (``journal-datasync`` false) may
    be lost with the machine: then each is read, and one that is not whole is left out, with a warning.
    """
    for number in stored.unneeded:
        pager.drop_at_start(number)
    for number, each in sorted(stored.by_number.items()):
        folder = pager.folder(each.address or "")
        try:
            page = make_page(pager.file_system, folder, number, each)
            if not synced:
                check_frames(pager.file_system, page)
        except JournalDamagedError as error:
            if synced:
                raise
            _log.warn("a page is lost with {count} messages: {error}", count=each.messages, error=error)
            pager.drop_at_start(number)
            continue
        index.keep(page, segments[each.sequence], len(page.record()))
        for queue_id, queue in each.queues.items():
            part = page.queues[queue_id]
            if queue.sequence is not None:
                index.keep(part, segments[queue.sequence], 32 + len(queue.bits))
        for at, body in each.bodies.items():
            if body.queue_ids:
                entry = page.bodies[at] = PageBody(page, at, bodies[body.record.body_id], body.queue_ids)
                index.keep(entry, segments[body.sequence], len(entry.record()))
        pager.adopt(page)


def make_page(file_system: FileSystem, folder: Folder, number: int, stored: StoredPage) -> Page:
    """The page as the journal says, with the header of its file.  Raises :class:`JournalDamagedError`."""
    page = Page(folder, read_header(file_system, join(folder.directory, page_name(number)), number, stored.end), recovered=True)
    page.messages = page.readable = stored.messages
    page.appended = page.end = page.readable_end = stored.end
    for queue_id, queue in stored.queues.items():
        part = page.queues[queue_id] = PageQueue(page, queue_id)
        part.messages = part.durable_messages = part.recorded = queue.messages
        part.acknowledged = part.durable_acknowledged = queue.acknowledged
        part.bits = queue.bits
        part.details = queue.details
    return page


def check_frames(file_system: FileSystem, page: Page) -> None:
    """Is the page whole?  Raises :class:`JournalDamagedError` if not."""
    end = HEADER_SIZE
    for frame in read_frames(memoryview(file_system.read(page.path)), page.seed, HEADER_SIZE, page.end):
        end = frame.end
    if end != page.end:
        raise JournalDamagedError(page.path, end, (), "no valid frame")


def read_header(file_system: FileSystem, path: str, number: int, end: int) -> SegmentHeader:
    """The header of a page file that has at least ``end`` bytes.  Raises :class:`JournalDamagedError`."""
    try:
        size = file_system.size(path)
        header = decode_segment_header(file_system.read(path, 0, HEADER_SIZE))
    except (OSError, StorageFormatError) as error:
        raise JournalDamagedError(path, 0, (), f"this page is needed and cannot be read: {error}") from error
    if header.sequence != number or header.kind != KIND_PAGE:
        raise JournalDamagedError(path, 0, (), f"this is page {header.sequence} under another name")
    if size < end:
        raise JournalDamagedError(path, size, (), f"the page ends here, although it was written up to {end}")
    return header
