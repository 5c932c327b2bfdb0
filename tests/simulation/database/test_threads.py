"""Threads of the simulation: virtual time decides whose turn it is."""

from __future__ import annotations

import threading
import unittest

from tests.simulation.database.threads import ThreadBeat, ThreadLock, Threads, ThreadWriter
from tests.simulation.world import Process, SimulationError, World


class ThreadsTests(unittest.TestCase):
    def setUp(self) -> None:
        self.world = World(1)
        self.threads = Threads(self.world)
        self.addCleanup(self.threads.end)
        self.process = Process(self.world, "process", self.world.generator("process"))
        self.seen: list[str] = []

    def walk(self, name: str, *pauses: float) -> None:
        for pause in pauses:
            self.seen.append(f"{name} at {self.world.now:.1f}")
            self.threads.wait(self.process, pause)
        self.seen.append(f"{name} ends at {self.world.now:.1f}")

    def test_threads_take_turns_by_time(self) -> None:
        self.threads.start(self.process, lambda: self.walk("a", 0.2, 0.2))
        self.threads.start(self.process, lambda: self.walk("b", 0.4), 0.1)
        self.world.run(1.0)
        self.assertEqual(self.seen, ["a at 0.0", "b at 0.1", "a at 0.2", "a ends at 0.4", "b ends at 0.5"])

    def test_a_loop_that_waits_hears_of_nothing_until_then(self) -> None:
        self.threads.start(self.process, lambda: self.walk("thread", 0.2))
        self.process.call_later(0.05, self.walk, "loop", 0.4)
        self.process.call_later(0.1, self.seen.append, "timer")
        self.world.run(1.0)
        self.assertEqual(self.seen, ["thread at 0.0", "loop at 0.1", "thread ends at 0.2", "loop ends at 0.5", "timer"])

    def test_a_process_that_stands_still_does_so_with_its_threads(self) -> None:
        self.threads.start(self.process, lambda: self.walk("thread", 0.2, 0.1))
        self.world.schedule(0.1, self.threads.freeze, self.process, 0.5)
        self.world.run(1.0)
        self.assertEqual(self.seen, ["thread at 0.0", "thread at 0.6", "thread ends at 0.7"])

    def test_the_end_of_a_process_is_that_of_its_threads(self) -> None:
        before = threading.active_count()

        def clean_up() -> None:
            try:
                self.walk("thread", 5.0)
            finally:
                self.seen.append("unwound")

        self.threads.start(self.process, clean_up)
        self.world.run(1.0)
        self.process.end()
        self.threads.process_died(self.process)
        self.assertEqual(self.seen, ["thread at 0.0", "unwound"])
        self.threads.end()
        self.assertLessEqual(threading.active_count(), before + 1)

    def test_what_a_thread_raises_ends_the_run(self) -> None:
        def fail() -> None:
            raise ValueError("a reason")

        self.threads.start(self.process, fail)
        with self.assertRaisesRegex(SimulationError, "a reason"):
            self.world.run(1.0)

    def test_a_writer_runs_batches_in_order_and_closes_when_all_is_done(self) -> None:
        delays = iter((0.1, 0.1, 0.5, 0.0, 0.1, 0.1, 0.1, 0.1, 0.1))
        writer = ThreadWriter(self.threads, lambda done, error: done(error), self.process, lambda: next(delays))

        def fail() -> None:
            raise OSError("no")

        writer.submit([lambda: self.seen.append("one")], lambda error: self.seen.append(f"one: {error}"))
        writer.submit([fail, lambda: self.seen.append("never")], lambda error: self.seen.append(f"two: {error}"))
        self.world.run(5.0)
        self.assertEqual(self.seen, ["one", "one: None", "two: no"])
        writer.submit([lambda: self.walk("last", 2.0)], lambda error: self.seen.append("heard"))
        self.process.call_later(0.0, writer.close)
        self.world.run(5.0)
        self.assertEqual(self.seen[3:], ["last at 5.2", "last ends at 7.2"])

    def test_a_beat_goes_on_until_it_is_stopped(self) -> None:
        beat = ThreadBeat(self.threads, self.process)
        beat.start(0.2, lambda: self.walk("step", 0.1), lambda: self.seen.append("end"))
        self.world.schedule(0.65, beat.stop)
        self.world.run(5.0)
        self.assertEqual(self.seen, ["step at 0.2", "step ends at 0.3", "step at 0.5", "step ends at 0.6", "end"])

    def test_a_beat_that_begins_anew_waits_for_the_step_that_is_under_way(self) -> None:
        beat = ThreadBeat(self.threads, self.process)
        beat.start(0.2, lambda: self.walk("former", 0.5), lambda: self.seen.append("its end"))
        self.world.schedule(0.3, beat.start, 0.1, lambda: self.walk("next"), lambda: self.seen.append("never"))
        self.world.run(0.75)
        self.assertEqual(self.seen, ["former at 0.2", "former ends at 0.7", "its end", "next ends at 0.7"])

    def test_a_lock_excludes_other_threads(self) -> None:
        lock = ThreadLock(self.threads, self.process)

        def work(name: str) -> None:
            with lock:
                self.walk(name, 0.3)

        self.threads.start(self.process, lambda: work("a"))
        self.threads.start(self.process, lambda: work("b"), 0.1)
        self.world.run(5.0)
        self.assertEqual(self.seen, ["a at 0.0", "a ends at 0.3", "b at 0.3", "b ends at 0.6"])
