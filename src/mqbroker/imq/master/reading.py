"""Lets clients wait until this broker has read the change record, where their requests are answered by what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mqbroker.imq.master import sync_machine as states
from mqbroker.imq.master.following import Follower

READ_SECONDS = 5.0
"""How long a client waits for the record at most, before it is answered by what this broker has read."""


class ReadingOwner(Protocol):
    """The part of this broker that knows who keeps the record (:class:`mqbroker.imq.master.recording.Recording`)."""

    state: str
    """The state of :mod:`mqbroker.imq.master.sync_machine`."""

    def later(self, seconds: float, function: Callable[..., object], *args: object) -> None:
        """Call ``function`` in a turn, unless the broker stops before."""


class Reading:
    """Reads on for clients, for all at once that have come while a question was under way.

    Nobody waits where the record is here, or cannot be asked; nor after somebody has waited in vain, until the keeper of the record has
    answered.
    """

    def __init__(self, owner: ReadingOwner, follower: Follower) -> None:
        self._owner = owner
        self._follower = follower
        self._late = False
        """Has a client waited in vain for a question that is still without an answer?"""

    def read_on(self, done: Callable[[], object]) -> bool:
        """As :meth:`mqbroker.imq.definitions.registrar.Recorder.read_on`."""
        if self._owner.state != states.running.name or self._late or not self._follower.can_ask:
            return False
        waiting = [done]
        self._owner.later(READ_SECONDS, self._give_up, waiting)
        self._follower.read_on(lambda error: self._read(waiting))
        return True

    def _read(self, waiting: list[Callable[[], object]]) -> None:
        self._late = False
        self._go_on(waiting)

    def _give_up(self, waiting: list[Callable[[], object]]) -> None:
        if waiting:
            self._late = True
            self._go_on(waiting)

    @staticmethod
    def _go_on(waiting: list[Callable[[], object]]) -> None:
        while waiting:
            waiting.pop()()
