"""A wait that somebody else may end."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.links.pause import Pause
from tests.support.clock import FakeClock
from tests.unit.cluster.bridge_support import MemoryRuntime


class PauseTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.pause = Pause(MemoryRuntime(self.clock))

    def wait(self, seconds: float | None) -> Deferred[None]:
        return Deferred.fromCoroutine(self.pause.wait(seconds))

    def test_it_is_over_after_its_time(self) -> None:
        waiting = self.wait(2)
        self.clock.advance(1.9)
        self.assertNoResult(waiting)
        self.clock.advance(0.2)
        self.successResultOf(waiting)
        self.pause.end()

    def test_it_may_be_ended(self) -> None:
        for seconds in (2, None):
            waiting = self.wait(seconds)
            self.clock.advance(1)
            self.assertNoResult(waiting)
            self.assertTrue(self.pause.waits)
            self.pause.end()
            self.successResultOf(waiting)
            self.assertFalse(self.pause.waits)
