"""A queue's place in the rows of a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import PagedMessage, PagedRows, PagePlace, PageReader
from mqbroker.messaging.queues.scheduled import scheduled_time_of
from mqbroker.storage.sql.damage import DAMAGE, check_message
from mqbroker.storage.sql.removals import mark_range
from mqbroker.storage.sql.rows import PIECE_ROWS, PageRow, Piece
from mqbroker.storage.sql.texts import given
from mqbroker.storage.sql.work import REMOVE_REFERENCE, REMOVE_UNREFERENCED, Work, body_removals

if TYPE_CHECKING:
    from mqbroker.storage.sql.bodies import SqlBodies
    from mqbroker.storage.sql.folder import Share, SqlFolder
    from mqbroker.storage.sql.rows import RowsRead
    from mqbroker.storage.sql.source import Source


class Passage(NamedTuple):
    """Messages that a reader passes without reading them: ``work`` settles them, and ``go_on`` moves the reader, at the commit."""

    messages: int
    more: bool
    taken: list[PagedMessage]
    work: Work
    go_on: Callable[[], object]


class Rows:
    """The common part of readers and scans of all folders.  ``damaged`` sets a row aside that cannot be decoded."""

    def __init__(self, read: RowsRead, bodies: SqlBodies, damaged: Callable[[Source, PageRow, Exception], object]) -> None:
        self.read = read
        self.bodies = bodies
        self.damaged = damaged

    def message(self, source: Source, row: PageRow) -> PagedMessage:
        """Raises one of :data:`mqbroker.storage.sql.damage.DAMAGE`."""
        body = None if row.body is None else self.bodies.stored(row.body, row.body_size or 0, source.session)
        address = source.folder.address if row.address is None else given(row.address)
        message = Message.read(bytes(row.buffer), row.headers, address, body)
        if source.origin is not None:
            check_message(message)
        message.store_state = PagePlace(source, row.place)
        return PagedMessage(message, row.deliveries, None if row.due < 0 else row.due)

    @staticmethod
    def piece(source: Source, after: int) -> Piece:
        """The piece that a reader of this source reads next."""
        return Piece(source.session, source.queue_id, source.folder.address, after, source.readable, source.adopted)

    @staticmethod
    def removal(source: Source, until: int, kept: set[int]) -> Work:
        """The work that settles all messages that were not read up to a place, but for the places in ``kept``."""
        work = Work()
        mark_range(work, source.session, source.queue_id, source.folder.address, source.place, until, source.adopted, kept)
        return work

    @staticmethod
    def removal_of(source: Source, rows: Iterable[PageRow]) -> Work:
        """The work that settles these rows."""
        work, session = Work(), source.session
        for row in rows:
            work.add(REMOVE_REFERENCE, (session, source.queue_id, row.place))
            work.add(REMOVE_UNREFERENCED, (session, row.place))
            if row.body is not None:
                work.bodies += body_removals(session, row.body, row.body_size or 0)
        return work


class SqlPageReader:
    """See :class:`mqbroker.messaging.ports.PageReader`.

    Each source knows how far it was read; a reader that only looks has a place of its own, in the source that it has come to, and begins
    ``at`` one.
    """

    __slots__ = ("_end", "_folder", "_greatest", "_place", "_queue_id", "_rows", "_share", "_source")

    def __init__(self, rows: Rows, folder: SqlFolder, queue_id: int, at: tuple[Source | None, int] = (None, 0)) -> None:
        self._rows = rows
        self._folder = folder
        self._queue_id = queue_id
        self._share: Share = folder.share(queue_id)
        self._source, self._place = at
        """The place of a look; None = this reader takes what it reads."""
        self._greatest = 0
        """The greatest message id before this place, as far as :meth:`unread_until` has passed messages."""
        self._end = 0
        """Up to this place nothing is left to be read: who asks again must not have to wait again."""

    def read(self) -> list[PagedMessage] | None:
        share = self._share
        if share.unread <= 0:
            return None
        if self._source is not None:
            return self._look_on(self._source)
        source = share.source
        found = self._found(source, source.place)
        if not found and source.origin is None:
            return None
        messages = []
        durable = []
        damaged: list[tuple[PageRow, Exception]] = []
        for row in found:
            if row.place not in source.early:
                try:
                    messages.append(self._rows.message(source, row))
                    durable.append(row.durable)
                except DAMAGE as error:
                    damaged.append((row, error))
        for entry, outlives in zip(messages, durable, strict=True):
            self._take(source, entry.message, outlives)
        if found:
            source.place = found[-1].place
        source.early = {place for place in source.early if place > source.place}
        self._leave_out(source, damaged, len(found) < PIECE_ROWS)
        if share.unread > 0 and (len(found) == PIECE_ROWS or source.origin is not None):
            following = share.source
            self._rows.read.ask(self._rows.piece(following, following.place))
        return messages

    def look(self, other: PageReader | None = None) -> SqlPageReader:
        source, place = self._at()
        if isinstance(other, SqlPageReader) and other._share is self._share and other._is_at_least(source, place):
            return other
        return SqlPageReader(self._rows, self._folder, self._queue_id, (source, place))

    def scan(self) -> SqlPageScan:
        return SqlPageScan(self._rows, self._share, *self._at(), self._greatest)

    def take(self, message: Message) -> None:
        source, place = _where(message)
        source.early.add(place)
        self._take(source, message, message.durable)

    def passed(self, place: PagePlace) -> bool:
        source: Source = place.page
        if source.folder is not self._folder:
            return False
        if self._source is None:
            return place.index <= source.place or place.index in source.early
        return self._is_at_least(source, place.index)

    def unread(self) -> Passage:
        """The messages that can be read and were not."""
        share = self._share
        if not share.unread:
            return Passage(0, False, [], Work(), _nothing)
        ends = [(source, source.readable, source.unread) for source in share.sources if source.unread]
        work = Work()
        for source, until, _ in ends:
            work.join(self._rows.removal(source, until, source.early))

        def go_on() -> None:
            for source, until, messages in ends:
                self._go_to(source, until, messages)
            share.durable_unread = 0
            self._folder.check()

        return Passage(share.unread, False, [], work, go_on)

    def unread_until(self, key: int) -> Passage:
        """As :meth:`unread` for what a scan gives up to ``key``, and for one piece."""
        share = self._share
        if share.unread <= 0:
            return Passage(0, False, [], Work(), _nothing)
        source = share.source
        found = self._rows.read.piece(self._rows.piece(source, source.place))
        passed: list[PageRow] = []
        damaged: list[tuple[PageRow, Exception]] = []
        greatest = reached = self._greatest
        more = len(found) == PIECE_ROWS or source is not share.own
        until = source.place
        for row in found:
            if row.place not in source.early:
                try:
                    greatest = max(greatest, self._rows.message(source, row).message.message_id)
                except DAMAGE as error:
                    damaged.append((row, error))
                else:
                    if greatest > key:
                        more = False
                        break
                    reached = greatest
                    passed.append(row)
            until = row.place
        taken = [self._rows.message(source, row) for row in passed if _is_scheduled(row)]
        settled = [row for row in passed if not _is_scheduled(row)]
        messages = len(settled)
        durable = sum(row.durable for row in settled)

        def go_on() -> None:
            for entry in taken:
                self.take(entry.message)
            self._go_to(source, until, messages)
            share.durable_unread -= durable
            self._greatest = max(self._greatest, reached)
            self._leave_out(source, damaged, len(found) < PIECE_ROWS and until >= (found[-1].place if found else 0))
            self._folder.check()

        if until == source.place and (found or source.origin is None):
            return Passage(0, False, [], Work(), _nothing)
        return Passage(messages, more, taken, self._rows.removal_of(source, settled), go_on)

    def _at(self) -> tuple[Source, int]:
        if self._source is not None:
            return self._source, self._place
        source = self._share.source
        return source, source.place

    def _is_at_least(self, source: Source, place: int) -> bool:
        """Is this place before the reader, or its own?"""
        own, reached = self._at()
        sources = self._share.sources
        if own is source or own not in sources or source not in sources:
            return reached >= place
        return sources.index(own) > sources.index(source)

    def _found(self, source: Source, place: int) -> list[PageRow]:
        """The rows of a source behind a place."""
        piece = self._rows.piece(source, place)
        if source.origin is not None:
            return self._rows.read.piece(piece)
        found = [] if piece.readable <= max(place, self._end) else self._rows.read.piece(piece)
        if not found:
            self._end = piece.readable
        return found

    def _look_on(self, source: Source) -> list[PagedMessage] | None:
        found = self._found(source, self._place)
        while not found:
            following = self._share.following(source)
            if following is None:
                return None
            self._source, self._place = source, _ = following, following.place
            found = self._found(source, self._place)
        self._place = found[-1].place
        return [entry for _, entry in self._rows_of(source, found)]

    def _rows_of(self, source: Source, found: list[PageRow]) -> list[tuple[PageRow, PagedMessage]]:
        """The rows that can be decoded, with their messages."""
        entries = []
        for row in found:
            if row.place not in source.early:
                try:
                    entries.append((row, self._rows.message(source, row)))
                except DAMAGE:
                    continue
        return entries

    def _leave_out(self, source: Source, damaged: list[tuple[PageRow, Exception]], last: bool) -> None:
        """Rows cannot be read; behind the ``last`` ones of an inherited session none are left, however many were counted."""
        for row, error in damaged:
            self._rows.damaged(source, row, error)
        missing = source.unread if last and source.origin is not None else len(damaged)
        if missing:
            self._folder.lost(self._queue_id, source, missing)

    def _go_to(self, source: Source, place: int, messages: int) -> None:
        source.place = place
        source.unread -= messages
        self._share.unread -= messages
        source.early = {each for each in source.early if each > place}
        source.settled(messages)

    def _take(self, source: Source, message: Message, durable: int) -> None:
        if message.large is not None and not message.references:
            message.large.hold()
        self._folder.take(self._queue_id, source, bool(durable))


class SqlPageScan:
    """See :class:`mqbroker.messaging.ports.PageScan`."""

    __slots__ = ("_greatest", "_place", "_rows", "_share", "_source")

    def __init__(self, rows: Rows, share: Share, source: Source, place: int, greatest: int) -> None:
        self._rows = rows
        self._share = share
        self._source = source
        self._place = place
        self._greatest = greatest

    def copy(self) -> SqlPageScan:
        return SqlPageScan(self._rows, self._share, self._source, self._place, self._greatest)

    def read(self, after: int = 0) -> PagedRows | None:
        found: list[PageRow] = []
        while not found:
            if self._place < self._source.readable:
                found = self._rows.read.piece(self._rows.piece(self._source, self._place))
            if not found:
                following = self._share.following(self._source)
                if following is None:
                    return None
                self._source, self._place = following, following.place
        self._place = found[-1].place
        rows = PagedRows([], [], [], {}, {}, {})
        source = self._source
        reached = source if source.origin is not None else source.folder.share(source.queue_id).own
        for row in found:
            # The queue may have come further than this scan: then it has what is scheduled in memory.
            if row.place not in reached.early and (row.place > reached.place or not _is_scheduled(row)):
                self._add(rows, row, reached)
        return rows

    def _add(self, rows: PagedRows, row: PageRow, reached: Source) -> None:
        buffer = bytes(row.buffer)
        number = len(rows.ids)
        try:
            identity = Message.read(buffer, row.headers).message_id
        except DAMAGE:
            return
        self._greatest = max(self._greatest, identity)
        rows.keys.append(self._greatest)
        rows.ids.append(identity)
        rows.buffers.append(buffer)
        if row.deliveries:
            rows.counts[number] = row.deliveries
        if row.body is not None:
            body: LargeBody = self._rows.bodies.stored(row.body, row.body_size or 0, self._source.session)
            rows.bodies[number] = body
        if _is_scheduled(row):
            # Not the source of this scan: the queue may have emptied its pages, and begun them anew, since the scan began.
            rows.scheduled[number] = (PagePlace(reached, row.place), row.due)


def _is_scheduled(row: PageRow) -> bool:
    return row.due > 0 or (row.due < 0 and bool(scheduled_time_of(Message.read(bytes(row.buffer), row.headers))))


def _where(message: Message) -> tuple[Source, int]:
    state = message.store_state
    assert isinstance(state, PagePlace)
    source: Source = state.page
    return source, state.index


def _nothing() -> None: ...
