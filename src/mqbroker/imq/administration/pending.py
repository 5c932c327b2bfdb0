"""Operations of management whose result comes later: the request waits for it, without holding up others."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mqbroker.messaging.turns.undecided import Undecided

T = TypeVar("T")


class Pending:
    """Work that was begun for a request, until the request is handled again and takes the result."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[Callable[[], object]]] = {}
        self._results: dict[Hashable, object] = {}
        self._given_up: set[Hashable] = set()

    def result(self, key: Hashable, begin: Callable[[], Deferred[T]]) -> T:
        """The result of the work ``key``, which ``begin`` begins where nobody has.

        Raises Undecided while there is none, and the error of the work.
        """
        if key not in self._waiting and key not in self._results:
            self._waiting[key] = []
            begin().addBoth(self._done, key)
        if key in self._results:
            found = self._results.pop(key)
            if isinstance(found, Failure):
                found.raiseException()
            return cast("T", found)
        self._given_up.discard(key)
        raise Undecided(self._waiting[key].append, lambda: self._give_up(key))

    def _done(self, result: object, key: Hashable) -> None:
        waiting = self._waiting.pop(key)
        if key in self._given_up:
            self._given_up.discard(key)
            return
        self._results[key] = result
        for function in waiting:
            function()

    def _give_up(self, key: Hashable) -> None:
        """The client that has asked is gone; the work goes on, and nobody hears of its result."""
        self._results.pop(key, None)
        if key in self._waiting:
            self._given_up.add(key)
