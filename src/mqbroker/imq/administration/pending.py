"""Operations of management whose result comes later: the request waits for it, without holding up others."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mqbroker.messaging.turns.undecided import Undecided

T = TypeVar("T")

_Waiter = list[Callable[[], object]]
"""The functions of one request that waits."""


class _Work:
    """Work that was begun, with the requests that wait for it."""

    def __init__(self) -> None:
        self.waiting: list[_Waiter] = []
        self.done = False
        self.result: object = None
        self.given_up = False
        """Have all that have waited gone?"""


class Pending:
    """Work that was begun for a request, until the request is handled again and takes the result."""

    def __init__(self) -> None:
        self._works: dict[Hashable, _Work] = {}

    def result(self, key: Hashable, begin: Callable[[], Deferred[T]]) -> T:
        """The result of the work ``key``, which ``begin`` begins where nobody has.

        Raises Undecided while there is none, and the error of the work.
        """
        work = self._works.get(key)
        if work is None:
            work = self._works[key] = _Work()
            begin().addBoth(self._done, key, work)
        if work.done:
            del self._works[key]
            if isinstance(work.result, Failure):
                work.result.raiseException()
            return cast("T", work.result)
        waiter: _Waiter = []
        work.waiting.append(waiter)
        work.given_up = False
        raise Undecided(waiter.append, lambda: self._withdraw(key, work, waiter))

    def _done(self, result: object, key: Hashable, work: _Work) -> None:
        work.done, work.result = True, result
        if work.given_up:
            del self._works[key]
        for waiter in list(work.waiting):
            for function in waiter:
                function()

    def _withdraw(self, key: Hashable, work: _Work, waiter: _Waiter) -> None:
        """The client that has asked is gone, or has its answer; the work goes on.  Nobody hears of its result where nobody else waits."""
        if self._works.get(key) is work and waiter in work.waiting:
            work.waiting.remove(waiter)
            if not work.waiting:
                work.given_up = True
                if work.done:
                    del self._works[key]
