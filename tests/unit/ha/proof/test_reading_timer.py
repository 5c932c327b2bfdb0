"""An answer that came while the process stood still is read before its time is over."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.reading_timer import READ_SECONDS, ReadingTimer
from tests.support.clock import FakeClock


class ReadingTimerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.ended: list[float] = []
        self.timer = ReadingTimer(self.clock, 2.0, lambda: self.ended.append(self.clock.seconds))

    def stand_still(self, seconds: float) -> None:
        self.clock.seconds += seconds
        self.clock.advance(0)

    def test_the_time_is_over(self) -> None:
        for _ in range(30):
            self.clock.advance(0.1)
        self.assertEqual([round(each, 6) for each in self.ended], [2.0])

    def test_a_process_that_has_stood_still_reads_first(self) -> None:
        self.stand_still(2.5)
        self.assertEqual(self.ended, [])
        self.clock.advance(READ_SECONDS)
        self.assertEqual(len(self.ended), 1)

    def test_so_does_one_that_stands_still_while_it_reads(self) -> None:
        self.clock.advance(1.95)
        for _ in range(3):
            self.stand_still(0.5)
        self.assertEqual(self.ended, [])
        self.clock.advance(READ_SECONDS)
        self.assertEqual(len(self.ended), 1)

    def test_nothing_is_left_after_the_answer(self) -> None:
        self.timer.cancel()
        self.stand_still(5)
        self.clock.advance(5)
        self.assertEqual((self.ended, self.clock.pending), ([], 0))
        ReadingTimer(self.clock, 0, lambda: self.ended.append(0)).cancel()
        self.assertEqual(self.clock.pending, 0)
