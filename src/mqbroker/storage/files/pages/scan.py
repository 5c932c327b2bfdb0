"""Looking through pages without making messages of what they hold: for those who read a queue by message id.

The *key* of a message is the greatest id up to it in the order of the pages: ids ascend there but for rare ones, and what comes behind a
greater one belongs to that one's place.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import PagedRows, PagePlace
from mqbroker.messaging.queues.scheduled import scheduled_time_of
from mqclient.storageformat.frames import HEADER_SIZE, StorageFormatError
from mqclient.storageformat.page_messages import decompress
from mqclient.storageformat.page_records import PAGE_COMPRESSED, PAGE_POSITION
from mqclient.storageformat.page_state import NOT_RECORDED, has_bit
from mqclient.storageformat.records import FLAG_ADDRESS, FLAG_BODY, FLAG_BRANCH, MESSAGE
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY

if TYPE_CHECKING:
    from mqbroker.storage.files.journal.pages import Folder, Page, PageQueue
    from mqbroker.storage.files.pages.reader import PageFiles

PIECES_AT_ONCE = 16
"""Pieces that are looked through before others get a turn: some milliseconds."""

_unpack_message = struct.Struct(">BIII").unpack_from
_unpack_u32 = struct.Struct(">I").unpack_from
_unpack_two_u32 = struct.Struct(">II").unpack_from
_unpack_i64 = struct.Struct(">q").unpack_from
_MESSAGE_SIZE = 14
_SCHEDULED = KEY_SCHEDULED_DELIVERY.encode("utf-16-le")


class ScannedPiece:
    """A piece of a page, in columns.  ``routes`` are the encoded queue ids of each message; ``end`` is the offset that follows.

    ``route`` is what all of them have in common, None when they differ; ``large`` has the places of large messages, ``scheduled`` those
    that say when they are to be delivered.
    """

    __slots__ = ("buffers", "end", "headers", "ids", "indexes", "large", "route", "routes", "scheduled")

    def __init__(self, end: int) -> None:
        self.end = end
        self.indexes: list[int] = []
        self.ids: list[int] = []
        self.buffers: list[bytes] = []
        self.headers: list[int] = []
        self.routes: list[bytes] = []
        self.route: bytes | None = None
        self.large: list[int] = []
        self.scheduled: list[int] = []


def scan_piece(contents: list[memoryview], end: int) -> ScannedPiece:
    """The messages in these frames of a page.  Raises StorageFormatError."""
    piece = ScannedPiece(end)
    index = 0
    for content in contents:
        data = bytes(content)
        try:
            index = _scan(piece, data, index)
        except (struct.error, IndexError) as error:
            raise StorageFormatError(f"a record of a page is cut off: {error}") from error
    routes = set(piece.routes)
    piece.route = routes.pop() if len(routes) == 1 else None
    return piece


def _scan(piece: ScannedPiece, data: bytes, index: int) -> int:
    at, size = 0, len(data)
    indexes, ids, buffers, headers, routes = piece.indexes, piece.ids, piece.buffers, piece.headers, piece.routes
    while at < size:
        kind = data[at]
        if kind == MESSAGE:
            flags, header, length, count = _unpack_message(data, at + 1)
            at += _MESSAGE_SIZE
            routes.append(data[at : at + 8 * count])
            at += 8 * count
            if flags:
                if flags & FLAG_ADDRESS:
                    at += 4 + _unpack_u32(data, at)[0]
                if flags & FLAG_BODY:
                    piece.large.append(len(ids))
                    at += 16
                if flags & FLAG_BRANCH:
                    at += 8
            buffer = data[at : at + length]
            at += length
            if buffer.find(_SCHEDULED, header) >= 0 and scheduled_time_of(Message.read(buffer, header)):
                piece.scheduled.append(len(ids))
            ids.append(_unpack_i64(buffer, header)[0])
            indexes.append(index)
            buffers.append(buffer)
            headers.append(header)
            index += 1
        elif kind == PAGE_POSITION:
            index = _unpack_u32(data, at + 1)[0]
            at += 5
        elif kind == PAGE_COMPRESSED:
            inner, length = _unpack_two_u32(data, at + 1)
            at += 9
            index = _scan(piece, decompress(data[at : at + length], inner), index)
            at += length
        else:
            raise StorageFormatError(f"record of type {kind} in a page")
    if at != size:
        raise StorageFormatError("a record of a page is cut off")
    return index


def is_durable(buffer: bytes, headers: int) -> bool:
    """Does an encoded message say of itself that it is durable?"""
    at = headers + 8
    at += 5 + _unpack_u32(buffer, at + 1)[0] if buffer[at] else 1
    at += 17 if buffer[at] == 1 else 1
    return buffer[at + 1] != 0


def rows_of(piece: ScannedPiece, queue: PageQueue, first: int, durable_only: bool) -> list[int]:
    """The places in a piece of what the queue has there from index ``first`` on, and has neither settled nor taken."""
    route = struct.pack(">q", queue.queue_id)
    bits, early = queue.bits, queue.early
    places: list[int] = [*range(len(piece.ids))]
    if not places:
        return places
    if piece.indexes[0] < first:
        places = [at for at in places if piece.indexes[at] >= first]
    if piece.route != route:
        routes = piece.routes
        places = [at for at in places if routes[at] == route or _contains(routes[at], route)]
    if bits:
        places = [at for at in places if not has_bit(bits, piece.indexes[at])]
    if early:
        places = [at for at in places if not has_bit(early, piece.indexes[at])]
    if durable_only:
        places = [at for at in places if is_durable(piece.buffers[at], piece.headers[at])]
    return places


def is_scheduled(piece: ScannedPiece, at: int, queue: PageQueue) -> bool:
    """Is this message to be delivered at a time of its own, as it or the journal says?"""
    if not queue.details and not piece.scheduled:
        return False
    recorded = queue.details.get(piece.indexes[at], (0, NOT_RECORDED))[1]
    return recorded > 0 or (recorded < 0 and at in piece.scheduled)


def _contains(route: bytes, queue_id: bytes) -> bool:
    return any(route[at : at + 8] == queue_id for at in range(0, len(route), 8))


class ScanEnd(NamedTuple):
    """Where everything up to a key ends in a page: an offset and an index, with the messages (durable ones) passed on the way.

    ``scheduled`` are among these, but not counted: (piece, place in it).
    """

    offset: int
    first: int
    messages: int
    durable: int
    greatest: int
    more: bool
    scheduled: list[tuple[ScannedPiece, int]]


def scan_until(files: PageFiles, queue: PageQueue, offset: int, index: int, key: int, greatest: int) -> ScanEnd | None:
    """Look for the first message of a queue with a greater key, in one page and at most :data:`PIECES_AT_ONCE` pieces of it.

    None when it cannot be read.
    """
    page = queue.page
    scheduled: list[tuple[ScannedPiece, int]] = []
    if queue.greatest and page.closed and not page.writes and queue.greatest <= key:
        durable = queue.durable_messages - queue.durable_acknowledged - queue.durable_taken
        return ScanEnd(page.readable_end, page.readable, queue.remaining, durable, queue.greatest, True, scheduled)
    messages = durables = 0
    for _ in range(PIECES_AT_ONCE):
        if offset >= page.readable_end:
            return ScanEnd(offset, page.readable, messages, durables, greatest, True, scheduled)
        piece = files.scanned(page, offset)
        if piece is None:
            return None
        for at in rows_of(piece, queue, index, page.recovered):
            greatest = max(greatest, piece.ids[at])
            if greatest > key:
                return ScanEnd(offset, piece.indexes[at], messages, durables, 0, False, scheduled)
            if is_scheduled(piece, at, queue):
                scheduled.append((piece, at))
                continue
            messages += 1
            durables += bool(queue.durable_messages) and is_durable(piece.buffers[at], piece.headers[at])
        offset = piece.end
        index = piece.indexes[-1] + 1 if piece.indexes else index
    return ScanEnd(offset, index, messages, durables, greatest, True, scheduled)


class FilePageScan:
    """See :class:`mqbroker.messaging.ports.PageScan`."""

    __slots__ = ("_files", "_folder", "_greatest", "_offset", "_page", "_queue_id")

    def __init__(self, files: PageFiles, folder: Folder, queue_id: int, page: Page | None, offset: int, greatest: int = 0) -> None:
        self._files = files
        self._folder = folder
        self._queue_id = queue_id
        self._page = page
        self._offset = offset
        self._greatest = greatest

    def copy(self) -> FilePageScan:
        return FilePageScan(self._files, self._folder, self._queue_id, self._page, self._offset, self._greatest)

    def read(self, after: int = 0) -> PagedRows | None:
        queue = self._find(after)
        if queue is None:
            return None
        page = queue.page
        piece = self._files.scanned(page, self._offset)
        if piece is None:
            return None
        rows = self._rows(piece, queue)
        self._offset = piece.end
        if page.closed and not page.writes and self._offset >= page.readable_end:
            queue.greatest = max(self._greatest, queue.greatest)
        return rows

    def _rows(self, piece: ScannedPiece, queue: PageQueue) -> PagedRows:
        page = queue.page
        places = rows_of(piece, queue, 0, page.recovered)
        if piece.large:
            places = [at for at in places if at not in piece.large or piece.indexes[at] in page.bodies]
        bodies: dict[int, LargeBody] = {}
        scheduled: dict[int, tuple[PagePlace, int]] = {}
        if len(places) == len(piece.ids):
            ids, buffers = piece.ids, piece.buffers
        else:
            ids, buffers = [piece.ids[at] for at in places], [piece.buffers[at] for at in places]
        counts: dict[int, int] = {}
        if piece.large or piece.scheduled or queue.details:
            for row, at in enumerate(places):
                index = piece.indexes[at]
                if at in piece.large:
                    bodies[row] = page.bodies[index].body
                count, time_ms = queue.details.get(index, (0, NOT_RECORDED))
                if count:
                    counts[row] = count
                if is_scheduled(piece, at, queue):
                    scheduled[row] = (PagePlace(page, index), time_ms)
        keys = ids
        if ids:
            greatest = self._greatest
            if ids[0] < greatest or any(map(int.__gt__, ids, ids[1:])):
                keys = []
                for message_id in ids:
                    greatest = max(greatest, message_id)
                    keys.append(greatest)
            self._greatest = keys[-1]
        return PagedRows(keys, ids, buffers, counts, bodies, scheduled)

    def _find(self, after: int) -> PageQueue | None:
        """Go on to the next place where the queue may have something; None at the end."""
        page = self._page or self._folder.first()
        while page is not None:
            if page is not self._page:
                self._page, self._offset = page, HEADER_SIZE
            queue = page.queues.get(self._queue_id)
            greatest = 0 if queue is None else queue.greatest
            done = page.closed and not page.writes and 0 < greatest <= after
            if queue is not None and not page.gone and not done and self._offset < page.readable_end and queue.remaining > 0:
                return queue
            following = self._folder.after(page.number)
            if following is None or page.writes:
                return None
            if done:
                self._greatest = max(self._greatest, greatest)
            page = following
        return None
