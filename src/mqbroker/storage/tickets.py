"""Tickets: numbers for what a store was told to keep, and whoever waits until it is kept (decision 1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.logger import Logger


class Tickets:
    """The part of the store contract that is the same for every store.

    ``last`` is the ticket handed out last, ``synced`` the highest one whose work is durable.  After :meth:`close` nobody is called.
    """

    _log = Logger()

    def __init__(self) -> None:
        self.last = 0
        self.synced = 0
        self.failed = False
        self._closed = False
        self._waiters: deque[tuple[int, Callable[..., object], tuple[Any, ...]]] = deque()

    def ticket(self) -> int:
        """The ticket of the work handed over last."""
        return self.last

    def when_synced(self, ticket: int, function: Callable[..., object], *args: Any) -> None:
        """See :meth:`mqbroker.messaging.ports.Store.when_synced`."""
        if self._closed:
            return
        if ticket <= self.synced and not self._waiters:
            function(*args)
        else:
            self._waiters.append((ticket, function, args))

    def reached(self, ticket: int) -> None:
        """The work up to ``ticket`` is durable: call who waited for it, in order.  One who raises is logged; the others are called."""
        self.synced = ticket
        waiters = self._waiters
        while waiters and waiters[0][0] <= self.synced:
            _, function, args = waiters.popleft()
            try:
                function(*args)
            except Exception:
                self._log.failure("a call that waited for the store raised")

    def close(self) -> None:
        """Nobody is called from now on."""
        self._closed = True
        self._waiters.clear()
