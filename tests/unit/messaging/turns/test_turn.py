"""A turn in which something fails."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.turns.turn import Turn
from tests.support.clock import FakeClock
from tests.unit.messaging.support import Bench


class Failing:
    marked = False
    flush_due = False

    def deliver(self) -> None:
        raise OSError("damaged")

    flush = deliver


class Counting:
    marked = False
    flush_due = False

    def __init__(self) -> None:
        self.calls = 0

    def deliver(self) -> None:
        self.calls += 1

    flush = deliver


class FailureTests(SynchronousTestCase):
    def test_a_failing_queue_does_not_keep_others_from_delivering_for_ever(self) -> None:
        turn, good = Turn(FakeClock()), Counting()

        def mark() -> None:
            turn.mark_queue(Failing())
            turn.mark_queue(good)

        for _ in range(2):
            try:
                turn.run(mark)
            except OSError:
                pass
        turn.run(turn.mark_queue, good)
        self.assertGreaterEqual(good.calls, 1)

    def test_a_failing_output_does_not_keep_others_from_writing_for_ever(self) -> None:
        turn, good = Turn(FakeClock()), Counting()

        def mark() -> None:
            turn.mark_output(Failing())
            turn.mark_output(good)

        try:
            turn.run(mark)
        except OSError:
            pass
        turn.run(turn.mark_output, good)
        self.assertGreaterEqual(good.calls, 1)

    def test_a_periodic_scan_that_failed_once_runs_again(self) -> None:
        bench = Bench()
        calls: list[int] = []

        def scan() -> None:
            calls.append(1)
            raise OSError("once")

        reaper = bench.messaging.usage_reaper
        self.patch(reaper, "scan", scan)
        reaper.start()
        for _ in range(3):
            try:
                bench.clock.advance(30)
            except OSError:
                pass
        self.flushLoggedErrors(OSError)
        self.assertGreater(len(calls), 1)
