"""One question to the other copy, over two ways."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.ports import RefusedError, SilentError, UnreachableError
from mqbroker.ha.replication.asking import LINK_SECONDS, REDIAL_SECONDS, CopyQuestion
from tests.support.clock import FakeClock
from tests.unit.cluster.bridge_support import MemoryRuntime, connector


class StrictRuntime(MemoryRuntime):
    """Counts timers that are cancelled although they have fired: the reactor raises then."""

    cancelled_late = 0

    def call_later(self, seconds: float, function: Callable[..., Any], *args: Any) -> Any:
        timer: Any = SimpleNamespace(fired=False)

        def fire() -> None:
            timer.fired = True
            function(*args)

        def cancel() -> None:
            self.cancelled_late += timer.fired
            call.cancel()

        call = self.clock.call_later(seconds, fire)
        timer.cancel = cancel
        return timer


class CopyQuestionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.timers = StrictRuntime(self.clock)
        self.dialled: list[tuple[Callable[[], object], Deferred[bytes]]] = []

    def ask(self, link: Deferred[bytes] | None) -> Deferred[bytes]:
        async def dial(met: Callable[[], object]) -> bytes:
            self.dialled.append((met, Deferred()))
            return await self.dialled[-1][1]

        runtime: Any = self.timers
        return CopyQuestion(runtime, connector(1), link, dial).answer

    def refuse(self) -> None:
        """Nobody listens."""
        self.dialled.pop()[1].errback(UnreachableError("refused"))

    def test_an_answer_over_the_link_is_enough(self) -> None:
        link: Deferred[bytes] = Deferred()
        answer = self.ask(link)
        link.callback(b"x")
        self.assertEqual((self.successResultOf(answer), self.dialled, self.clock.pending), (b"x", [], 0))

    def test_a_link_that_is_silent_does_not_keep_the_copy_from_being_dialled(self) -> None:
        """Its other end may have gone without a word."""
        cancelled: list[object] = []
        answer = self.ask(Deferred(cancelled.append))
        self.clock.advance(LINK_SECONDS)
        self.dialled[0][1].callback(b"x")
        self.assertEqual((self.successResultOf(answer), len(cancelled)), (b"x", 1))
        self.assertEqual(self.timers.cancelled_late, 0)

    def test_a_link_may_answer_after_the_place_has_refused(self) -> None:
        """A replica listens nowhere, and takes its time for a durable answer."""
        link: Deferred[bytes] = Deferred()
        answer = self.ask(link)
        for _ in range(3):
            self.clock.advance(LINK_SECONDS)
            self.refuse()
            self.assertNoResult(answer)
        link.callback(b"x")
        self.assertEqual((self.successResultOf(answer), self.clock.pending), (b"x", 0))

    def test_without_a_link_it_fails_at_once_when_nobody_listens(self) -> None:
        answer = self.ask(None)
        self.refuse()
        self.failureResultOf(answer, UnreachableError)
        link: Deferred[bytes] = Deferred()
        answer = self.ask(link)
        link.errback(UnreachableError("the link is lost"))
        self.refuse()
        self.failureResultOf(answer, UnreachableError)
        self.assertEqual(self.clock.pending, 0)

    def test_who_gives_up_learns_whether_anybody_has_taken_a_connection(self) -> None:
        answer = self.ask(Deferred())
        self.clock.advance(LINK_SECONDS)
        self.refuse()
        answer.cancel()
        self.assertIs(self.failureResultOf(answer).type, UnreachableError)
        answer = self.ask(None)
        self.dialled[-1][0]()
        self.refuse()
        self.clock.advance(REDIAL_SECONDS)
        self.refuse()
        answer.cancel()
        self.failureResultOf(answer, SilentError)
        self.assertEqual(self.clock.pending, 0)

    def test_any_other_failure_is_an_answer(self) -> None:
        answer = self.ask(None)
        self.dialled[-1][1].errback(RefusedError("the password"))
        self.failureResultOf(answer, RefusedError)
