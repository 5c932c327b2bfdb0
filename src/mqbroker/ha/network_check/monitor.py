"""The watch over the network of one broker: is any of the configured places there?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mqbroker.ha.proof.reading_timer import READ_SECONDS, ReadingTimer

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from mqbroker.messaging.ports import Cancellable, Clock

AT_ONCE = 4
"""Places that are asked at the same time: each ping takes a thread, and logins use these threads, too."""

log = Logger(namespace="mqbroker.ha")


class NetworkCheck:
    """Asks ``places`` when it is started, every ``period`` seconds after that, and whenever somebody wants to know.

    ``ask`` results in anything when a place answers, and fails when it does not; its result is cancelled after ``seconds``.  One answer is
    enough.  The network counts as isolated when every place is silent.
    """

    def __init__(self, clock: Clock, ask: Callable[[str], Deferred[Any]], places: Sequence[str], period: float, seconds: float) -> None:
        self._clock = clock
        self._ask = ask
        self._places = places
        self._period = period
        self._seconds = seconds
        self._running = False
        self._tell: tuple[Callable[[str], object], Callable[[], object]]
        self._isolated = False
        """The last thing that was found."""
        self._run = object()
        """Tells this run from earlier ones."""
        self._silent: set[str] = set()
        """The places that were silent when they were last asked."""
        self._waiting: list[Deferred[bool]] = []
        self._look = object()
        """Tells the answers of this look from late ones."""
        self._began = 0.0
        self._asked: list[Deferred[Any]] = []
        self._limit: ReadingTimer | None = None
        self._next: Cancellable | None = None

    def start(self, isolated: Callable[[str], object], reachable: Callable[[], object]) -> None:
        """``isolated`` is told why, once, when no place answers; then ``reachable``, once, when one does.  Nothing changes if it runs."""
        if not self._running:
            self._running, self._isolated, self._run = True, False, object()
            self._tell = isolated, reachable
            self._look_again()

    def stop(self) -> None:
        """Ask nobody, and tell nobody, any more; results of :meth:`look` never come."""
        self._running = False
        self._waiting.clear()
        self._end_look()
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def look(self) -> Deferred[bool]:
        """Does a place answer now?"""
        found: Deferred[bool] = Deferred()
        self._waiting.append(found)
        if not self._asked:
            self._look_again()
        return found

    # --- one look

    def _look_again(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if not self._asked:
            self._began = self._clock.monotonic()
            self._ask_from(0)

    def _ask_from(self, first: int) -> None:
        self._end_look()
        look = self._look
        following = first + AT_ONCE
        places = self._places[first:following]
        silent: set[str] = set()

        def ended() -> None:
            if following < len(self._places):
                self._ask_from(following)
            else:
                self._found_silence()

        def silence(place: str, failure: Failure) -> None:
            if look is self._look:
                self._note_silence(place, failure.getErrorMessage())
                silent.add(place)
                if len(silent) == len(places):
                    ended()

        def late() -> None:
            for place in places:
                if place not in silent:
                    self._note_silence(place, f"no answer within {self._seconds:g} s")
            ended()

        def answer(place: str, _: object) -> None:
            if look is self._look:
                self._silent.discard(place)
                self._end_look()
                self._found(isolated=False)

        self._limit = ReadingTimer(self._clock, self._seconds, late)
        self._asked = asked = [self._ask(place) for place in places]
        for place, each in zip(places, asked, strict=True):
            each.addCallbacks(partial(answer, place), partial(silence, place))

    def _end_look(self) -> None:
        self._look = object()
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
        asked, self._asked = self._asked, []
        for each in asked:
            each.cancel()

    def _note_silence(self, place: str, reason: str) -> None:
        if place not in self._silent:
            self._silent.add(place)
            code = "AMQ202003: Ping Url" if "//" in place else "AMQ202002: Ping Address"
            log.warn(code + " {place} wasn't reachable: {reason}", place=place, reason=reason or "no answer")

    def _found_silence(self) -> None:
        self._end_look()
        groups = -(-len(self._places) // AT_ONCE)
        if self._clock.monotonic() > self._began + groups * (self._seconds + READ_SECONDS) + self._seconds:
            # This machine has stood still: answers may have been in time, and pings have ended by the time that passed.
            self._look_again()
        else:
            self._found(isolated=True)

    def _found(self, *, isolated: bool) -> None:
        changed = isolated is not self._isolated
        self._isolated = isolated
        waiting, self._waiting = self._waiting, []
        if self._running:
            self._next = self._clock.call_later(self._period, self._look_again)
            if changed:
                # Later: whoever has asked may be in the middle of a step.
                self._clock.call_later(0, self._tell_owner, self._run, isolated)
        for each in waiting:
            each.callback(not isolated)

    def _tell_owner(self, run: object, is_isolated: bool) -> None:
        if self._running and run is self._run:
            isolated, reachable = self._tell
            if is_isolated:
                isolated(f"none of the places of the network check answers: {', '.join(self._places)}")
            else:
                reachable()
