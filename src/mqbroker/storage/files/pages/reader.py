"""Reading pages: bounded pieces of a page file, and a queue's place in the pages of an address."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TYPE_CHECKING

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import PagedMessage, PagePlace, PageReader
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.errors import JournalDamagedError
from mqbroker.storage.files.journal.pages import Passage
from mqbroker.storage.files.pages.scan import FilePageScan, ScannedPiece, scan_piece, scan_until
from mqbroker.storage.files.restore import address_of
from mqclient.storageformat.frames import FRAME_HEADER_SIZE, HEADER_SIZE, StorageFormatError, frame_at, frame_end
from mqclient.storageformat.page_messages import claimed_ids, page_records
from mqclient.storageformat.page_records import unpacked_size
from mqclient.storageformat.page_state import has_bit, set_bits
from mqclient.storageformat.records import MessageRecord

if TYPE_CHECKING:
    from mqbroker.storage.files.journal.pages import Folder, Page, PageQueue

PIECE_SIZE = 64 * 1024
"""Bytes of a page file that are read at a time, and of messages when they are unpacked; a frame that is larger is read as a whole."""

CACHED_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of pieces of pages that are kept for the other queues of an address, over all addresses."""

Entry = tuple[int, tuple[int, ...], Message]
"""Index, queue ids, message."""
Piece = tuple[list[Entry], int, int]
"""Entries, the offset that follows, size."""


class PageFiles:
    """Reads pieces of page files, and keeps the last ones.

    ``on_damage`` hears of a piece that cannot be read; whoever wanted it gets nothing.
    """

    def __init__(self, file_system: FileSystem, on_damage: Callable[[Exception], object]) -> None:
        self._file_system = file_system
        self._on_damage = on_damage
        self._cache: OrderedDict[tuple[int, int], Piece] = OrderedDict()
        self._cached = 0
        self._scanned: OrderedDict[tuple[int, int], ScannedPiece] = OrderedDict()
        self._addresses: dict[bytes, str] = {}

    def piece(self, page: Page, offset: int) -> Piece | None:
        """The piece that begins at ``offset``, which is before the readable end; None when it cannot be read."""
        key = (page.number, offset)
        found = self._cache.get(key)
        if found is not None:
            self._cache.move_to_end(key)
            return found
        try:
            piece = self._read(page, offset)
        except JournalDamagedError as error:
            self._on_damage(error)
            return None
        except (OSError, StorageFormatError) as error:
            self._on_damage(JournalDamagedError(page.path, offset, (), f"a page cannot be read: {error}"))
            return None
        if piece[2] <= CACHED_BYTES_MAX // 4:
            self._cache[key] = piece
            self._cached += piece[2]
            while self._cached > CACHED_BYTES_MAX:
                self._cached -= self._cache.popitem(last=False)[1][2]
        return piece

    def forget(self, page: Page) -> None:
        """The page is gone."""
        for key in [key for key in self._cache if key[0] == page.number]:
            self._cached -= self._cache.pop(key)[2]
        for key in [key for key in self._scanned if key[0] == page.number]:
            del self._scanned[key]

    def _read(self, page: Page, offset: int) -> Piece:
        contents, end, size = self.contents(page, offset)
        entries: list[Entry] = []
        for content in contents:
            for index, record in page_records(content):
                entry = self._entry(page, index, record)
                if entry is not None:
                    entries.append(entry)
        return entries, end, size

    def contents(self, page: Page, offset: int) -> tuple[list[memoryview], int, int]:
        """The contents of the frames that begin at ``offset``, the offset that follows, and the bytes that they are when unpacked.

        Raises JournalDamagedError, OSError, StorageFormatError.
        """
        limit = page.readable_end - offset
        data = self._file_system.read(page.path, offset, min(PIECE_SIZE, limit))
        length = frame_end(data)
        if len(data) < length <= limit:
            data = self._file_system.read(page.path, offset, length)
        view = memoryview(data)
        contents: list[memoryview] = []
        at = size = 0
        while at < len(data) and size < PIECE_SIZE:
            frame = frame_at(view, at, page.seed, offset)
            if frame is None:
                if (at and at + FRAME_HEADER_SIZE > len(data)) or (at and at + frame_end(view[at : at + FRAME_HEADER_SIZE]) > len(data)):
                    break
                end = min(at + max(frame_end(view[at : at + FRAME_HEADER_SIZE]), 1), len(data))
                ids = claimed_ids(data, at, end)
                raise JournalDamagedError(page.path, offset + at, ids, "a page cannot be read: no valid frame")
            contents.append(frame.content)
            size += unpacked_size(frame.content)
            at = frame.end
        return contents, offset + at, size

    def scanned(self, page: Page, offset: int) -> ScannedPiece | None:
        """As :meth:`piece`, without a message for each entry."""
        key = (page.number, offset)
        found = self._scanned.get(key)
        if found is not None:
            self._scanned.move_to_end(key)
            return found
        try:
            contents, end, size = self.contents(page, offset)
            piece = scan_piece(contents, end)
        except JournalDamagedError as error:
            self._on_damage(error)
            return None
        except (OSError, StorageFormatError) as error:
            self._on_damage(JournalDamagedError(page.path, offset, (), f"a page cannot be read: {error}"))
            return None
        if size <= CACHED_BYTES_MAX // 4:
            self._scanned[key] = piece
            if len(self._scanned) > CACHED_BYTES_MAX // PIECE_SIZE:
                self._scanned.popitem(last=False)
        return piece

    def _entry(self, page: Page, index: int, record: MessageRecord) -> Entry | None:
        body = None
        if record.body_id is not None:
            kept = page.bodies.get(index)
            if kept is None:
                return None
            body = kept.body
        if len(self._addresses) > 10_000:
            self._addresses.clear()
        message = Message.read(record.buffer, record.headers, address_of(record, self._addresses), body)
        if page.recovered and not message.durable:
            return None
        message.store_state = PagePlace(page, index)
        return index, record.queue_ids, message


