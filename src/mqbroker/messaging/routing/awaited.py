"""Queues of other brokers that a message names before they are known here.

In a chain a restarted broker gets messages for queues behind its other neighbours before it knows these queues.  The link that brings such
a message waits a while, with all later messages: so no message is lost, and the order stays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mqbroker.messaging.routing.remote import REMOTE_ID_BASE
from mqbroker.messaging.turns.undecided import Undecided

if TYPE_CHECKING:
    from mqbroker.messaging.ports import Cancellable, Clock
    from mqbroker.messaging.turns.turn import Turn

PATIENCE_SECONDS = 10.0
"""The time to wait for a queue: a link between brokers is up again long before."""

MISSED_MAX = 1000
"""Ids of other brokers' queues that were awaited in vain, or whose queues were removed; messages do not wait for these ids again."""


class _Awaited:
    def __init__(self, timer: Cancellable) -> None:
        self.timer = timer
        self.waiting: list[Callable[[], object]] = []


class AwaitedQueues:
    """The awaited queues, by the ids that this broker gives to queues of others."""

    def __init__(self, clock: Clock, turn: Turn) -> None:
        self._clock = clock
        self._turn = turn
        self._awaited: dict[int, _Awaited] = {}
        self._missed: dict[int, None] = {}

    def check(self, binding_id: int) -> None:
        """Raises :class:`Undecided` for the id of a remote queue that may still become known."""
        if binding_id >= REMOTE_ID_BASE and binding_id not in self._missed:
            raise Undecided(partial(self._wait, binding_id))

    def came(self, binding_id: int) -> None:
        """The queue is known now."""
        self._missed.pop(binding_id, None)
        self._release(binding_id)

    def gone(self, binding_id: int) -> None:
        """The queue is removed for good: messages no longer wait for it."""
        self._do_not_expect(binding_id)

    def stop(self) -> None:
        """End every timer, without calling the waiting functions."""
        for awaited in self._awaited.values():
            awaited.timer.cancel()
        self._awaited.clear()

    def _wait(self, binding_id: int, function: Callable[[], object]) -> None:
        awaited = self._awaited.get(binding_id)
        if awaited is None:
            timer = self._clock.call_later(PATIENCE_SECONDS, self._turn.run, self._missing, binding_id)
            awaited = self._awaited[binding_id] = _Awaited(timer)
        awaited.waiting.append(function)

    def _missing(self, binding_id: int) -> None:
        self._do_not_expect(binding_id)
        self._release(binding_id)

    def _do_not_expect(self, binding_id: int) -> None:
        if len(self._missed) >= MISSED_MAX:
            del self._missed[next(iter(self._missed))]
        self._missed[binding_id] = None

    def _release(self, binding_id: int) -> None:
        awaited = self._awaited.pop(binding_id, None)
        if awaited is None:
            return
        awaited.timer.cancel()
        for function in awaited.waiting:
            # Not at once: the caller may be in the middle of other work.
            self._clock.call_later(0, function)
