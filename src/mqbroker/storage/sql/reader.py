"""A queue's place in the rows of a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import PagedMessage, PagedRows, PagePlace, PageReader
from mqbroker.messaging.queues.scheduled import scheduled_time_of
from mqbroker.storage.sql.removals import mark_range
from mqbroker.storage.sql.rows import PIECE_ROWS, PageRow, Piece
from mqbroker.storage.sql.texts import given
from mqbroker.storage.sql.work import REMOVE_REFERENCE, REMOVE_UNREFERENCED, Work, body_removals

if TYPE_CHECKING:
    from mqbroker.storage.sql.bodies import SqlBodies
    from mqbroker.storage.sql.folder import Share, SqlFolder
    from mqbroker.storage.sql.rows import RowsRead


class Passage(NamedTuple):
    """What a reader passes without reading it: ``work`` settles it, and ``go_on`` moves the reader, at the commit."""

    messages: int
    more: bool
    taken: list[PagedMessage]
    work: Work
    go_on: Callable[[], object]


class Rows:
    """What readers and scans of all folders share."""

    def __init__(self, session: int, adopted: int, read: RowsRead, bodies: SqlBodies) -> None:
        self.session = session
        self.adopted = adopted
        self.read = read
        self.bodies = bodies

    def message(self, folder: SqlFolder, row: PageRow) -> PagedMessage:
        body = None if row.body is None else self.bodies.stored(row.body, row.body_size or 0)
        address = folder.address if row.address is None else given(row.address)
        message = Message.read(bytes(row.buffer), row.headers, address, body)
        message.store_state = PagePlace(folder, row.place)
        return PagedMessage(message, row.deliveries, None if row.due < 0 else row.due)

    def removal(self, folder: SqlFolder, queue_id: int, after: int, until: int, kept: set[int]) -> Work:
        """What settles a range of any length, but for the places in ``kept``."""
        work = Work()
        mark_range(work, self.session, queue_id, folder.address, after, until, self.adopted, kept)
        return work

    def removal_of(self, queue_id: int, rows: Iterable[PageRow]) -> Work:
        """What settles these."""
        work = Work()
        for row in rows:
            work.add(REMOVE_REFERENCE, (self.session, queue_id, row.place))
            work.add(REMOVE_UNREFERENCED, (self.session, row.place))
            if row.body is not None:
                work.bodies += body_removals(self.session, row.body, row.body_size or 0)
        return work


class SqlPageReader:
    """See :class:`mqbroker.messaging.ports.PageReader`."""

    __slots__ = ("_end", "_folder", "_greatest", "_looks", "_queue_id", "_rows", "_share", "place")

    def __init__(self, rows: Rows, folder: SqlFolder, queue_id: int, looks: bool = False) -> None:
        self._rows = rows
        self._folder = folder
        self._queue_id = queue_id
        self._looks = looks
        self._share: Share = folder.share(queue_id)
        self.place = self._share.place
        self._greatest = 0
        """The greatest message id before this place, as far as :meth:`unread_until` has passed messages."""
        self._end = 0
        """Up to this place nothing is left to be read: who asks again must not have to wait again."""

    def read(self) -> list[PagedMessage] | None:
        share = self._share
        piece = self._piece()
        if share.unread <= 0 or piece.readable <= max(self.place, self._end):
            return None
        found = self._rows.read.piece(piece)
        if not found:
            self._end = piece.readable
            return None
        self.place = found[-1].place
        messages = [self._rows.message(self._folder, row) for row in found if row.place not in share.early]
        if not self._looks:
            by_place = {row.place: row.durable for row in found}
            for entry in messages:
                self._take(entry.message, by_place[_place_of(entry.message)])
            share.place = self.place
            share.early = {place for place in share.early if place > self.place}
            if share.unread > 0 and len(found) == PIECE_ROWS:
                self._rows.read.ask(self._piece())
        return messages

    def look(self, other: PageReader | None = None) -> SqlPageReader:
        if isinstance(other, SqlPageReader) and other.place >= self.place:
            return other
        reader = SqlPageReader(self._rows, self._folder, self._queue_id, looks=True)
        reader.place = self.place
        return reader

    def scan(self) -> SqlPageScan:
        return SqlPageScan(self._rows, self._folder, self._queue_id, self.place, self._greatest)

    def take(self, message: Message) -> None:
        place = _place_of(message)
        self._share.early.add(place)
        self._take(message, message.durable)

    def passed(self, place: PagePlace) -> bool:
        return place.page is self._folder and place.index <= self.place

    def unread(self) -> Passage:
        """Everything that can be read and was not."""
        folder, share = self._folder, self._share
        until, messages = folder.readable, share.unread
        if not messages:
            return Passage(0, False, [], Work(), _nothing)

        def go_on() -> None:
            self._go_to(until, messages, share.durable_unread)

        return Passage(messages, False, [], self._rows.removal(folder, self._queue_id, self.place, until, share.early), go_on)

    def unread_until(self, key: int) -> Passage:
        """As :meth:`unread` for what a scan gives up to ``key``, and for one piece."""
        share = self._share
        if share.unread <= 0:
            return Passage(0, False, [], Work(), _nothing)
        found = self._rows.read.piece(self._piece())
        passed: list[PageRow] = []
        greatest = reached = self._greatest
        more = len(found) == PIECE_ROWS
        until = self.place
        for row in found:
            if row.place not in share.early:
                greatest = max(greatest, Message.read(bytes(row.buffer), row.headers).message_id)
                if greatest > key:
                    more = False
                    break
                reached = greatest
                passed.append(row)
            until = row.place
        if until == self.place:
            return Passage(0, False, [], Work(), _nothing)
        taken = [self._rows.message(self._folder, row) for row in passed if _is_scheduled(row)]
        settled = [row for row in passed if not _is_scheduled(row)]
        messages = len(settled)
        durable = sum(row.durable for row in settled)

        def go_on() -> None:
            for entry in taken:
                self.take(entry.message)
            self._go_to(until, messages, durable)
            self._greatest = max(self._greatest, reached)

        return Passage(messages, more, taken, self._rows.removal_of(self._queue_id, settled), go_on)

    def _piece(self) -> Piece:
        return Piece(self._queue_id, self._folder.address, self.place, self._folder.readable)

    def _go_to(self, place: int, messages: int, durable: int) -> None:
        share = self._share
        self.place = share.place = place
        share.unread -= messages
        share.durable_unread -= durable
        share.early = {each for each in share.early if each > place}
        self._folder.check()

    def _take(self, message: Message, durable: int) -> None:
        if message.large is not None and not message.references:
            message.large.hold()
        self._folder.take(self._queue_id, bool(durable))


class SqlPageScan:
    """See :class:`mqbroker.messaging.ports.PageScan`."""

    __slots__ = ("_folder", "_greatest", "_place", "_queue_id", "_rows", "_share")

    def __init__(self, rows: Rows, folder: SqlFolder, queue_id: int, place: int, greatest: int) -> None:
        self._rows = rows
        self._folder = folder
        self._queue_id = queue_id
        self._share = folder.share(queue_id)
        self._place = place
        self._greatest = greatest

    def copy(self) -> SqlPageScan:
        return SqlPageScan(self._rows, self._folder, self._queue_id, self._place, self._greatest)

    def read(self, after: int = 0) -> PagedRows | None:
        folder = self._folder
        if self._place >= folder.readable:
            return None
        found = self._rows.read.piece(Piece(self._queue_id, folder.address, self._place, folder.readable))
        if not found:
            return None
        self._place = found[-1].place
        rows = PagedRows([], [], [], {}, {}, {})
        for row in found:
            if row.place not in self._share.early:
                self._add(rows, row)
        return rows

    def _add(self, rows: PagedRows, row: PageRow) -> None:
        buffer = bytes(row.buffer)
        number = len(rows.ids)
        identity = Message.read(buffer, row.headers).message_id
        self._greatest = max(self._greatest, identity)
        rows.keys.append(self._greatest)
        rows.ids.append(identity)
        rows.buffers.append(buffer)
        if row.deliveries:
            rows.counts[number] = row.deliveries
        if row.body is not None:
            body: LargeBody = self._rows.bodies.stored(row.body, row.body_size or 0)
            rows.bodies[number] = body
        if _is_scheduled(row):
            rows.scheduled[number] = (PagePlace(self._folder, row.place), row.due)


def _is_scheduled(row: PageRow) -> bool:
    return row.due > 0 or (row.due < 0 and bool(scheduled_time_of(Message.read(bytes(row.buffer), row.headers))))


def _place_of(message: Message) -> int:
    state = message.store_state
    assert isinstance(state, PagePlace)
    return state.index


def _nothing() -> None: ...
