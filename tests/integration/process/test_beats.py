"""A thread that does one thing again and again."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from unittest import TestCase

from mqbroker.process.beats import BeatThread

LONG = 30.0
"""Seconds that nobody waits for in a test that succeeds."""


class BeatTests(TestCase):
    def setUp(self) -> None:
        self.beat = BeatThread()
        self.addCleanup(self.beat.stop)
        self.told: SimpleQueue[str] = SimpleQueue()

    def next(self) -> str:
        return self.told.get(timeout=LONG)

    def test_steps_come_until_it_is_stopped_and_then_the_end(self) -> None:
        self.beat.start(0.001, lambda: self.told.put("step"), lambda: self.told.put("end"))
        self.assertEqual([self.next() for _ in range(3)], ["step"] * 3)
        self.beat.stop()
        while (found := self.next()) == "step":
            pass
        self.assertEqual(found, "end")

    def test_a_stop_in_the_first_pause_is_the_end_at_once(self) -> None:
        self.beat.start(LONG * 100, lambda: self.told.put("step"), lambda: self.told.put("end"))
        self.beat.stop()
        self.assertEqual(self.next(), "end")

    def test_a_step_may_stop_it_and_it_may_begin_again(self) -> None:
        for _ in range(2):
            self.beat.start(0.001, self.beat.stop, lambda: self.told.put("end"))
            self.assertEqual(self.next(), "end")

    def test_a_later_thread_waits_for_the_last_step_of_the_former_one(self) -> None:
        held, began = threading.Event(), threading.Event()

        def slow() -> None:
            began.set()
            held.wait(LONG)
            self.told.put("slow")

        self.beat.start(0.001, slow, lambda: self.told.put("end"))
        self.assertTrue(began.wait(LONG))
        self.beat.start(0.001, lambda: self.told.put("step"), lambda: None)
        held.set()
        self.assertEqual([self.next() for _ in range(3)], ["slow", "end", "step"])

    def test_a_step_that_fails_ends_the_thread(self) -> None:
        def fail() -> None:
            raise ValueError("no")

        self.beat.start(0.001, fail, lambda: self.told.put("end"))
        self.assertEqual(self.next(), "end")
