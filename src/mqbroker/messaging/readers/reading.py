"""Reading a queue by message id, without taking messages: those in memory and those in pages, merged in the order of the ids."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.ports import PagedMessage, PagedRows
from mqbroker.messaging.queues.indexed_references import IndexedReferences
from mqbroker.messaging.queues.scheduled import scheduled_time_of
from mqbroker.messaging.readers.places import KeptPlaces, Place, Source
from mqbroker.messaging.readers.rows import NO_ROWS, Rows, merged
from mqbroker.messaging.turns.steps import run_to_end

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.filters.filter import Filter
    from mqbroker.messaging.message.large_body import LargeBody
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.messaging.turns.steps import Steps

ROWS_AT_ONCE = 8192
"""Messages in memory that are looked at together; an answer with as many has no more."""

BUILT_AT_ONCE = 10_000
"""Messages in memory that are indexed in one turn when a queue is first read by id; of more, in several."""

PIECES_AT_ONCE = 16
"""Pieces of pages that one answer may look through: some milliseconds.  An answer may be empty for that reason."""

MATCHED_AT_ONCE = 5000
"""Messages that the filter of one answer is tried on."""

BODIES_KEPT_MAX = 256
"""Large messages of one queue whose bodies are found without a search, because they were read a short time ago."""


class Block:
    """An answer to a reader: everything up to ``position`` was looked at; ``end`` when that is the whole range."""

    __slots__ = ("end", "lost", "position", "rows")

    def __init__(self, rows: Rows, position: int, end: bool, lost: bool) -> None:
        self.rows = rows
        self.position = position
        self.end = end
        self.lost = lost


class QueueLog:
    """A queue that is read by message id.  While it is there, the queue's references are an :class:`IndexedReferences`."""

    def __init__(self, core: MessagingCore, queue: Queue, places: KeptPlaces) -> None:
        self._core = core
        self.queue = queue
        self.index = IndexedReferences(queue.references, core.late)
        queue.references = self.index
        self._places = places
        self._bodies: OrderedDict[int, LargeBody] = OrderedDict()
        self._first: Place | None = None
        """How far the search for the smallest id has come that has to wait."""
        self.used = core.clock.monotonic()
        if queue.references.count <= BUILT_AT_ONCE:
            run_to_end(self.index.build())
        else:
            core.steps.start(self.index.build(), _built)

    def when_built(self, function: Callable[[], object]) -> None:
        """Call ``function`` when messages can be found by id: now, or in a later turn."""
        if not self.index.building:
            function()
            return

        def done(result: None, failure: Exception | None) -> None:
            if failure is not None:
                raise failure
            function()

        self._core.steps.start(no_steps(), done)

    def close(self) -> None:
        """The queue is read no more."""
        self._places.forget(self)
        if self.queue.references is self.index:
            self.queue.references = self.index.plain()

    # --- messages that can be read

    @property
    def newest(self) -> int:
        """The greatest id that can be read in memory; ids in pages become known only by reading the pages."""
        return self.index.last_id

    # --- places

    def place(self, after: int) -> Place:
        """The nearest known place for reading behind ``after``."""
        return self._places.take(self, after)

    def keep(self, place: Place) -> None:
        """Keep a place at which a later request may go on."""
        self._places.keep(self, place)

    def forget_until(self, position: int) -> None:
        """The messages up to ``position`` are settled."""
        self._places.forget(self, position)

    # --- reading

    def next_rows(self, place: Place, until: int, budget: int = PIECES_AT_ONCE) -> tuple[Rows, int, int]:
        """A bounded part of the messages from ``place`` up to ``until``: (rows, position reached, rest of ``budget``).

        ``budget`` is a number of pieces.  ``place`` moves to the position.  Raises NotYet; ``place`` keeps the rows read so far.
        """
        after = place.position
        horizon = until
        pages = self.queue.pages
        if pages is not None:
            for name, reader in pages.readers():
                source = place.sources.get(name)
                if source is None:
                    source = place.sources[name] = Source(reader.scan())
                limit, budget = self._fill(name, source, after, budget)
                if limit is not None:
                    horizon = min(horizon, limit)
        parts: list[Rows] = []
        in_memory: set[int] = set()
        references = self.index.between(after, horizon, ROWS_AT_ONCE) if horizon > after else []
        if references:
            if len(references) == ROWS_AT_ONCE:
                horizon = references[-1].message.message_id
            messages = [reference.message for reference in references]
            ids = [message.message_id for message in messages]
            counts = {row: reference.delivery_count for row, reference in enumerate(references) if reference.delivery_count}
            bodies = {row: message.large for row, message in enumerate(messages) if message.large is not None}
            in_memory = {*ids}
            parts.append(Rows(ids, ids, [message.buffer for message in messages], counts, bodies))
        for source in place.sources.values():
            rows = source.waiting
            if rows.keys and rows.keys[0] <= horizon:
                end = bisect_right(rows.keys, horizon)
                found = rows.part(0, end)
                if in_memory:
                    # Messages that were read from a page before may have come into memory since.
                    found = found.chosen([row for row in range(end) if found.ids[row] not in in_memory])
                parts.append(found)
                source.waiting = rows.part(end, len(rows.keys))
        horizon = max(horizon, after)
        place.position = horizon
        return merged(parts), horizon, budget

    def first_rows(self) -> tuple[Rows, int, int]:
        """As :meth:`next_rows`, for the smallest ids."""
        place, self._first = self._first, None
        if place is None or place.position != self.index.floor:
            place = Place(self.index.floor)
        try:
            return self.next_rows(place, self.index.bound)
        except NotYet:
            self._first = place
            raise

    def wait_for(self, pending: NotYet) -> None:
        """For work in steps."""
        self._core.steps.wait_for(pending)

    def _fill(self, name: str, source: Source, after: int, budget: int) -> tuple[int | None, int]:
        """Read on until the next rows of ``source`` are complete: (key up to which they are complete, None = no more rows; rest of
        ``budget``)."""
        source.ended = False
        while True:
            keys = source.waiting.keys
            # The last key is kept back: the next piece may have more rows with it.
            if keys and keys[0] < keys[-1]:
                last = keys[-1]
                at = len(keys) - 1
                while keys[at] == last:
                    at -= 1
                return keys[at], budget
            if budget <= 0:
                return keys[0] - 1 if keys else after, 0
            piece = source.scan.read(after)
            budget -= 1
            if piece is None:
                source.ended = True
                return None, budget
            rows = self._readable(name, piece)
            if not source.waiting.keys and rows.keys and rows.keys[0] <= after:
                rows = rows.part(bisect_right(rows.keys, after), len(rows.keys))
            source.waiting = source.waiting.and_then(rows)

    def _readable(self, name: str, piece: PagedRows) -> Rows:
        """The rows of a piece without scheduled messages, which come into memory, and are late when their time has come."""
        rows = Rows(piece.keys, piece.ids, piece.buffers, piece.counts, piece.bodies)
        if not piece.scheduled:
            return rows
        left_out: set[int] = set()
        pages = self.queue.pages
        for row, (place, recorded) in piece.scheduled.items():
            message = rows.message(row)
            time_ms = scheduled_time_of(message) if recorded < 0 else recorded
            if pages is None or not recorded:
                continue
            left_out.add(row)
            message.store_state = place
            batch = self._core.store.begin()
            batch.schedule(self.queue.queue_id, message, time_ms)
            self._core.store.commit(batch)
            pages.take_scheduled(name, PagedMessage(message, piece.counts.get(row, 0), time_ms))
        return rows.chosen([row for row in range(len(rows.keys)) if row not in left_out])

    def read(self, after: int, until: int, max_bytes: int, filter: Filter | None) -> Block:
        """Messages of (after, until] with at most ``max_bytes`` (but always one, however long), in one bounded turn.

        Raises NotYet when not even a part of the answer can be read.
        """
        self.used = self._core.clock.monotonic()
        lost = after < self.index.floor
        if self.index.building:
            return Block(NO_ROWS, after, False, lost)
        place = self.place(after)
        found = NO_ROWS
        room, budget, tries = max_bytes, PIECES_AT_ONCE, MATCHED_AT_ONCE
        position = after
        while room > 0 and budget > 0 and tries > 0 and len(found.keys) < ROWS_AT_ONCE and position < until:
            before = place.copy()
            try:
                rows, reached, budget = self.next_rows(place, until, budget)
            except NotYet:
                if position > after:
                    break
                self.keep(place)
                raise
            taken, cut, size = self._fitting(rows, room, filter, tries, first=not found.keys)
            tries -= len(rows.keys) if filter is not None else 0
            found = found.and_then(taken)
            room -= size
            if cut is not None:
                # Rows that did not fit are read again from here.
                place, position = before.moved(cut), cut
                break
            position = reached
        self.keep(place)
        self._remember_bodies(found)
        return Block(found, position, position >= until, lost)

    @staticmethod
    def _fitting(rows: Rows, room: int, filter: Filter | None, tries: int, first: bool) -> tuple[Rows, int | None, int]:
        """As many rows as there is room for: (rows, the key after which rows were left out or None, bytes)."""
        cut: int | None = None
        taken = rows
        if filter is not None:
            end = _end_of_key(rows.keys, min(tries, len(rows.keys)))
            chosen = [row for row in range(end) if filter.matches(rows.message(row))]
            cut = rows.keys[end - 1] if end < len(rows.keys) else None
            taken = rows.part(0, end).chosen(chosen)
        sizes = [*map(len, taken.buffers)]
        total = sum(sizes)
        if total <= room:
            return taken, cut, total
        total = end = 0
        for size in sizes:
            if total + size > room and (end or not first):
                break
            total += size
            end += 1
        end = _end_of_key(taken.keys, end)
        if end < len(taken.keys):
            # With a filter everything before the first that did not fit was looked at.
            following = taken.keys[end]
            cut = rows.keys[rows.keys.index(following) - 1] if rows.keys[0] != following else rows.keys[0] - 1
        return taken.part(0, end), cut, total

    # --- large bodies

    def _remember_bodies(self, rows: Rows) -> None:
        for row, body in rows.bodies.items():
            self._bodies[rows.ids[row]] = body
            self._bodies.move_to_end(rows.ids[row])
        while len(self._bodies) > BODIES_KEPT_MAX:
            self._bodies.popitem(last=False)

    def known_body(self, message_id: int) -> LargeBody | None:
        """The body of a large message that is in memory or was read a short time ago."""
        reference = self.index.find(message_id)
        if reference is not None:
            return reference.message.large
        return self._bodies.get(message_id) if message_id > self.index.floor else None

    def search_body(self, message_id: int) -> Iterator[LargeBody | None]:
        """Look for a large message in the pages: None as long as it is not found, then its body.  Ends when there is none."""
        place = self.place(message_id - 1)
        while place.position < message_id:
            try:
                rows, _, budget = self.next_rows(place, message_id)
            except NotYet as pending:
                self.wait_for(pending)
                yield None
                continue
            self._remember_bodies(rows)
            if message_id in rows.ids:
                body = rows.bodies.get(rows.ids.index(message_id))
                if body is not None:
                    yield body
                return
            if budget > 0 and not rows.keys:
                return
            yield None


def _built(result: None, failure: Exception | None) -> None:
    if failure is not None:
        raise failure


def no_steps() -> Steps[None]:
    """Work that is done when its turn has come: behind all that was begun before."""
    yield from ()


def _end_of_key(keys: list[int], end: int) -> int:
    """``end``, or behind it where the key before it goes on."""
    while 0 < end < len(keys) and keys[end] == keys[end - 1]:
        end += 1
    return end
