"""The clock of a running broker."""

from __future__ import annotations

import time

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process.clocks import ReactorClock


class ReactorClockTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Clock()
        self.clock = ReactorClock(self.reactor)
        self.called: list[str] = []

    def test_a_call_comes_after_its_delay_with_its_arguments(self) -> None:
        self.clock.call_later(2.0, self.called.append, "now")
        self.reactor.advance(1.9)
        self.assertEqual(self.called, [])
        self.reactor.advance(0.1)
        self.assertEqual(self.called, ["now"])

    def test_a_delay_below_zero_is_none(self) -> None:
        self.clock.call_later(-1.0, self.called.append, "late")
        self.reactor.advance(0)
        self.assertEqual(self.called, ["late"])

    def test_a_cancelled_call_does_not_come_and_may_be_cancelled_again(self) -> None:
        call = self.clock.call_later(1.0, self.called.append, "never")
        call.cancel()
        call.cancel()
        self.reactor.advance(2.0)
        self.assertEqual(self.called, [])

    def test_a_call_that_has_come_may_be_cancelled(self) -> None:
        call = self.clock.call_later(1.0, self.called.append, "once")
        self.reactor.advance(1.0)
        call.cancel()
        self.assertEqual(self.called, ["once"])

    def test_times_of_day_are_milliseconds_of_the_wall_clock(self) -> None:
        before = int(time.time() * 1000)
        self.assertTrue(before - 1 <= self.clock.wall_ms() <= int(time.time() * 1000) + 1)

    def test_intervals_never_run_backwards(self) -> None:
        times = [self.clock.monotonic() for _ in range(100)]
        self.assertEqual(times, sorted(times))
