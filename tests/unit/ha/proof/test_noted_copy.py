"""The questions to the noted copy: when it counts as gone, and which answers come too late."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.copy_record import CopyState, OtherCopy
from mqbroker.ha.proof.meeting import Activity, Standing
from mqbroker.ha.proof.noted_copy import AGAIN_SECONDS, ANSWER_SECONDS, DIAL_SECONDS, GONE_SECONDS, NotedCopy
from mqbroker.ha.proof.ports import Purpose, RefusedError, SilentError, UnreachableError
from tests.support.clock import FakeClock

NOTED = OtherCopy("other", "tcp://other:61616")
OWN = Standing("node", "own", Activity.SEEKING, CopyState.COMPLETE, 3, primary=True, search="s1")
THEIRS = Standing("node", "other", Activity.PASSIVE, CopyState.COMPLETE, 3, primary=False)


class NotedCopyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.asked: list[Deferred[bytes]] = []
        self.told: list[Any] = []
        network: Any = self
        self.noted = NotedCopy(
            network,
            self.clock,
            lambda: OWN,
            lambda noted, other: self.told.append((noted, other)),
            lambda absent, reason: self.told.append(absent),
        )

    def ask_copy(self, connector: str, handler: str, question: bytes) -> Deferred[bytes]:
        self.assertEqual((connector, Standing.decode(question)), (NOTED.connector, OWN))
        self.asked.append(Deferred())
        return self.asked[-1]

    def refuse(self) -> None:
        self.asked[-1].errback(UnreachableError("nobody listens"))

    def test_its_answer_is_told(self) -> None:
        self.noted.ask(NOTED, Purpose.START, by_absence=False)
        self.asked[0].callback(THEIRS.encode())
        self.assertEqual((self.told, self.clock.pending), ([(NOTED, THEIRS)], 0))

    def test_nobody_there_is_enough_once_where_voters_decide(self) -> None:
        self.noted.ask(NOTED, Purpose.GO_ON, by_absence=False)
        self.refuse()
        self.assertEqual((self.told, self.clock.pending), ([True], 0))

    def test_absence_as_a_proof_has_to_last(self) -> None:
        for purpose, seconds in ((Purpose.TAKE_OVER, GONE_SECONDS), (Purpose.GO_ON, ANSWER_SECONDS)):
            began = self.clock.monotonic()
            self.noted.ask(NOTED, purpose, by_absence=True)
            while not self.told:
                self.refuse()
                self.clock.advance(0 if self.told else AGAIN_SECONDS)
            waited = self.clock.monotonic() - began
            self.assertTrue(seconds <= waited < seconds + AGAIN_SECONDS + 0.001, f"{purpose}: {waited}")
            self.assertEqual(self.told.pop(), True)

    def test_a_place_that_takes_connections_and_is_silent(self) -> None:
        """A replica listens nowhere; an active broker whose process stands still does."""
        for purpose, absent in ((Purpose.TAKE_OVER, True), (Purpose.GO_ON, False)):
            self.noted.ask(NOTED, purpose, by_absence=False)
            self.asked[-1].errback(SilentError("no answer"))
            self.assertEqual(self.told.pop(), absent)

    def test_somebody_who_cannot_be_asked_is_there(self) -> None:
        self.noted.ask(NOTED, Purpose.TAKE_OVER, by_absence=True)
        self.asked[0].errback(RefusedError("wrong password"))
        self.assertEqual(self.told, [False])

    def test_an_answer_that_takes_too_long_is_none(self) -> None:
        for by_absence, seconds in ((False, ANSWER_SECONDS), (True, DIAL_SECONDS)):
            self.noted.ask(NOTED, Purpose.GO_ON, by_absence=by_absence)
            count = len(self.asked)
            self.clock.advance(seconds - 0.01)
            self.assertEqual((self.told, self.asked[-1].called), ([], False))
            self.clock.advance(0.02)
            self.assertTrue(self.asked[-1].called)
            if by_absence:
                # The place is asked again, as the copy may have been between two states.
                self.clock.advance(AGAIN_SECONDS)
                self.assertEqual((self.told, len(self.asked)), ([], count + 1))
            else:
                self.assertEqual(self.told.pop(), True)
        self.noted.stop()

    def test_nothing_is_told_after_a_stop(self) -> None:
        self.noted.ask(NOTED, Purpose.GO_ON, by_absence=True)
        self.refuse()
        self.noted.stop()
        self.assertEqual((self.told, self.clock.pending), ([], 0))
        self.noted.ask(NOTED, Purpose.GO_ON, by_absence=True)
        self.noted.stop()
        self.assertEqual((self.told, self.clock.pending), ([], 0))

    def test_another_place_is_asked_with_the_same_limit(self) -> None:
        answer = self.noted.ask_at(NOTED.connector, OWN)
        self.clock.advance(ANSWER_SECONDS)
        self.failureResultOf(answer, UnreachableError)
        cancelled = self.noted.ask_at(NOTED.connector, OWN)
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        self.assertEqual(self.clock.pending, 0)
