"""One question to the other copy: over the connection of the pair, and at its place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred

from mqbroker.ha.proof.ports import SilentError, UnreachableError
from mqclient.core.connection.connection import describe
from mqclient.core.runtime import sleep

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from mqclient.core.runtime import Runtime, Timer
    from mqclient.wire.primitives import TransportConfiguration

LINK_SECONDS = 0.2
"""How long the connection of the pair may take for an answer before the copy is asked at its place, too."""

REDIAL_SECONDS = 0.1
"""Before a place is dialled again."""


class CopyQuestion:
    """A question that begins at once, and ends with the first answer; see :meth:`mqbroker.ha.proof.ports.Network.ask_copy`.

    ``link`` is the answer over the connection of the pair, None without one: that connection may look open when the other end has gone.
    ``dial(met)`` asks at ``place`` once, and calls ``met`` when somebody takes a connection; it raises UnreachableError without an answer.
    """

    def __init__(
        self,
        runtime: Runtime,
        place: TransportConfiguration,
        link: Deferred[bytes] | None,
        dial: Callable[[Callable[[], object]], Awaitable[bytes]],
    ) -> None:
        self.answer: Deferred[bytes] = Deferred(self._give_up)
        self._runtime = runtime
        self._place = place
        self._link = link
        self._dial = dial
        self._over = False
        self._met = False
        """Has anybody taken a connection at the place?"""
        self._dialling: Deferred[Any] | None = None
        self._later: Timer | None = None
        if link is None:
            self._begin_to_dial()
        else:
            self._later = runtime.call_later(LINK_SECONDS, self._link_is_silent)
            link.addCallbacks(self._answered, self._link_failed)

    def _link_is_silent(self) -> None:
        self._later = None
        self._begin_to_dial()

    def _begin_to_dial(self) -> None:
        if not self._over and self._dialling is None:
            self._stop_waiting()
            self._dialling = Deferred.fromCoroutine(self._dial_on())
            self._dialling.addCallbacks(self._answered, self._failed)

    async def _dial_on(self) -> bytes:
        """Ends without an answer only if nobody has ever listened, and there is no other way to the copy.

        A connection that is lost before the answer says that somebody did listen, perhaps a copy that is just about to become active.
        """
        while True:
            try:
                return await self._dial(self._meet)
            except UnreachableError:
                if not self._met and self._link is None:
                    raise
            await sleep(self._runtime, REDIAL_SECONDS)

    def _meet(self) -> None:
        self._met = True

    def _link_failed(self, failure: Failure) -> None:
        self._link = None
        if isinstance(failure.value, UnreachableError):
            # The copy may listen at its place although its connection to this one is lost.
            self._begin_to_dial()
        else:
            self._failed(failure)

    def _answered(self, answer: bytes) -> None:
        if not self._over:
            self._stop()
            self.answer.callback(answer)

    def _failed(self, failure: Failure) -> None:
        if not self._over:
            self._stop()
            self.answer.errback(failure)

    def _give_up(self, answer: Deferred[bytes]) -> None:
        self._stop()
        text = f"{describe(self._place)} does not answer"
        answer.errback(SilentError(f"{text}, and takes connections") if self._met else UnreachableError(text))

    def _stop(self) -> None:
        self._over = True
        self._stop_waiting()
        for each in (self._link, self._dialling):
            if each is not None:
                each.cancel()

    def _stop_waiting(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