class FilePageReader:
    """See :class:`mqbroker.messaging.ports.PageReader`."""

    __slots__ = ("_files", "_folder", "_greatest", "_looks", "_page", "_queue_id", "offset", "position")

    def __init__(self, files: PageFiles, folder: Folder, queue_id: int, looks: bool = False) -> None:
        self._files = files
        self._folder = folder
        self._queue_id = queue_id
        self._looks = looks
        self._page: Page | None = None
        self.offset = HEADER_SIZE
        self.position = 0
        """Index of the first message that was not read, in the page where the reader stands."""
        self._greatest = 0
        """The greatest message id before that place, as far as :meth:`unread_until` has passed messages."""

    def read(self) -> list[PagedMessage] | None:
        queue = self._find()
        if queue is None or self._page is None:
            return None
        page = self._page
        piece = self._files.piece(page, self.offset)
        if piece is None:
            return None
        entries, self.offset, _ = piece
        messages: list[PagedMessage] = []
        for index, queue_ids, message in entries:
            self.position = index + 1
            if self._queue_id not in queue_ids or has_bit(queue.bits, index) or (queue.early and has_bit(queue.early, index)):
                continue
            count, scheduled = queue.details.get(index, (0, -1))
            if not self._looks:
                _take(queue, message)
            messages.append(PagedMessage(message, count, None if scheduled < 0 else scheduled))
        return messages

    def look(self, other: PageReader | None = None) -> FilePageReader:
        if isinstance(other, FilePageReader) and other._place() >= self._place():
            return other
        reader = FilePageReader(self._files, self._folder, self._queue_id, looks=True)
        reader._stand_at(self)
        return reader

    def scan(self) -> FilePageScan:
        return FilePageScan(self._files, self._folder, self._queue_id, self._page, self.offset, self._greatest)

    def unread_until(self, key: int) -> tuple[Passage, bool]:
        """As :meth:`unread` for what a scan gives up to ``key``, and for one page; also whether there is more."""
        queue = self._find()
        end = None if queue is None else scan_until(self._files, queue, self.offset, self.position, key, self._greatest)
        if queue is None or end is None:
            return Passage([], 0, [], _nothing), False
        entries = [self._scheduled(queue, piece, at) for piece, at in end.scheduled]
        taken = [entry for entry in entries if entry is not None]
        early = {entry.message.store_state.index for entry in taken if isinstance(entry.message.store_state, PagePlace)}
        found = list(_ranges(queue, self.position, end.first, end.messages, end.durable, early)) if end.messages else []

        def go_on() -> None:
            for entry in taken:
                self.take(entry.message)
            self.offset, self.position = end.offset, end.first
            self._greatest = max(self._greatest, end.greatest)

        return Passage(found, end.messages, taken, go_on), end.more

    @staticmethod
    def _scheduled(queue: PageQueue, piece: ScannedPiece, at: int) -> PagedMessage | None:
        page, index = queue.page, piece.indexes[at]
        kept = page.bodies.get(index)
        if at in piece.large and kept is None:
            return None
        message = Message.read(piece.buffers[at], piece.headers[at], large=None if kept is None else kept.body)
        message.store_state = PagePlace(page, index)
        count, time_ms = queue.details.get(index, (0, -1))
        return PagedMessage(message, count, None if time_ms < 0 else time_ms)

    def take(self, message: Message) -> None:
        place = message.store_state
        assert isinstance(place, PagePlace)
        queue = place.page.queues[self._queue_id]
        set_bits(queue.early, place.index)
        _take(queue, message)

    def passed(self, place: PagePlace) -> bool:
        page: Page = place.page
        if page.folder is not self._folder:
            return False
        own = self._page
        if own is not None and (page.number < own.number or (page is own and place.index < self.position)):
            return True
        queue = None if self._looks else page.queues.get(self._queue_id)
        return queue is not None and has_bit(queue.early, place.index)

    def unread(self) -> Passage:
        """The messages that can be read and were not; the reader would stand at the end afterwards."""
        ahead = FilePageReader(self._files, self._folder, self._queue_id)
        ahead._stand_at(self)
        ranges: list[tuple[PageQueue, int, int, int, int]] = []
        while (queue := ahead._find()) is not None:
            page = queue.page
            # All of the messages are counted with the first range: only the sum has a meaning.
            ranges += _ranges(queue, ahead.position, page.readable, queue.remaining, queue.durable_remaining)
            ahead.offset, ahead.position = page.readable_end, page.readable
        return Passage(ranges, sum(messages for _, _, _, messages, _ in ranges), [], partial(self._stand_at, ahead))

    def _stand_at(self, other: FilePageReader) -> None:
        self._page, self.offset, self.position = other._page, other.offset, other.position

    def _place(self) -> tuple[int, int]:
        return (0 if self._page is None else self._page.number), self.offset

    def _find(self) -> PageQueue | None:
        """Go on to the next place where the queue may have something to read; None at the end."""
        page = self._page or self._folder.first()
        while page is not None:
            if page is not self._page:
                self._page, self.offset, self.position = page, HEADER_SIZE, 0
            queue = page.queues.get(self._queue_id)
            if queue is not None and not page.gone and self.offset < page.readable_end and queue.remaining > 0:
                return queue
            following = self._folder.after(page.number)
            if following is None or page.writes:
                return None
            page = following
        return None


def _ranges(
    queue: PageQueue, first: int, end: int, messages: int, durable: int, early: AbstractSet[int] = frozenset()
) -> Iterator[tuple[PageQueue, int, int, int, int]]:
    """The indexes from ``first`` to before ``end`` without those that were taken early, or that ``early`` names."""
    last = min(8 * len(queue.early), end)
    taken = {index for index in range(first, last) if has_bit(queue.early, index) and not has_bit(queue.bits, index)}
    for index in [*sorted(taken | early), end]:
        if index > first:
            yield queue, first, index - first, messages, durable
            messages = durable = 0
        first = index + 1


def _take(queue: PageQueue, message: Message) -> None:
    if message.large is not None and not message.references:
        message.large.hold()
    queue.taken += 1
    if queue.durable_messages and message.durable:
        queue.durable_taken += 1


def _nothing() -> None: ...
