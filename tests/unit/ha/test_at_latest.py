"""A call that comes once, and at the latest after a while."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.at_latest import AtLatest
from tests.support.clock import FakeClock


class AtLatestTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.calls: list[float] = []
        self.finish = AtLatest(self.clock, 5.0, lambda: self.calls.append(self.clock.monotonic()))
        self.began = self.clock.monotonic()

    def test_it_comes_when_it_is_made_and_only_once(self) -> None:
        self.clock.advance(2.0)
        self.assertFalse(self.finish.over)
        self.finish()
        self.finish()
        self.assertTrue(self.finish.over)
        self.clock.advance(10.0)
        self.assertEqual(self.calls, [self.began + 2.0])

    def test_it_comes_by_itself_after_the_time(self) -> None:
        self.clock.advance(4.9)
        self.assertEqual(self.calls, [])
        self.clock.advance(0.1)
        self.assertEqual(self.calls, [self.began + 5.0])
        self.finish()
        self.assertEqual(len(self.calls), 1)
