"""The order of effects and replies within one session (decision 2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from mqbroker.messaging.ports import Store


class Hold:
    """A place in the order behind which nothing runs until it has ``ended``."""

    __slots__ = ("ended",)

    def __init__(self) -> None:
        self.ended = False


class OperationContext:
    """Runs the effects of a session's requests (deliveries, replies) in the order of the requests, each after its work is durable.

    A non-durable send waits for an earlier durable one of the same session, but not for other sessions.
    """

    __slots__ = ("_behind", "_holding", "_last_ticket", "_store", "_waiting")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last_ticket = 0
        self._waiting = 0
        self._holding: Hold | None = None
        """The hold whose turn has come, and which has not ended."""
        self._behind: deque[tuple[Callable[..., object], tuple[Any, ...]]] | None = None
        """Effects that are due, behind that hold or while others run.  None, as mostly: an empty deque takes 700 bytes of each session."""

    @property
    def idle(self) -> bool:
        """Nothing waits."""
        return not self._waiting

    def run(self, ticket: int, function: Callable[..., object], *args: Any) -> None:
        """Call ``function`` once the work up to ``ticket`` is durable and everything that was asked before has run.

        Ticket 0 stands for work that needs no durability of its own.
        """
        store = self._store
        if ticket < self._last_ticket:
            ticket = self._last_ticket
        else:
            self._last_ticket = ticket
        if not self._waiting and ticket <= store.synced:
            function(*args)
        else:
            self._waiting += 1
            store.when_synced(ticket, self._release, function, args)

    def hold(self) -> Callable[[], None]:
        """Let nothing that is asked from now on run before the returned function was called."""
        hold = Hold()
        self._waiting += 1
        self._store.when_synced(self._last_ticket, self._release, self._enter, (hold,))
        return partial(self._end, hold)

    def _release(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self._behind is not None:
            self._behind.append((function, args))
            return
        self._waiting -= 1
        function(*args)

    def _enter(self, hold: Hold) -> None:
        if not hold.ended:
            self._waiting += 1
            self._holding = hold
            if self._behind is None:
                self._behind = deque()

    def _end(self, hold: Hold) -> None:
        hold.ended = True
        if self._holding is not hold:
            return
        self._holding = None
        self._waiting -= 1
        self._go_on()

    def _go_on(self) -> None:
        """Run the effects that are due, up to the next hold, also where one of them raises."""
        while self._behind and self._holding is None:
            function, args = self._behind.popleft()
            self._waiting -= 1
            try:
                function(*args)
            except BaseException:
                self._go_on()
                raise
        if self._holding is None:
            self._behind = None
