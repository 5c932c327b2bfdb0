"""Faults that wait for the disk meet it: most of those that are drawn happen within their run."""

from __future__ import annotations

import random
import unittest

from tests.simulation.faults import Fault, Schedule, crash_in_write, failing_disk
from tests.simulation.run import Simulation

RUNS = 12


class Alone(Simulation):
    """A run with one fault, and no end of the broker beside it."""

    def __init__(self, seed: int, fault: Fault) -> None:
        super().__init__(seed)
        self.schedule = Schedule([fault])


class FaultTests(unittest.TestCase):
    def test_a_failing_disk_fails(self) -> None:
        rng = random.Random("failing disks")
        hit = 0
        for seed in range(RUNS):
            run = Alone(seed, failing_disk(rng))
            disk = run.broker.disk
            result = run.run()
            self.assertEqual(result.violations, [], result.report())
            hit += disk.failures > 0
        self.assertGreater(hit, RUNS * 2 // 3)

    def test_a_machine_stops_in_the_middle_of_an_operation(self) -> None:
        rng = random.Random("crashes in writes")
        hit = 0
        for seed in range(RUNS):
            run = Alone(seed, crash_in_write(rng, 0.1))
            stops: list[str] = []
            power_lost = run.broker.disk.on_crash
            run.broker.disk.on_crash = lambda tell=power_lost, told=stops: (told.append("stopped"), tell())
            result = run.run()
            self.assertEqual(result.violations, [], result.report())
            hit += bool(stops)
        self.assertGreater(hit, RUNS * 2 // 3)
