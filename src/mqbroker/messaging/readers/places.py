"""Places in the pages of queues, kept so that a request that continues another needs no search."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict

from mqbroker.messaging.ports import PageScan
from mqbroker.messaging.readers.rows import NO_ROWS

PLACES_KEPT_MAX = 256
"""Places in the pages of one queue where readers may go on without a search."""

PLACES_IN_ALL_MAX = 512
"""Places in the pages of all queues where readers may go on. A place holds the rest of a piece of a page, about 40 KB, so that all of them
hold 20 MB."""


class Source:
    """The pages of one address; ``waiting`` are rows that have been read and not given yet."""

    __slots__ = ("ended", "scan", "waiting")

    def __init__(self, scan: PageScan) -> None:
        self.scan = scan
        self.waiting = NO_ROWS
        self.ended = False


class Place:
    """A place in the pages of a queue: all messages up to ``position`` have been given."""

    __slots__ = ("position", "sources")

    def __init__(self, position: int) -> None:
        self.position = position
        self.sources: dict[str, Source] = {}

    def moved(self, position: int) -> Place:
        """Another one, further on."""
        other = self.copy()
        other.move(position)
        return other

    def move(self, position: int) -> None:
        """Go on behind ``position``."""
        self.position = position
        for source in self.sources.values():
            rows = source.waiting
            source.waiting = rows.part(bisect_right(rows.keys, position), len(rows.keys))

    def copy(self) -> Place:
        other = Place(self.position)
        for name, source in self.sources.items():
            twin = other.sources[name] = Source(source.scan.copy())
            twin.waiting, twin.ended = source.waiting, source.ended
        return other


class KeptPlaces:
    """The places of all queues by owner and position; the least recently used are dropped first."""

    def __init__(self) -> None:
        self._by_owner: dict[object, OrderedDict[int, Place]] = {}
        self._all: OrderedDict[tuple[object, int], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    def take(self, owner: object, after: int) -> Place:
        """The place at ``after``, which is kept no more; else a new one, at the nearest before it."""
        kept = self._by_owner.get(owner)
        if not kept:
            return Place(after)
        known = kept.pop(after, None)
        if known is not None:
            del self._all[owner, after]
            if not kept:
                del self._by_owner[owner]
            return known
        before = [position for position in kept if position < after]
        return kept[max(before)].moved(after) if before else Place(after)

    def keep(self, owner: object, place: Place) -> None:
        """Keep a place at which a later request may go on."""
        if not place.sources:
            return
        kept = self._by_owner.setdefault(owner, OrderedDict())
        kept[place.position] = place
        kept.move_to_end(place.position)
        self._all[owner, place.position] = None
        self._all.move_to_end((owner, place.position))
        if len(kept) > PLACES_KEPT_MAX:
            self._drop(owner, next(iter(kept)))
        if len(self._all) > PLACES_IN_ALL_MAX:
            self._drop(*next(iter(self._all)))

    def forget(self, owner: object, position: int | None = None) -> None:
        """Drop the places of one queue before ``position``; None: all its places."""
        for known in list(self._by_owner.get(owner, ())):
            if position is None or known < position:
                self._drop(owner, known)

    def _drop(self, owner: object, position: int) -> None:
        del self._all[owner, position]
        kept = self._by_owner[owner]
        del kept[position]
        if not kept:
            del self._by_owner[owner]
