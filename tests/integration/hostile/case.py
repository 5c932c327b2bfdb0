"""What every attack is judged by."""

from __future__ import annotations

import os
import re
import time
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.integration.hostile.plant import FULL, HANDSHAKE_SECONDS, MIB, PATIENCE_SECONDS, TTL_MS, Attacker, Plant, plant

GROWTH_MAX = 32 * MIB
KEPT_MAX = 64 * MIB
"""What the broker may hold after all attacks so far, beyond what it held before the first: the allocator keeps some of each."""
LOG_MAX = 16 * 1024
"""Bytes that one attack may add to the log."""
P99_MS_MAX = 250.0
ATTACK_SECONDS = 4.0 if FULL else 0.0
"""A short attack is made again for so long: the percentile of a few round trips beside it would be the slowest one."""
ROUNDS_MAX = 50
TTL_SECONDS = TTL_MS / 1000 + PATIENCE_SECONDS
AT_ONCE_SECONDS = HANDSHAKE_SECONDS + PATIENCE_SECONDS


class HostileCase(unittest.TestCase):
    """An attack is made inside :meth:`attack`."""

    plant: Plant

    @classmethod
    def setUpClass(cls) -> None:
        cls.plant = plant()

    def setUp(self) -> None:
        self.host = self.plant.next_host()

    def attacker(self, **options: Any) -> Attacker:
        attacker = Attacker(self.plant.port, self.host, **options)
        self.addCleanup(attacker.close)
        return attacker

    def rounds(self) -> Iterator[int]:
        """How often a short attack is made: once, and in full size for some time."""
        until = time.monotonic() + ATTACK_SECONDS
        for number in range(ROUNDS_MAX):
            if number and time.monotonic() >= until:
                return
            yield number

    @contextmanager
    def attack(self, *reasons: str, growth: int = GROWTH_MAX) -> Iterator[None]:
        """Judge what happens inside: ``reasons`` are expressions that the log must show.

        The bystander meets no error and goes on; memory grows by no more than ``growth`` bytes and comes back; the log is short.
        """
        plant = self.plant
        plant.report()
        plant.forget_peak()
        log, memory = plant.log_size(), plant.memory()
        yield
        report = self._next_round_trips()
        if FULL:
            written = self._without_audit(plant.log(log))
            peak = (plant.peak() - memory) / MIB
            times = f"{report['count']} round trips beside it, p99 {report['p99']:.0f} ms, greatest {report['max']:.0f} ms"
            rest = f"memory +{peak:.0f} MiB; log {len(written) / 1024:.1f} KiB; load {os.getloadavg()[0]:.1f}"
            print(f"{self.id().rpartition('.')[2]}: {times}; {rest}")
        self.assertEqual(report["errors"], [])
        if FULL:
            self.assertLess(report["p99"], P99_MS_MAX)
        self.assertLess(plant.peak() - memory, growth, "memory while the attack was on")
        self._memory_comes_back()
        written = self._without_audit(plant.log(log))
        for reason in reasons:
            self.assertRegex(written, reason)
        self.assertLess(len(written), LOG_MAX, written[:2000])
        self.assertEqual(re.findall(r"Traceback|Unhandled", written), [], written[:3000])

    @staticmethod
    def _without_audit(log: str) -> str:
        """An operation of management is recorded, however often it is called; who may call it is the operator's decision."""
        return "".join(line for line in log.splitlines(keepends=True) if "[mqbroker.audit#" not in line)

    def _next_round_trips(self) -> dict[str, Any]:
        """The bystander's report of the attack and of some round trips after it."""
        whole = self.plant.report()
        deadline = time.monotonic() + PATIENCE_SECONDS
        after = 0
        while after < 3:
            self.assertLess(time.monotonic(), deadline, f"the client that behaves is stuck: {whole}")
            time.sleep(0.02)
            report = self.plant.report()
            after += report["count"]
            whole["errors"] += report["errors"]
            whole["count"] += report["count"]
        return whole

    def _memory_comes_back(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.plant.memory() - self.plant.baseline > KEPT_MAX:
            self.assertLess(time.monotonic(), deadline, "memory after the attack")
            time.sleep(0.1)

    def assert_dropped(self, attacker: Attacker, seconds: float = AT_ONCE_SECONDS, what: object = "") -> None:
        self.assertTrue(attacker.dropped(seconds), f"{what} was not dropped")
        attacker.close()
