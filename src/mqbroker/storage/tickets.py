"""Tickets: numbers for what a store was told to keep (decision 1), and whoever waits until that is durable (decision 30).

How a store ends stands here, too: it fails, or it is fenced, and then nobody is told that anything is durable (decision 33).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

from mqbroker.messaging.event import Event
from mqbroker.storage.errors import FencedError, OwnerChangedError


class Condition:
    """One of the things that must hold before work counts as durable.  ``reached`` is the highest ticket for whose work it holds."""

    __slots__ = ("_tickets", "held", "name", "reached")

    def __init__(self, tickets: Tickets, name: str, reached: int) -> None:
        self.name = name
        self.reached = reached
        self.held: Event[int] = Event()
        """The condition holds for the work up to this ticket: told before anybody who waited for that is called."""
        self._tickets = tickets

    def hold(self, ticket: int) -> None:
        """The condition holds for the work up to ``ticket``: call those who waited for nothing else."""
        if ticket > self.reached:
            self.reached = ticket
        if self.held.listeners:
            self.held(ticket)
        self._tickets.settle()

    def withdraw(self) -> None:
        """Nobody demands it any more."""
        if self in self._tickets.conditions:
            self._tickets.conditions.remove(self)
            self._tickets.settle()


class Tickets:
    """The part of the store contract that is the same for every store.

    ``last`` is the ticket handed out last, ``synced`` the highest one whose work is durable: for which all ``conditions`` hold.  The first
    of them, ``own``, is that the store itself has kept the work.  After :meth:`close` nobody is called but ``on_failure``, which hears
    once, with a reason, that the store is lost.
    """

    _log = Logger()

    def __init__(self, on_failure: Callable[[str], object] | None = None) -> None:
        self.on_failure = on_failure
        self.last = 0
        self.synced = 0
        self.failed = False
        self.taken = False
        """Has it failed because another broker owns the data?"""
        self.own = Condition(self, "own store", 0)
        self.conditions = [self.own]
        self.overfull: Event[bool] = Event()
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

    def demand(self, name: str, under_way: bool = False) -> Condition:
        """Let the work that is handed over from now on wait for one more condition.

        Work that was handed over before does not wait for it, with ``under_way`` unless the store itself has kept that.
        """
        condition = Condition(self, name, self.own.reached if under_way else self.last)
        self.conditions.append(condition)
        return condition

    def settle(self) -> None:
        """A condition holds for more: call who waited for that, in order.  One who raises is logged; the others are called."""
        if self._closed:
            return
        self.synced = min(condition.reached for condition in self.conditions) if len(self.conditions) > 1 else self.own.reached
        waiters = self._waiters
        while waiters and waiters[0][0] <= self.synced:
            _, function, args = waiters.popleft()
            try:
                function(*args)
            except Exception:
                self._log.failure("a call that waited for the store raised")

    def wait_for_own_only(self) -> None:
        """The store is being stopped: whoever waits for another condition is not called any more, so that the stop has an end."""
        if len(self.conditions) > 1:
            self._waiters.clear()
            del self.conditions[1:]

    def fail(self, error: BaseException, text: str = "AMQ222010: critical IO error, the store stops: {error}") -> None:
        """The store is lost; ``text`` is for the log."""
        if not self._closed:
            self.failed = True
            self.taken = isinstance(error, OwnerChangedError)
            self.close()
            self._log.error(text, error=error)
            if self.on_failure is not None:
                self.on_failure(f"{type(error).__name__}: {error}")

    def fence(self, reason: str) -> None:
        """See :meth:`mqbroker.messaging.ports.Store.fence`."""
        self.fail(FencedError(reason), "the store is fenced and writes nothing more: {error}")

    def check_open(self) -> None:
        """Raises FencedError when the store was fenced before it was loaded."""
        if self.failed:
            raise FencedError("the store was fenced before it was loaded")

    def close(self) -> None:
        """Nothing is written and nobody is called from now on."""
        self._closed = True
        self._waiters.clear()

    def _left(self, done: Callable[[], object], error: Exception | None) -> None:
        """The folder is free; ``error`` is what the last steps of the disk writer raised."""
        if error is not None:
            self._log.warn("the store did not close properly: {error}", error=error)
        done()
