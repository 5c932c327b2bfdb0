"""Looks at the tables of the cluster again and again: how far the record has come, and which brokers are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.imq.links.requests import Peer
from mqbroker.messaging.ports import Cancellable, Clock
from mqbroker.messaging.turns.turn import Turn
from mqbroker.storage.sql.connections import Trouble
from mqclient.errors import MQError

LOOK_SECONDS = 5.0
"""Between two looks.  Changes are told over the links; this makes up for a broker that has died between a change and its telling, as does a
look when a link has ended."""

log = Logger(namespace="mqbroker.imq")

Members = Sequence[tuple[str, bool]]
"""The places of brokers, each with whether it was there lately."""


class Looking:
    """``record_has`` gets generation and position, ``listed`` all members (None: nobody wants them, and this broker is not listed)."""

    def __init__(
        self,
        table: Peer,
        clock: Clock,
        turn: Turn,
        record_has: Callable[[str, int], object],
        listed: Callable[[Members], object] | None,
    ) -> None:
        self._table = table
        self._clock = clock
        self._turn = turn
        self._record_has = record_has
        self._listed = listed
        self._timer: Cancellable | None = None
        self._away = Trouble(clock.monotonic)
        self._again = False
        """Is the next look due as soon as the present one has ended?"""
        self._stopped = False

    def start(self) -> None:
        """Look now, and then again after each :data:`LOOK_SECONDS`."""
        self._turn.run(self._look)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """Look now, inside a turn: a link has ended, perhaps with changes that were told over it."""
        if self._timer is None:
            self._again = True
        else:
            self._timer.cancel()
            self._look()

    def _look(self) -> None:
        self._timer = None
        self._again = False
        asked: Deferred[Any] = self._table.ask("look", self._listed is not None)
        asked.addCallbacks(self._found, self._failed)
        asked.addErrback(lambda failure: log.failure("the tables of the cluster could not be looked at", failure=failure))
        asked.addCallback(self._later)

    def _later(self, result: object) -> None:
        if not self._stopped:
            self._timer = self._clock.call_later(0 if self._again else LOOK_SECONDS, self._turn.run, self._look)

    def _found(self, answer: Any) -> None:
        if self._stopped:
            return
        seconds = self._away.over()
        if seconds is not None:
            log.info("{table} answers again, after {seconds:.0f} s", table=self._table.name, seconds=seconds)
        if answer["generation"]:
            self._record_has(answer["generation"], answer["position"])
        if self._listed is not None:
            self._listed([(str(place), bool(present)) for place, present in answer["members"]])

    def _failed(self, failure: Failure) -> Failure | None:
        if not isinstance(failure.value, MQError):
            return failure
        if not self._stopped and self._away.is_told():
            log.warn("{reason}. Until it does, no definition can be changed; messages go on", reason=failure.getErrorMessage())
        return None
