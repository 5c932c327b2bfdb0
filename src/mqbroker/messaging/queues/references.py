"""References (a message on one queue), and the ordered list of a queue's waiting references.

The list is ten linked lists, one per priority.  A cursor stands on the last reference that it has passed; when this reference leaves the
list, the cursor steps back to the one before.

A long queue has references only near its head.  Behind them wait the messages themselves; a reference is made when its turn comes near, or
when a search reaches it.  Of millions of messages most need no reference before.

This module is longer than others, because the lists and the cursors on them change together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from mqbroker.messaging.message.message import Message

if TYPE_CHECKING:
    from mqbroker.messaging.queues.consumer import QueueConsumer
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.messaging.turns.turn import ScanBudget

PRIORITIES = 10

REFERENCES_AHEAD = 1000
"""Length of a queue from which on arriving messages get no reference at once."""

MADE_TOGETHER = 100
"""References that are made together when the last one is reached."""


class Reference:
    """A message on a queue.

    ``order`` is its place in the queue among references of its ``priority``, which management may change for one queue alone;
    ``delivery_count`` the times that it was given to a consumer; ``scheduled`` the time (ms since the epoch) before which it is not
    delivered, 0 = at once; ``consumer`` who holds it now.  ``recorded_counts`` says how many times its delivery count was written to the
    store.
    """

    __slots__ = (
        "consumer",
        "cursors",
        "delivery_count",
        "following",
        "listed",
        "message",
        "order",
        "preceding",
        "priority",
        "queue",
        "recorded_counts",
        "scheduled",
    )

    def __init__(self, message: Message, queue: Queue, scheduled: int = 0, delivery_count: int = 0) -> None:
        self.message = message
        self.queue = queue
        priority = message.buffer[message.properties_offset - 1]
        self.priority = priority if priority <= 9 else message.priority
        self.scheduled = scheduled
        self.delivery_count = delivery_count
        self.recorded_counts = 0
        self.consumer: QueueConsumer | None = None
        self.order = 0
        self.listed = False
        self.preceding: Reference | None = None
        self.following: Reference | None = None
        self.cursors: list[Cursor] | None = None


class Loan(Reference):
    """The reference that a consumer of a non-destructive queue gets instead of ``lender``, which goes on waiting.  Loans are not stored."""

    __slots__ = ("lender",)

    def __init__(self, lender: Reference, delivery_count: int) -> None:
        super().__init__(lender.message, lender.queue, 0, delivery_count)
        self.lender = lender


class RemoteReference(Reference):
    """A message that another broker keeps, its home, given to a consumer here.  The queue does not count it, and the own store never
    hears of it: ``message`` has an id of this broker, ``home_id`` is the one at its home."""

    __slots__ = ("home_id", "keeper")

    def __init__(self, message: Message, queue: Queue, delivery_count: int, keeper: object, home_id: int) -> None:
        super().__init__(message, queue, 0, delivery_count)
        self.keeper = keeper
        """The object that tells the home how the message was settled."""
        self.home_id = home_id


class _Level:
    __slots__ = ("generation", "head", "later", "put_back", "tail")

    def __init__(self) -> None:
        self.head: Reference | None = None
        self.tail: Reference | None = None
        self.later: deque[Message | Reference] | None = None
        """Messages behind the tail; a reference only where other code may hold that.  Empty while there is no tail."""
        self.put_back: Reference | None = None
        """The reference that was put back last, while it waits: references put back together are neighbours."""
        self.generation = 0
        """Rises whenever something was put in before the tail, so that cursors start again."""


class Cursor:
    """A place in a list: how far a consumer, a browser or a scan has looked.

    The cursor of a consumer with a filter ``restarts`` when a reference was put in before the end; a browser's goes on, so that it shows no
    message twice.
    """

    __slots__ = ("generations", "restarts", "seen", "unfinished")

    def __init__(self, restarts: bool) -> None:
        self.restarts = restarts
        self.unfinished = False
        """The budget of the turn ended before the last search did; it goes on in a later one."""
        self.seen: list[Reference | None] = [None] * PRIORITIES
        self.generations = [0] * PRIORITIES

    def place(self, priority: int, reference: Reference | None) -> None:
        """Stand on ``reference``; None is the place before the first."""
        old = self.seen[priority]
        if old is reference:
            return
        if old is not None and old.cursors is not None:
            old.cursors.remove(self)
        if reference is not None:
            if reference.cursors is None:
                reference.cursors = [self]
            else:
                reference.cursors.append(self)
        self.seen[priority] = reference

    def copy(self) -> Cursor:
        """Another one that stands in the same places."""
        other = Cursor(self.restarts)
        other.generations = list(self.generations)
        for priority, reference in enumerate(self.seen):
            other.place(priority, reference)
        return other

    def close(self) -> None:
        """Stand nowhere."""
        for priority in range(PRIORITIES):
            self.place(priority, None)


class ReferenceList:
    """The waiting references of a queue, highest priority first, in order within a priority.

    ``expiring`` is set when a message with an expiration comes; a scan that finds none may clear it.
    """

    __slots__ = ("_first_order", "_levels", "_mask", "_next_order", "_queue", "count", "expiring")

    def __init__(self) -> None:
        self._queue: Queue | None = None
        """The queue of the messages without a reference."""
        self._levels = [_Level() for _ in range(PRIORITIES)]
        self._mask = 0
        self._next_order = 1
        self._first_order = 0
        self.count = 0
        self.expiring = False

    def take_over(self, other: ReferenceList) -> None:
        """Take over the references of ``other``, which is not used any more.  Cursors keep their places."""
        self._levels = other._levels
        self._queue = other._queue
        self._mask = other._mask
        self._next_order = other._next_order
        self._first_order = other._first_order
        self.count = other.count
        self.expiring = other.expiring

    @property
    def next_order(self) -> int:
        """The order of the next reference that comes."""
        return self._next_order

    @property
    def is_long(self) -> bool:
        """Do messages that come wait without a reference?"""
        return self.count >= REFERENCES_AHEAD

    def head(self) -> Reference | None:
        """The reference that is next in turn."""
        mask = self._mask
        return self._levels[mask.bit_length() - 1].head if mask else None

    def take_head(self) -> Reference | None:
        """Take out the reference that is next in turn; None when there is none."""
        mask = self._mask
        if not mask:
            return None
        priority = mask.bit_length() - 1
        level = self._levels[priority]
        reference = level.head
        assert reference is not None
        following = level.head = reference.following
        if following is None:
            level.tail = None
            if level.later:
                self._make_more(level, priority)
            else:
                self._mask = mask & ~(1 << priority)
        else:
            following.preceding = None
            reference.following = None
        if level.put_back is reference:
            level.put_back = None
        if reference.cursors:
            for cursor in list(reference.cursors):
                cursor.place(priority, None)
        reference.listed = False
        self.count -= 1
        return reference

    def append(self, reference: Reference) -> None:
        """Put a reference at the end of its priority."""
        priority = reference.priority
        level = self._levels[priority]
        message = reference.message
        if message.expiration:
            self.expiring = True
        # The id of the message serves where it ascends: a number that is there already takes no memory.
        order = message.message_id
        if order < self._next_order:
            order = self._next_order
        reference.order = order
        self._next_order = order + 1
        reference.listed = True
        self.count += 1
        if level.later:
            level.later.append(reference)
            return
        tail = level.tail
        reference.following = None
        reference.preceding = tail
        if tail is None:
            level.head = reference
            self._mask |= 1 << priority
        else:
            tail.following = reference
        level.tail = reference

    def append_messages(self, messages: Iterable[Message], queue: Queue) -> None:
        """Put messages of ``queue`` at the end, each by its priority.  They have no schedule and no delivery count, and no reference
        exists."""
        self._queue = queue
        append = self.append
        room = REFERENCES_AHEAD - self.count
        for message in messages:
            if room > 0:
                room -= 1
                append(Reference(message, queue))
            else:
                self._append_later(message, queue)

    def _append_later(self, message: Message, queue: Queue) -> None:
        priority = message.priority
        level = self._levels[priority]
        order = message.message_id
        if level.tail is None or order < self._next_order:
            self.append(Reference(message, queue))
            return
        if message.expiration:
            self.expiring = True
        self._next_order = order + 1
        if level.later is None:
            level.later = deque()
        level.later.append(message)
        self.count += 1

    def _make_more(self, level: _Level, priority: int) -> None:
        """Make references of the next ones that wait behind the tail."""
        later, queue = level.later, self._queue
        assert later and queue is not None
        tail = level.tail
        for _ in range(min(MADE_TOGETHER, len(later))):
            waiting = later.popleft()
            if isinstance(waiting, Reference):
                reference = waiting
            else:
                reference = Reference(waiting, queue)
                # Management may have changed that of the message, for another queue.
                reference.priority = priority
                reference.order = waiting.message_id
                reference.listed = True
            reference.preceding = tail
            if tail is None:
                level.head = reference
            else:
                tail.following = reference
            tail = reference
        level.tail = tail

    def insert(self, reference: Reference) -> None:
        """Put a reference that was here before back into its original place."""
        priority = reference.priority
        level = self._levels[priority]
        order = reference.order
        if level.later and _order_of(level.later[-1]) < order:
            if reference.message.expiration:
                self.expiring = True
            reference.listed = True
            self.count += 1
            level.later.append(reference)
            return
        while level.later and level.tail is not None and level.tail.order < order:
            self._make_more(level, priority)
        successor = level.put_back or level.head
        while successor is not None and successor.order < order:
            successor = successor.following
        while successor is not None and successor.preceding is not None and successor.preceding.order > order:
            successor = successor.preceding
        level.put_back = reference
        self._link_before(reference, successor, level, priority)

    def prepend(self, reference: Reference) -> None:
        """Put a reference before all others of its priority."""
        priority = reference.priority
        level = self._levels[priority]
        reference.order = self._first_order
        self._first_order -= 1
        self._link_before(reference, level.head, level, priority)

    def remove(self, reference: Reference) -> None:
        priority = reference.priority
        level = self._levels[priority]
        if reference.preceding is None and level.head is not reference:
            assert level.later
            if level.later[-1] is reference:
                level.later.pop()
            else:
                level.later.remove(reference)
            reference.listed = False
            self.count -= 1
            return
        preceding, following = reference.preceding, reference.following
        if preceding is None:
            level.head = following
        else:
            preceding.following = following
        if following is None:
            level.tail = preceding
            if preceding is None:
                if level.later:
                    self._make_more(level, priority)
                else:
                    self._mask &= ~(1 << priority)
        else:
            following.preceding = preceding
        if level.put_back is reference:
            level.put_back = None
        if reference.cursors:
            for cursor in list(reference.cursors):
                cursor.place(priority, preceding)
        reference.listed = False
        reference.preceding = reference.following = None
        self.count -= 1

    def search(self, cursor: Cursor, accept: Callable[[Reference], bool], scan: ScanBudget | None = None) -> Reference | None:
        """The next reference after ``cursor`` that is accepted.  The cursor then stands on it, or on the last one if there is none.

        With a budget the search may end before it: ``scan.left`` is 0 then, and the cursor stands on the last one that was looked at.
        """
        allowed = -1 if scan is None else scan.take()
        for priority in range(PRIORITIES - 1, -1, -1):
            level = self._levels[priority]
            if level.head is None:
                continue
            if cursor.generations[priority] != level.generation:
                cursor.generations[priority] = level.generation
                if cursor.restarts:
                    cursor.place(priority, None)
            seen = cursor.seen[priority]
            reference = level.head if seen is None else seen.following
            last = seen
            if reference is None and level.later:
                reference = self._after_tail(level, priority)
            while reference is not None:
                if not allowed:
                    assert scan is not None
                    allowed = scan.take()
                    if not allowed:
                        cursor.place(priority, last)
                        return None
                allowed -= 1
                last = reference
                if accept(reference):
                    break
                reference = reference.following
                if reference is None and level.later:
                    reference = self._after_tail(level, priority)
            cursor.place(priority, last)
            if reference is not None:
                break
        else:
            reference = None
        if scan is not None:
            scan.left += allowed
        return reference

    def __iter__(self) -> Iterator[Reference]:
        """All references in order.  The current one may be removed while iterating."""
        for priority in range(PRIORITIES - 1, -1, -1):
            level = self._levels[priority]
            reference = level.head
            while reference is not None:
                following = reference.following
                if following is None and level.later:
                    following = self._after_tail(level, priority)
                yield reference
                reference = following

    def _after_tail(self, level: _Level, priority: int) -> Reference | None:
        """The first of the references that are made behind the tail, which is there."""
        tail = level.tail
        assert tail is not None
        self._make_more(level, priority)
        return tail.following

    def _link_before(self, reference: Reference, successor: Reference | None, level: _Level, priority: int) -> None:
        preceding = level.tail if successor is None else successor.preceding
        if reference.message.expiration:
            self.expiring = True
        reference.listed = True
        reference.preceding = preceding
        reference.following = successor
        if preceding is None:
            level.head = reference
        else:
            preceding.following = reference
        if successor is None:
            level.tail = reference
        else:
            successor.preceding = reference
        level.generation += 1
        self._mask |= 1 << priority
        self.count += 1


def _order_of(waiting: Message | Reference) -> int:
    return waiting.order if isinstance(waiting, Reference) else waiting.message_id
