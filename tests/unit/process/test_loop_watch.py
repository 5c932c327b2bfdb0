"""How the event loop is watched."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process.loop_watch import LAG_WINDOW_SECONDS, LoopWatch, stack_of

PERIOD = 0.5


class LoopWatchTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.now = 0.0
        self.asked: list[Callable[[], object]] = []
        self.timeouts: list[str] = []
        self.lines: list[str] = []
        globalLogPublisher.addObserver(self.observe)
        self.addCleanup(globalLogPublisher.removeObserver, self.observe)
        self.watch = LoopWatch(
            self.asked.append,
            lambda: "File busy.py, line 7",
            lambda: self.now,
            period_seconds=PERIOD,
            stall_seconds=5,
            timeout_seconds=20,
            on_timeout=self.timeouts.append,
        )

    def observe(self, event: dict[str, Any]) -> None:
        self.lines.append(str(event["log_format"]).format(**event))

    def tick(self, seconds: float = PERIOD) -> None:
        """The watching thread looks every half second for so long."""
        for _ in range(round(seconds / PERIOD)):
            self.now += PERIOD
            self.watch.tick()

    def answer(self, after: float = 0.0) -> None:
        self.now += after
        self.asked.pop()()

    def test_a_loop_that_answers_has_its_lag_and_no_line(self) -> None:
        for _ in range(10):
            self.tick()
            self.answer(0.02)
        self.assertEqual(self.watch.lag_ms(), 20.0)
        self.assertEqual(self.lines, [])

    def test_one_question_at_a_time(self) -> None:
        self.tick(3)
        self.assertEqual(len(self.asked), 1)
        self.assertEqual(self.watch.lag_ms(), 2500.0)

    def test_a_stall_is_told_once_with_the_stack_and_its_end(self) -> None:
        self.tick(15)
        self.assertEqual(len(self.lines), 1)
        self.assertIn("AMQ224107", self.lines[0])
        self.assertIn("busy.py, line 7", self.lines[0])
        self.answer()
        self.assertEqual(len(self.lines), 2)
        self.assertIn("is running again, after 14.5 seconds", self.lines[1])
        self.tick(10)
        self.assertEqual(len(self.lines), 3, "the next stall has a line of its own")

    def test_the_timeout_of_the_critical_analyzer_once(self) -> None:
        self.tick(100)
        self.assertEqual(len(self.timeouts), 1)
        self.assertIn("20.0 seconds", self.timeouts[0])

    def test_a_machine_that_was_suspended_is_no_stall(self) -> None:
        self.tick()
        self.now += 3600
        self.watch.tick()
        self.answer(0.01)
        self.assertEqual((self.lines, self.timeouts), ([], []))
        self.assertLess(self.watch.lag_ms(), 100)

    def test_the_lag_of_long_ago_is_forgotten(self) -> None:
        self.tick()
        self.answer(0.3)
        for _ in range(round(2 * LAG_WINDOW_SECONDS / PERIOD) + 2):
            self.tick()
            self.answer()
        self.assertEqual(self.watch.lag_ms(), 0.0)

    def test_the_stack_of_a_thread(self) -> None:
        self.assertIn("test_the_stack_of_a_thread", stack_of(threading.get_ident()))
        self.assertIn("gone", stack_of(-1))
