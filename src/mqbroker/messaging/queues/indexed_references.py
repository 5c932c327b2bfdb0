"""The waiting references of a queue that is read by message id, beside their order of delivery.

A queue has this list instead of its ordinary one only while it is read by id, so that other queues pay nothing for readers.  The index is a
sorted array of ids with the references beside it.  A reference that leaves at the front moves the beginning of the array; one that leaves
elsewhere leaves a gap, and too many gaps are removed together.

A long list is indexed in pieces, over several turns: references that come meanwhile are put aside, and entered at the end.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.references import Cursor, Reference, ReferenceList

if TYPE_CHECKING:
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.messaging.turns.steps import Steps

GAPS_KEPT = 4096
"""Entries at the front that are done with, or gaps, which the index keeps before it is made anew."""


INDEXED_AT_ONCE = 1000
"""References that are entered into the index together, while it is built."""

RUNS_MERGED = 64
"""Ascending runs of ids that are merged in pieces; of more the whole is sorted at once."""


class IndexedReferences(ReferenceList):
    """A :class:`ReferenceList` that also knows its references by message id.

    While the list ``renews``, a reference with an id up to ``bound``, or that was scheduled, is given to ``late`` instead of being entered:
    it must not appear below ids that were handed out.  ``floor`` is the greatest id that has left.
    """

    __slots__ = ("_first", "_gaps", "_ids", "_late", "_meanwhile", "_references", "bound", "floor", "renews")

    def __init__(self, other: ReferenceList, late: Callable[[Reference], object]) -> None:
        """No reference can be found by id before :meth:`build` has ended."""
        super().__init__()
        self.take_over(other)
        self._late = late
        self._ids = array("q")
        self._references: list[Reference | None] = []
        self._meanwhile: dict[Reference, None] | None = {}
        """References that have come while the index is built; None when it is complete."""
        self._first = 0
        self._gaps = 0
        self.bound = 0
        self.floor = 0
        self.renews = False

    @property
    def building(self) -> bool:
        """Is the index not there yet?"""
        return self._meanwhile is not None

    def build(self) -> Steps[None]:
        """Enter the references of the list."""
        runs: list[list[Reference]] = []
        for some in self._walked():
            for reference in some:
                if not runs or runs[-1][-1].message.message_id > reference.message.message_id:
                    runs.append([])
                runs[-1].append(reference)
            yield len(some)
        ordered: Iterable[Reference]
        if len(runs) > RUNS_MERGED:
            ordered = sorted((reference for run in runs for reference in run), key=_message_id)
        else:
            ordered = runs[0] if len(runs) == 1 else heapq.merge(*runs, key=_message_id)
        following = iter(ordered)
        while (meanwhile := self._meanwhile) is not None and (some := list(islice(following, INDEXED_AT_ONCE))):
            kept = [reference for reference in some if reference.listed and reference not in meanwhile]
            self._ids.extend([reference.message.message_id for reference in kept])
            self._references += kept
            yield len(some)
        if meanwhile is not None:
            self._meanwhile = None
            for reference in meanwhile:
                self._enter(reference, reference.message.message_id)

    def _walked(self) -> Iterator[list[Reference]]:
        """All references, some at a time; ends when the list is given up."""
        cursor = Cursor(restarts=False)
        found: list[Reference] = []

        def take(reference: Reference) -> bool:
            found.append(reference)
            return len(found) >= INDEXED_AT_ONCE

        try:
            while self._meanwhile is not None and self.search(cursor, take) is not None:
                yield found
                found = []
            if self._meanwhile is not None:
                yield found
        finally:
            cursor.close()

    def plain(self) -> ReferenceList:
        """An ordinary list that takes over the references."""
        self._meanwhile = None
        other = ReferenceList()
        other.take_over(self)
        return other

    # --- by id

    @property
    def last_id(self) -> int:
        """The greatest id that is here, 0 when there is none."""
        ids, references = self._ids, self._references
        at = len(ids) - 1
        while at >= self._first and references[at] is None:
            at -= 1
        return ids[at] if at >= self._first else 0

    @property
    def first_id(self) -> int:
        """The smallest id that is here, 0 when there is none."""
        return self._ids[self._first] if self._first < len(self._ids) else 0

    def count_until(self, message_id: int) -> int:
        """How many references have an id up to this one; gaps are counted, too."""
        return bisect_right(self._ids, message_id, self._first) - self._first

    def between(self, after: int, until: int, limit: int) -> list[Reference]:
        """The first references with ids in (after, until], at most ``limit``."""
        start = bisect_right(self._ids, after, self._first)
        end = bisect_right(self._ids, until, start)
        if not self._gaps:
            return self._references[start : min(end, start + limit)]  # type: ignore[return-value]
        found: list[Reference] = []
        while start < end and len(found) < limit:
            some = self._references[start : min(end, start + limit - len(found))]
            start += len(some)
            found += [reference for reference in some if reference is not None]
        return found

    def find(self, message_id: int) -> Reference | None:
        """The reference with this id."""
        at = bisect_left(self._ids, message_id, self._first)
        while at < len(self._ids) and self._ids[at] == message_id:
            reference = self._references[at]
            if reference is not None:
                return reference
            at += 1
        return None

    # --- in and out

    def append(self, reference: Reference) -> None:
        message_id = reference.message.message_id
        if message_id <= self.bound and self.renews:
            self._late(reference)
            return
        super().append(reference)
        self._enter(reference, message_id)

    def append_messages(self, messages: Iterable[Message], queue: Queue) -> None:
        for message in messages:
            self.append(Reference(message, queue))

    def insert(self, reference: Reference) -> None:
        if self.renews and reference.message.message_id <= self.bound:
            self._late(reference)
            return
        super().insert(reference)
        self._enter(reference, reference.message.message_id)

    def prepend(self, reference: Reference) -> None:
        if self.renews:
            # Its time has come, by a clock that may go back: its schedule is to be forgotten.
            self._late(reference)
            return
        super().prepend(reference)
        self._enter(reference, reference.message.message_id)

    def take_head(self) -> Reference | None:
        reference = super().take_head()
        if reference is not None:
            self._leave(reference)
        return reference

    def remove(self, reference: Reference) -> None:
        super().remove(reference)
        self._leave(reference)

    def _enter(self, reference: Reference, message_id: int) -> None:
        if self._meanwhile is not None:
            self._meanwhile[reference] = None
            return
        ids = self._ids
        if not ids or message_id > ids[-1]:
            ids.append(message_id)
            self._references.append(reference)
        else:
            at = bisect_right(ids, message_id, self._first)
            ids.insert(at, message_id)
            self._references.insert(at, reference)

    def _leave(self, reference: Reference) -> None:
        ids, references = self._ids, self._references
        message_id = reference.message.message_id
        if message_id > self.floor:
            self.floor = message_id
        at = bisect_left(ids, message_id, self._first)
        if self._meanwhile is not None:
            self._meanwhile.pop(reference, None)
            at = next((place for place in range(at, bisect_right(ids, message_id, at)) if references[place] is reference), -1)
            if at < 0:
                return  # not entered yet
        while references[at] is not reference:
            at += 1
        references[at] = None
        if at > self._first:
            self._gaps += 1
        else:
            at += 1
            while self._gaps and at < len(references) and references[at] is None:
                at += 1
                self._gaps -= 1
            self._first = at
        if self._first + self._gaps > GAPS_KEPT and 2 * (self._first + self._gaps) > len(ids):
            self._make_anew()

    def _make_anew(self) -> None:
        kept = [reference for reference in self._references if reference is not None]
        self._ids = array("q", [reference.message.message_id for reference in kept])
        self._references = [*kept]
        self._first = self._gaps = 0


def _message_id(reference: Reference) -> int:
    return reference.message.message_id
