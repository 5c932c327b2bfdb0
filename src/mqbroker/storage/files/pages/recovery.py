"""From what the journal says of pages to the pages of a running broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.storage.disk.filesystem import FileSystem, join
from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.files.journal.live import LiveIndex
from mqbroker.storage.files.journal.pages import Folder, Page, PageBody, PageQueue
from mqbroker.storage.files.journal.segments import Segment
from mqbroker.storage.files.largebodies import FileLargeBody, LargeBodies
from mqclient.storageformat.files import page_name
from mqclient.storageformat.frames import HEADER_SIZE, read_frames
from mqclient.storageformat.page_messages import read_page_header
from mqclient.storageformat.page_state import StoredPage, StoredPages

if TYPE_CHECKING:
    from mqbroker.storage.files.pages.pager import FilePager

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
            _log.warn("a page with {count} messages is lost: {error}", count=each.messages, error=error)
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
    page = Page(folder, read_page_header(file_system, join(folder.directory, page_name(number)), number, stored.end), recovered=True)
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


def open_bodies(stored: StoredPages, bodies: LargeBodies) -> dict[int, FileLargeBody]:
    """The bodies by id, each with the number of messages in pages that name it; nobody holds them."""
    entries = [body for page in stored.by_number.values() for body in page.bodies.values() if body.queue_ids]
    counts = Counter(body.record.body_id for body in entries)
    opened: dict[int, FileLargeBody] = {}
    for entry in entries:
        body_id = entry.record.body_id
        if body_id not in opened:
            opened[body_id] = bodies.recovered(body_id, entry.record.body_size, counts[body_id])
            opened[body_id].holders = 0
    return opened
