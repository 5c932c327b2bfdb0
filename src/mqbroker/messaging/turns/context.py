"""The order of effects and replies within one session (decision 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqbroker.messaging.ports import Store


class OperationContext:
    """Runs the effects of a session's requests (deliveries, replies) in the order of the requests, each after its work is durable.

    A non-durable send waits for an earlier durable one of the same session, but not for other sessions.
    """

    __slots__ = ("_last_ticket", "_store", "_waiting")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last_ticket = 0
        self._waiting = 0

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

    def _release(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._waiting -= 1
        function(*args)
