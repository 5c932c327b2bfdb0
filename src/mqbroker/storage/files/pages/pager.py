"""Paging in files: messages of full addresses wait in pages below ``paging-directory``, a folder per address.

The journal stays the one commit point.  A batch that pages messages puts them into its group; when the group is closed they become frames
of page files, and a page record in the group's own frame says how far each page counts.  One write syncs pages before the journal of
messages.  Bytes of a page beyond the last page record have no meaning, and a page that was found at the start is not written to again.

Acknowledgements of paged messages are records of the journal.  A page that nobody needs is recorded as gone; then its file is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mqbroker.messaging.event import Event
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Clock
from mqbroker.storage.disk.diskwriter import DiskWriter, Step
from mqbroker.storage.disk.filesystem import FileSystem, join
from mqbroker.storage.files.journal.batch import FileBatch, PageWork, message_head
from mqbroker.storage.files.journal.live import LiveIndex
from mqbroker.storage.files.journal.pages import Folder, Page, PageBody, PageQueue, PageWrite
from mqbroker.storage.files.pages.compression import compress
from mqbroker.storage.files.pages.disk import PageDisk
from mqbroker.storage.files.pages.reader import FilePageReader, PageFiles
from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.files import folder_name
from mqclient.storageformat.frames import FRAME_HEADER_SIZE, KIND_PAGE, SEGMENT_SIZE_MAX, SegmentHeader
from mqclient.storageformat.page_records import (
    encode_page_acknowledge,
    encode_page_compressed,
    encode_page_gone,
    encode_page_position,
)
from mqclient.storageformat.page_state import NOT_RECORDED, set_bits

if TYPE_CHECKING:
    from mqbroker.storage.files.journal.journal import Group, Journal
    from mqbroker.storage.files.journal.segments import Segment
    from mqbroker.storage.tickets import Condition

FRAME_CONTENT = 64 * 1024
"""Bytes of messages at which a frame of a page is closed."""
COMPRESS_MIN = 512
"""Bytes of messages below which a frame is not compressed: there would be nothing to gain."""


class PagedStore(Protocol):
    """The store that pages belong to, as far as they need it."""

    encoded_addresses: dict[str, bytes]

    conditions: list[Condition]

    def next_id(self) -> int: ...

    def ensure_ids(self, count: int) -> None:
        """The next ``count`` ids are there without a write."""

    def when_synced(self, ticket: int, function: Callable[..., object], *args: Any) -> None:
        """Call ``function`` once everything up to ``ticket`` is durable."""


class FileFolder(Folder):
    """A folder whose pages are files."""

    __slots__ = ("_pager",)

    def __init__(self, pager: FilePager, address: str, directory: str) -> None:
        super().__init__(address, directory)
        self._pager = pager

    def reader(self, queue_id: int) -> FilePageReader:
        return FilePageReader(self._pager.files, self, queue_id)

    def forget(self, queue_id: int) -> None:
        self._pager.forget_queue(self, queue_id)


class FilePager:
    """See :class:`mqbroker.messaging.ports.Pager`."""

    def __init__(
        self,
        store: PagedStore,
        file_system: FileSystem,
        settings: StoreSettings,
        writer: DiskWriter,
        clock: Clock,
        entropy: Callable[[int], bytes],
    ) -> None:
        self._store = store
        self.file_system = file_system
        self._directory = settings.paging_directory or ""
        self._disk = PageDisk(file_system, self._directory, settings.purge_page_folders, writer)
        self._clock = clock
        self._entropy = entropy
        self._compresses = settings.compress_pages
        self.files = PageFiles(file_system, self._damaged)
        self.backlog = 0
        self.drained: Event[()] = Event()
        self._folders: dict[str, FileFolder] = {}
        self._gone: list[Page] = []
        self._unreadable = 0
        """Writes that are on the disk and wait for other conditions (decision 30)."""
        self._dropped: list[int] = []
        self._node_id = b""
        self._journal: Journal
        self._index: LiveIndex

    def start(self, journal: Journal, index: LiveIndex, node_id: bytes) -> None:
        """The journals are ready."""
        self._journal = journal
        self._index = index
        self._node_id = node_id

    # The contract.

    def folder(self, address: str) -> FileFolder:
        folder = self._folders.get(address)
        if folder is None:
            folder = self._folders[address] = FileFolder(self, address, join(self._directory, folder_name(address)))
        return folder

    def folders(self) -> list[FileFolder]:
        return [folder for folder in self._folders.values() if folder.pages]

    # A batch.

    def prepare(self, work: PageWork, batch: FileBatch) -> None:
        """Put the records of a batch's acknowledgements into it, and see that there are ids for the pages that it may begin."""
        # Now: a block of ids that is asked for while the group is being filled could close it.
        self._store.ensure_ids(len(work.messages))
        for queue, first, indexes, messages, durable in (*work.settled, *work.passed):
            if durable or not messages:
                record = encode_page_acknowledge(queue.queue_id, queue.page.number, first, indexes, durable)
                batch.parts.append(record)
                batch.size += len(record)

    def apply(self, work: PageWork, group: Group | None) -> None:
        """A batch was committed, with its records in ``group``: None when it had nothing durable."""
        segment = None if group is None else group.segment
        for folder, message, queue_ids, durable_ids, page_size in work.messages:
            assert group is not None
            self._append(folder, message, queue_ids, durable_ids, page_size, group)
        for queue, index, count, scheduled in work.details:
            known_count, known_time = queue.details.get(index, (0, NOT_RECORDED))
            queue.details[index] = (known_count if count is None else count, known_time if scheduled is None else scheduled)
            self._keep_queue(queue, segment)
        for passage in work.reads:
            passage.go_on()
        for queue, first, indexes, messages, durable in work.settled:
            queue.taken -= messages
            queue.durable_taken -= durable
            self._settle(queue, first, indexes, messages, durable, segment)
        for queue, first, indexes, messages, durable in work.passed:
            self._settle(queue, first, indexes, messages, durable, segment)

    def _append(
        self,
        folder: FileFolder,
        message: Message,
        queue_ids: tuple[int, ...],
        durable_ids: tuple[int, ...],
        page_size: int,
        group: Group,
    ) -> None:
        head = message_head(message, queue_ids, self._store.encoded_addresses)
        size = len(head) + len(message.buffer)
        full = page = folder.current
        if page is None or (page.messages and page.appended + size > min(page_size, SEGMENT_SIZE_MAX)):
            page = self._next_page(folder)
        if group.pages is None:
            group.pages = {}
        write = group.pages.get(page)
        if write is None:
            write = group.pages[page] = PageWrite()
            page.writes += 1
        index = page.messages
        page.messages += 1
        page.appended += size
        folder.messages += 1
        self.backlog += size
        if not write.chunks or write.size + size > FRAME_CONTENT:
            write.chunks.append((index, []))
            write.size = 0
        write.chunks[-1][1].extend((head, message.buffer))
        write.size += size
        write.total += size
        for queue_id in queue_ids:
            queue = page.queues.get(queue_id)
            if queue is None:
                queue = page.queues[queue_id] = PageQueue(page, queue_id)
            durable = queue_id in durable_ids
            messages, durables = write.arrived.get(queue_id, (0, 0))
            write.arrived[queue_id] = (messages + 1, durables + durable)
            queue.recorded += durable
        if message.large is not None:
            self._append_body(page, index, message, queue_ids, durable_ids, group)
        if full is not None and full is not page:
            full.closed = True
            self._disk.leave(full)
            self._check(full)

    def _append_body(
        self, page: Page, index: int, message: Message, queue_ids: tuple[int, ...], durable_ids: tuple[int, ...], group: Group
    ) -> None:
        body = PageBody(page, index, message.large, set(queue_ids))  # type: ignore[arg-type]
        page.bodies[index] = body
        body.body.record_added()
        if durable_ids:
            group.bodies.append(body.body)
            record = body.record()
            group.parts.append(record)
            group.size += len(record)
            self._index.keep(body, group.segment, len(record))

    def _next_page(self, folder: FileFolder) -> Page:
        salt = int.from_bytes(self._entropy(8), "big")
        page = folder.current = Page(folder, SegmentHeader(KIND_PAGE, self._store.next_id(), self._node_id, salt, 0, 0, 0))
        folder.add(page)
        return page

    # A group of the journal.

    def seal(self, group: Group) -> None:
        """The group is closed: its page records, and the places of its frames."""
        for page, write in (group.pages or {}).items():
            for index, parts in write.chunks:
                content = [encode_page_position(index), *self._compressed(parts)]
                write.frames.append((page.end, content))
                page.end += FRAME_HEADER_SIZE + sum(map(len, content))
            write.chunks = []
            write.end, write.messages = page.end, page.messages
            record = page.record()
            group.parts.append(record)
            group.size += len(record)
            self._index.keep(page, group.segment, len(record))

    def _compressed(self, parts: list[bytes]) -> list[bytes]:
        if not self._compresses:
            return parts
        whole = b"".join(parts)
        if len(whole) < COMPRESS_MIN:
            return parts
        packed = encode_page_compressed(len(whole), compress(whole))
        return [packed] if len(packed) < len(whole) else parts

    @property
    def nothing_to_write(self) -> bool:
        """Is there nothing to do for pages but what groups of the journal have for them?"""
        return self._disk.idle

    def write_steps(self, groups: Iterable[Group], sync: bool) -> list[Step]:
        """The steps of the disk writer before the journal of messages may name the pages of these groups."""
        writes = [entry for group in groups for entry in (group.pages or {}).items()]
        return self._disk.write_steps(writes, sync)

    def written(self, groups: Sequence[Group], held: bool = False) -> None:
        """The ``groups`` are on the disk: their messages can be read as soon as every other condition holds (``held``) for them, too."""
        if held:
            self._unreadable -= 1
        elif len(self._store.conditions) > 1 or self._unreadable:
            self._unreadable += 1
            self._store.when_synced(groups[-1].ticket, self.written, groups, True)
            return
        backlog = self.backlog
        for group in groups:
            for page, write in (group.pages or {}).items():
                self._readable(page, write)
        if self.backlog < backlog:
            self.drained()

    def _readable(self, page: Page, write: PageWrite) -> None:
        self.backlog -= write.total
        page.writes -= 1
        page.readable_end, page.readable = write.end, write.messages
        listener = page.folder.listener
        for queue_id, (messages, durable) in write.arrived.items():
            queue = page.queues.get(queue_id)
            if queue is None:
                continue
            queue.messages += messages
            queue.durable_messages += durable
            if listener is not None:
                listener.arrived(queue_id, messages)
        self._check(page)

    # Queues, messages and pages that are done with.

    def forget_queue(self, folder: FileFolder, queue_id: int) -> None:
        """The queue is gone: nothing in the folder is kept for it."""
        for page in list(folder.pages.values()):
            queue = page.queues.pop(queue_id, None)
            if queue is None:
                continue
            self._index.drop(queue)
            for body in list(page.bodies.values()):
                self._body_settled(body, queue_id)
            self._check(page)

    def _settle(self, queue: PageQueue, first: int, indexes: int, messages: int, durable: int, segment: Segment | None) -> None:
        page = queue.page
        if page.gone or page.queues.get(queue.queue_id) is not queue:
            return
        set_bits(queue.bits, first, indexes)
        queue.acknowledged += messages
        queue.durable_acknowledged += durable
        if queue.details:
            queue.details = {index: detail for index, detail in queue.details.items() if not first <= index < first + indexes}
        if durable:
            self._keep_queue(queue, segment)
        if page.bodies:
            for index in [index for index in page.bodies if first <= index < first + indexes]:
                self._body_settled(page.bodies[index], queue.queue_id)
        if queue.acknowledged == queue.messages:
            self._check(page)

    def _body_settled(self, body: PageBody, queue_id: int) -> None:
        body.queue_ids.discard(queue_id)
        if not body.queue_ids:
            del body.page.bodies[body.index]
            self._index.drop(body)
            body.body.record_gone()

    def _keep_queue(self, queue: PageQueue, segment: Segment | None) -> None:
        """The journal says something of this queue's part of a page from ``segment`` on."""
        if queue.segment is None and segment is not None:
            self._index.keep(queue, segment, 32 + (queue.page.messages >> 3))

    def _check(self, page: Page) -> None:
        """Let the page go when nobody has anything left in it."""
        folder = page.folder
        if page.gone or not page.settled or not (page.closed or len(folder.pages) == 1):
            return
        page.gone = page.closed = True
        folder.remove(page)
        folder.messages -= page.messages
        if folder.current is page:
            folder.current = None
        for body in list(page.bodies.values()):
            body.queue_ids.clear()
            self._body_settled(body, 0)
        self.files.forget(page)
        if not self._gone:
            self._clock.call_later(0, self._record_gone)
        self._gone.append(page)
        if not folder.pages:
            if folder.listener is not None:
                folder.listener.emptied()
        elif folder.current is not None:
            self._check(folder.current)

    def _record_gone(self) -> None:
        """Only once a page is recorded as gone may the journal let go what else it says of it."""
        gone, self._gone = self._gone, []
        if self._journal.closed:
            return
        group = self._journal.commit([encode_page_gone(page.number) for page in gone], [])
        for page in gone:
            for kept in (page, *page.queues.values()):
                self._index.drop(kept)
        self._store.when_synced(group.ticket, self._remove, gone)

    def _remove(self, pages: list[Page]) -> None:
        self._disk.remove(pages)

    # The start and the end.

    def adopt(self, page: Page) -> None:
        """A page that was found at the start, in ascending order."""
        page.folder.add(page)
        page.folder.messages += page.messages
        page.folder.begun = True

    def drop_at_start(self, number: int) -> None:
        """A page that was found at the start, and that nobody needs."""
        self._dropped.append(number)

    def gone_records(self) -> list[bytes]:
        """Records for pages that nobody needs, to be written before anything else that the journal says of them may go."""
        dropped, self._dropped = self._dropped, []
        return [encode_page_gone(number) for number in dropped]

    def remove_orphans(self, below: int | None) -> None:
        """Remove pages ``below`` a number (None = all) that the journal does not name, which a crash has left.  Blocks: for the start."""
        self._disk.remove_orphans({page.path for page in self._pages()}, below)

    def close_files(self) -> None:
        """Close what is open; a step of the disk writer."""
        self._disk.close([*self._pages(), *self._gone])

    def _pages(self) -> Iterator[Page]:
        for folder in self._folders.values():
            yield from folder.pages.values()

    def _damaged(self, error: Exception) -> None:
        """End here, which loses nothing: messages that are not read are not settled."""
        self._journal.fail(error)
