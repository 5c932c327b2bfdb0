"""The change record as the master broker has it: it appends changes, refuses others, and finds those that a member lacks [B8.1, B8.4]."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from mqbroker.imq.record.changes import ADDRESS, QUEUE, SETTINGS, Kind, Recorded, Wish, same
from mqbroker.imq.record.followed import Life
from mqclient.errors import (
    AddressDoesNotExistError,
    AddressExistsError,
    DivertDoesNotExistError,
    IllegalStateError,
    MQError,
    QueueDoesNotExistError,
    QueueExistsError,
)

PAGE_MAX = 500
"""Changes in one answer to a member: a few hundred kilobytes."""

SLACK_MAX = 1000
"""Changes that later ones have replaced: with so many more than there are definitions the record is compressed."""

FORMER_MAX = 100
"""Earlier records that a record remembers to have come from."""


class Appended(NamedTuple):
    """``position`` is where the wish stands in the record; ``change`` is None when it stood there before."""

    position: int
    change: Recorded | None


class Page(NamedTuple):
    """Changes in their order.  ``reset``: the member takes over everything, beginning with these; ``more`` is to be asked for.

    ``floor`` is that of the record: while it stays, the pages of everything belong together.
    """

    reset: bool
    changes: Sequence[Recorded]
    more: bool
    floor: int


class ChangeRecord:
    """A list of changes that begins with a reset record; the last change for each unique key counts.

    ``generation`` names this record, ``former`` the records that it has come from, the newest last.  Positions never change within a
    generation: compression leaves gaps.
    """

    def __init__(self, reset: Recorded) -> None:
        self.generation: str = reset.form["generation"]
        self.former: tuple[str, ...] = tuple(reset.form["former"])
        self.last = reset.position
        self._changes: dict[int, Recorded] = {reset.position: reset}
        """By position, ascending."""
        self._present: dict[str, Recorded] = {}
        """The last change of everything that is defined, by key."""
        self._removals: dict[str, int] = {}
        """The positions of removals that are still in the list, by key."""
        self.floor = 0
        """A member that stands below has missed something that is in the list no more."""

    @classmethod
    def begin(cls, generation: str, origin: str, time_ms: int, former: Sequence[str] = ()) -> ChangeRecord:
        """A record without a definition."""
        form = {"generation": generation, "former": list(former[-FORMER_MAX:])}
        return cls(Recorded(1, Kind.RESET, "", form, origin, time_ms))

    @classmethod
    def load(cls, changes: Iterable[Recorded]) -> ChangeRecord:
        """The record of these changes.  Raises ValueError unless they begin with a reset record, the only one, and ascend."""
        listed = iter(changes)
        first = next(listed, None)
        if first is None:
            raise ValueError("the record is empty")
        if first.kind is not Kind.RESET:
            raise ValueError(f"the record begins with {first.kind}, not with {Kind.RESET}")
        record = cls(first)
        record.extend(listed)
        return record

    def extend(self, changes: Iterable[Recorded]) -> None:
        """Go on with changes that somebody else has appended.  Raises ValueError for a reset record, and unless they ascend."""
        for change in changes:
            if change.kind is Kind.RESET:
                raise ValueError(f"the record has a second {Kind.RESET}, at {change.position}")
            if change.position <= self.last:
                raise ValueError(f"the position {change.position} follows {self.last}")
            if change.position > self.last + 1:
                self.floor = change.position - 1
            self._put(change)

    # --- what is in it

    @property
    def changes(self) -> list[Recorded]:
        """All that are in the list."""
        return list(self._changes.values())

    @property
    def definitions(self) -> list[Recorded]:
        """The changes that define what there is, in their order."""
        return sorted(self._present.values(), key=lambda each: each.position)

    @property
    def reset(self) -> Recorded:
        return next(iter(self._changes.values()))

    def get(self, key: str) -> Recorded | None:
        """The change that defines what has this key; None where nothing has."""
        return self._present.get(key)

    def __len__(self) -> int:
        """The number of definitions."""
        return len(self._present)

    # --- appending

    def append(self, wish: Wish, origin: str, time_ms: int, known: int, deployed: bool = False) -> Appended:
        """Put a wish of the broker ``origin``, which has the record up to ``known``, at the end of the list.

        A wish for what is so already changes nothing.  Two different definitions of one name are refused, with both origins; ``deployed``:
        the wish comes from a configuration file, and changes nothing that another broker has defined.  Raises an MQError.
        """
        existing = self._present.get(wish.key)
        if wish.action == "delete":
            if existing is None:
                return Appended(self._removals.get(wish.key, self.last), None)
            return self._append(wish, origin, time_ms)
        if existing is None:
            if wish.action == "update":
                self._check_missing(wish, known)
            return self._append(wish, origin, time_ms)
        if same(existing.form, wish.form):
            return Appended(existing.position, None)
        if wish.action == "create" or (deployed and existing.origin != origin):
            raise _conflict(existing, wish, origin)
        return self._append(wish, origin, time_ms)

    def _check_missing(self, wish: Wish, known: int) -> None:
        """Refuse to update a definition that was removed unknown to the broker; others not in the record were made automatically."""
        if known < max(self.floor, self._removals.get(wish.key, 0)):
            raise _missing(wish)

    def _append(self, wish: Wish, origin: str, time_ms: int) -> Appended:
        removes, existing = wish.kind.removes, self._present.get(wish.key)
        made, generation = (None, None) if removes or existing is None else (existing.life, existing.generation)
        change = Recorded(self.last + 1, wish.kind, wish.key, {} if removes else wish.form, origin, time_ms, made, generation)
        self._put(change)
        return Appended(change.position, change)

    def _put(self, change: Recorded) -> None:
        self._changes[change.position] = change
        self.last = change.position
        if not change.kind.removes:
            self._present[change.key] = change
            self._removals.pop(change.key, None)
            return
        self._remove(change.key, change.position)
        subject, _, name = change.key.partition(":")
        if subject == ADDRESS:
            for key in [key for key, each in self._present.items() if key.startswith(QUEUE) and each.form.get("address") == name]:
                self._remove(key, change.position)

    def _remove(self, key: str, position: int) -> None:
        self._present.pop(key, None)
        self._removals[key] = position

    # --- compression

    @property
    def slack(self) -> int:
        """Changes that later ones have replaced, and removals."""
        return len(self._changes) - len(self._present) - 1

    def compress(self) -> list[int]:
        """Keep the reset record, the last change of everything that is defined, and the very last.  Returns the positions that are free."""
        kept = {change.position for change in self._present.values()} | {self.reset.position, self.last}
        dropped = [position for position in self._changes if position not in kept]
        for position in dropped:
            del self._changes[position]
        if dropped:
            self.floor = max(self.floor, dropped[-1])
        self._removals = {key: position for key, position in self._removals.items() if position == self.last}
        return dropped

    def renewed(self, generation: str, origin: str, time_ms: int) -> ChangeRecord:
        """A compressed record of its own generation with the same definitions: whoever has another one takes over everything of it."""
        record = ChangeRecord.begin(generation, origin, time_ms, (*self.former, self.generation))
        for change in self.definitions:
            made_in = change.generation or self.generation
            record._put(replace(change, position=record.last + 1, made=change.life, generation=made_in))
        return record

    # --- what a member lacks

    def knows(self, generation: str | None) -> bool:
        """Is this the record that a broker has followed, or one that has come from it?  A broker without one (None) may follow any."""
        return generation is None or generation == self.generation or generation in self.former

    def is_later(self, change: Recorded, life: Life) -> bool:
        """Was the queue that ``change`` defines made after one of its name with this life?  False where that cannot be told any more."""
        generations = (*self.former, self.generation)
        made_in, known = change.generation or self.generation, life[0]
        if made_in not in generations or known not in generations:
            return False
        return (generations.index(made_in), change.life) > (generations.index(known), life[1])

    def since(self, generation: str | None, position: int, limit: int = PAGE_MAX) -> Page:
        """The changes after ``position`` of ``generation``: all from the reset record on, where the list does not have all any more."""
        reset = generation != self.generation or not max(self.floor, 1) <= position <= self.last
        return self._page(reset, 0 if reset else position, limit)

    def following(self, position: int, floor: int, limit: int = PAGE_MAX) -> Page:
        """A further page of everything, after ``position``: the first one again where ``floor`` holds no more."""
        reset = floor != self.floor
        return self._page(reset, 0 if reset else position, limit)

    def _page(self, reset: bool, position: int, limit: int) -> Page:
        found = list(islice((change for change in self._changes.values() if change.position > position), limit + 1))
        return Page(reset, found[:limit], len(found) > limit, self.floor)


def _conflict(existing: Recorded, wish: Wish, origin: str) -> MQError:
    text = f"{existing.name} is defined by {existing.origin}, at {existing.position} in the change record, and differently by {origin}"
    return _ALREADY.get(wish.key.partition(":")[0], IllegalStateError)(text)


def _missing(wish: Wish) -> MQError:
    return _AWAY.get(wish.key.partition(":")[0], DivertDoesNotExistError)(f"{wish.name} was removed on another broker")


_ALREADY: dict[str, type[MQError]] = {ADDRESS: AddressExistsError, QUEUE: QueueExistsError}
_AWAY: dict[str, type[MQError]] = {ADDRESS: AddressDoesNotExistError, QUEUE: QueueDoesNotExistError, SETTINGS: IllegalStateError}
