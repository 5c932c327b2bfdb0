"""Asks other copies of a node how they stand, and finds out whether the noted one is gone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from mqbroker.ha.proof.copy_record import OtherCopy
from mqbroker.ha.proof.meeting import MEETING, Standing
from mqbroker.ha.proof.ports import Network, Purpose, SilentError, UnreachableError
from mqbroker.ha.proof.reading_timer import ReadingTimer

if TYPE_CHECKING:
    from mqbroker.messaging.ports import Cancellable, Clock

ANSWER_SECONDS = 2.0
"""How long the other copy may take for an answer, and how long a place has to refuse connections until an active broker counts its replica
as gone: that one opens its acceptors when it begins to take over, and may be late with it."""

GONE_SECONDS = 0.2
"""How long a place has to refuse connections until a replica counts its active broker as gone, whose acceptors are open without a gap."""

DIAL_SECONDS = 1.0
"""How long an active broker without voters waits for one answer from the place of its replica, before it asks there again."""

LATE_SECONDS = 1.0
"""The end of a question may be late by so much.  With :data:`DIAL_SECONDS` that is no more than :data:`ANSWER_SECONDS`: a replica that has
opened its acceptors just after the question has not taken over yet."""

AGAIN_SECONDS = 0.15
"""Between two questions to a place where nobody listens."""


class NotedCopy:
    """The questions of one copy to others.  ``standing`` tells how the own copy stands.

    ``answered(noted, other)`` hears how the copy at the place of the note stands, ``unanswered(absent, reason)`` that there is no answer,
    and whether nobody is active or seeking there.  One of them is called for each :meth:`ask`, unless :meth:`stop` comes first.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        standing: Callable[[], Standing],
        answered: Callable[[OtherCopy, Standing], object],
        unanswered: Callable[[bool, str], object],
    ) -> None:
        self._network = network
        self._clock = clock
        self._standing = standing
        self._answered = answered
        self._unanswered = unanswered
        self._purpose = Purpose.START
        self._absent_at: float | None = None
        """The time until which a place where nobody listens is asked again, as its copy may be between two states; None: once is enough."""
        self._late_at = 0.0
        """After that time the end of a question says nothing of the other copy any more."""
        self._timer: Cancellable | None = None
        self._asked: Deferred[Any] = succeed(None)
        self._step = object()
        """Tells the answer that is waited for from late ones."""

    def ask(self, noted: OtherCopy, purpose: Purpose, by_absence: bool) -> None:
        """Ask the copy of the note.  ``by_absence``: that nobody is there is the proof, and has to be sure."""
        self.stop()
        self._purpose = purpose
        self._absent_at = self._clock.monotonic() + self._refusing_seconds if by_absence else None
        self._ask_noted(noted)

    def stop(self) -> None:
        """Wait for no answer any more."""
        self._step = object()
        self._asked.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def ask_at(self, connector: str, standing: Standing, seconds: float = ANSWER_SECONDS) -> Deferred[Standing]:
        """Ask the copy at ``connector``.  Fails with UnreachableError also when the answer takes too long."""
        answered = self._network.ask_copy(connector, MEETING, standing.encode())
        late: list[bool] = []

        def cancel() -> None:
            late.append(True)
            answered.cancel()

        limit = ReadingTimer(self._clock, seconds, cancel)

        def ended(result: bytes | Failure) -> bytes | Failure:
            limit.cancel()
            if late and not (isinstance(result, Failure) and isinstance(result.value, UnreachableError)):
                raise UnreachableError(f"no answer within {seconds:g} s")
            return result

        return answered.addBoth(ended).addCallback(Standing.decode)

    @property
    def _refusing_seconds(self) -> float:
        return GONE_SECONDS if self._purpose is Purpose.TAKE_OVER else ANSWER_SECONDS

    def _ask_noted(self, noted: OtherCopy) -> None:
        self._timer = None
        looks = self._absent_at is not None and self._purpose is Purpose.GO_ON
        seconds = DIAL_SECONDS if looks else ANSWER_SECONDS
        self._late_at = self._clock.monotonic() + seconds + LATE_SECONDS
        self._step = step = object()
        self._asked = self.ask_at(noted.connector, self._standing(), seconds)
        self._asked.addCallbacks(partial(self._told, step, noted), partial(self._failed, step, noted))

    def _told(self, step: object, noted: OtherCopy, other: Standing) -> None:
        if step is self._step:
            self._answered(noted, other)

    def _failed(self, step: object, noted: OtherCopy, failure: Failure) -> None:
        if step is not self._step:
            return
        is_silent = isinstance(failure.value, SilentError)
        is_nobody = isinstance(failure.value, UnreachableError) and not is_silent
        if self._absent_at is not None:
            now = self._clock.monotonic()
            if now > self._late_at:
                # This process has stood still, and an answer may have come meanwhile.
                self._absent_at = now + self._refusing_seconds
                is_nobody = True
            if is_nobody and now < self._absent_at:
                self._timer = self._clock.call_later(AGAIN_SECONDS, self._ask_noted, noted)
                return
        # A replica listens nowhere: a place that takes connections is that of a copy which seeks, or reads its journal to be active.  The
        # place of an active broker takes them also when its process stands still; such a process asks there before it goes on.
        absent = is_nobody or (is_silent and self._purpose is Purpose.TAKE_OVER)
        self._unanswered(absent, f"the other copy gives no answer: {failure.getErrorMessage()}")
