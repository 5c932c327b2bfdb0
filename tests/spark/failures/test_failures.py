"""Exactly once, from a queue into two others and into Parquet, whatever fails in between."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.spark.failures.points import POINTS
from tests.spark.failures.rounds import Outcome, Rounds


@contextmanager
def running(proxied: bool = False) -> Iterator[Rounds]:
    seed = int(os.environ.get("MQBROKER_SEED") or random.getrandbits(32))
    print(f"MQBROKER_SEED={seed}")
    with tempfile.TemporaryDirectory(prefix="mqbroker-failures-") as folder, Rounds(Path(folder), random.Random(seed), proxied) as rounds:
        try:
            yield rounds
        finally:
            rounds.kill_driver()
            print(*rounds.failures, sep="\n")


def passed(outcome: Outcome) -> None:
    print(outcome.counts)
    assert outcome.problems == []


def test_tasks_that_fail_and_connections_that_are_cut() -> None:
    with running(proxied=True) as rounds:
        passed(rounds.failing_tasks(len(POINTS)))
        passed(rounds.cut_connections(2))


def test_brokers_and_drivers_that_are_killed() -> None:
    with running() as rounds:
        passed(rounds.killed_brokers(3))
        passed(rounds.killed_drivers(3))
