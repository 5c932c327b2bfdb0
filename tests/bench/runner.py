"""Runs the rows: both brokers up at the same time and warm, each row against one and then the other, a failed row noted and passed over."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench import amounts, brokers, clusters
from tests.bench.load_client import run_load
from tests.bench.load_program import LoadProgram, load_of
from tests.bench.results import LoadFailed, Run, figures_of
from tests.bench.rows import TEN_MILLION, Cluster, Perf, Program, Row
from tests.interop.cluster.nodes import Nodes
from tests.interop.processes import ProcessFailed

PERF_OVERHEAD_SECONDS = 4.0
PROGRAM_OVERHEAD_SECONDS = 2.0
REVIVE_SECONDS = 5.0
CLUSTER_SECONDS = 4
"""Rows of clusters are measured for so long at most, and half of that before; so long are their brokers warmed up, too."""
CLUSTER_START_SECONDS = {2: 9.0, 3: 13.0}
MEMBERSHIP_ROUNDS = 2
WARM_UP_LOADS = (Row("warm-durable", "", True, Perf(1024, 4, 4)), Row("warm-plain", "", False, Perf(1024, 4, 4)))
FAILURES = (LoadFailed, ProcessFailed, OSError, TimeoutError, subprocess.SubprocessError, KeyError, AssertionError)
"""What may end a row; KeyError: /proc and reports of a process that has gone lack their lines; AssertionError: it was not started again."""


@dataclass(frozen=True)
class Plan:
    """How much is run. Times in seconds; `warm_broker` once for each broker before the rounds, `warm_load` before each measurement."""

    brokers: Sequence[str]
    rows: Sequence[Row]
    amounts: Sequence[str]
    rounds: int = 3
    seconds: int = 6
    warm_load: int = 4
    warm_broker: int = 30
    sizes: amounts.Sizes = field(default_factory=amounts.Sizes)

    def estimate(self) -> float:
        """Seconds that the whole run takes, roughly."""
        each = 0.0
        clustered = [row.load for row in self.rows if isinstance(row.load, Cluster)]
        for row in self.rows:
            if isinstance(row.load, Cluster):
                continue
            overhead = PERF_OVERHEAD_SECONDS if isinstance(row.load, Perf) else PROGRAM_OVERHEAD_SECONDS
            each += self.seconds + self.warm_load + overhead
        flows = len(clustered) < len(self.rows)
        starts = 8.0 * (self.rounds if "start" in self.amounts else 1)
        warm = self.warm_broker + 2 * PERF_OVERHEAD_SECONDS if flows or "million" in self.amounts else 0.0
        once = starts + warm
        if "idle" in self.amounts:
            once += self.sizes.connections / 150
        if "queues" in self.amounts:
            once += self.sizes.queues / 200
        once += sum(CLUSTER_START_SECONDS[load.nodes] + CLUSTER_SECONDS + self.rounds * (1.5 * CLUSTER_SECONDS + 2.5) for load in clustered)
        if "membership" in self.amounts:
            once += 8 + 15.0 * min(self.rounds, MEMBERSHIP_ROUNDS)
        if "million" in self.amounts:
            once += 3 * self.sizes.messages / 35_000 + 15
        return len(self.brokers) * (self.rounds * each + once)


class Runner:
    """One run of a plan; `runs` grows while it goes on, and `on_run` hears of each."""

    def __init__(self, plan: Plan, folder: Path, on_run: Callable[[], None]) -> None:
        self.plan = plan
        self.runs: list[Run] = []
        self._folder = folder
        self._on_run = on_run
        self._program = LoadProgram()
        self._running: dict[str, brokers.Started] = {}
        self._begin = time.monotonic()

    def run(self) -> None:
        try:
            self._starts()
            for name in self.plan.brokers:
                for amount, measure in (("idle", amounts.idle), ("queues", amounts.queues)):
                    if amount in self.plan.amounts:
                        self._note(name, amount, 0, lambda m=measure, n=name: m(self._program, self._running[n], self.plan.sizes))
            flows = [row for row in self.plan.rows if not isinstance(row.load, Cluster)]
            if self.plan.warm_broker and (flows or "million" in self.plan.amounts):
                self._warm_up()
            for turn in range(self.plan.rounds):
                for row in flows:
                    self._row(row, turn)
            for row in self.plan.rows:
                if isinstance(row.load, Cluster):
                    self._cluster(row, row.load)
            if "membership" in self.plan.amounts:
                self._membership()
            if "million" in self.plan.amounts:
                for name in self.plan.brokers:
                    self._note(name, "million", 0, lambda n=name: self._million(n))
        finally:
            self._program.stop()
            for started in self._running.values():
                started.peer.kill()

    def _note(self, broker: str, row: str, turn: int, measure: Callable[[], Mapping[str, float]]) -> None:
        """Run one measurement; a failure becomes its result, and a broker that has died is started again."""
        try:
            run = Run(broker, row, turn, measure())
        except FAILURES as error:
            run = Run(broker, row, turn, error=f"{type(error).__name__}: {error}")
            self._revive(broker)
        self.runs.append(run)
        passed = time.monotonic() - self._begin
        left = max(0.0, self.plan.estimate() - passed)
        told = run.error[:300] or ", ".join(f"{name} {value:,.1f}" for name, value in run.figures.items())
        print(
            f"[{clock(passed)}, about {clock(left)} left] {turn + 1}/{self.plan.rounds} {row}: {broker} {told}", file=sys.stderr, flush=True
        )
        self._on_run()

    def _revive(self, broker: str) -> None:
        started = self._running.get(broker)
        if started is None:
            return
        try:
            brokers.wait_for_answer(started.peer.port, REVIVE_SECONDS)
        except TimeoutError:
            started.peer.kill()
            try:
                self._running[broker] = brokers.start_peer(started.peer)
            except FAILURES as error:
                print(f"{broker} does not start again: {error}", file=sys.stderr, flush=True)

    def _starts(self) -> None:
        """Start-up times of fresh brokers, in turn; the last of each goes on running."""
        attempts = self.plan.rounds if "start" in self.plan.amounts else 1
        if "start" in self.plan.amounts:
            # One that does not count: its files are in memory then, and its modules compiled.
            for name in self.plan.brokers:
                brokers.start(name, self._folder / f"{name}-first").peer.kill()
        for turn in range(attempts):
            for name in self.plan.brokers:
                started = brokers.start(name, self._folder / f"{name}-{turn}")
                self._running[name] = started
                if "start" in self.plan.amounts:
                    self._note(name, "start", turn, lambda s=started: {"start_s": s.start_seconds, "resident_mib": s.resident_mib})
                if turn < attempts - 1:
                    started.peer.kill()

    def _warm_up(self) -> None:
        """A virtual machine compiles for its first half minute: both brokers get the same load before anything is measured."""
        for name in self.plan.brokers:
            for row in WARM_UP_LOADS:
                assert isinstance(row.load, Perf)
                quarter = self.plan.warm_broker // 4
                try:
                    run_load(self._running[name].peer.url, row.load, row.durable, quarter, quarter, self._folder)
                except FAILURES as error:
                    print(f"warm-up of {name}: {error}", file=sys.stderr, flush=True)
                    self._revive(name)

    def _row(self, row: Row, turn: int) -> None:
        order = self.plan.brokers if turn % 2 == 0 else list(reversed(self.plan.brokers))
        if row.beside_bare_loop:
            self._note("disk", row.name, turn, lambda: amounts.bare_loop(self._folder, min(2.0, self.plan.seconds)))
        for name in order:
            self._note(name, row.name, turn, lambda n=name: self._flow(row, self._running[n]))

    def _cluster(self, row: Row, load: Cluster) -> None:
        """Both clusters are up at the same time, each has had some load, and they are measured in turn."""
        plan = self.plan
        seconds = min(plan.seconds, CLUSTER_SECONDS)
        with ExitStack() as stack:
            started: dict[str, Nodes] = {}
            for name in plan.brokers:
                try:
                    started[name] = stack.enter_context(clusters.running(name, load.nodes, self._folder / f"{name}-{row.name}"))
                    if plan.warm_broker:
                        clusters.flow(self._program, started[name], load, 1, seconds)
                except FAILURES as error:
                    self.runs.append(Run(name, row.name, 0, error=f"{type(error).__name__}: {error}"))
                    started.pop(name, None)
            for turn in range(plan.rounds):
                for name in plan.brokers if turn % 2 == 0 else list(reversed(plan.brokers)):
                    if name in started:
                        nodes = started[name]
                        self._note(name, row.name, turn, lambda n=nodes: clusters.flow(self._program, n, load, seconds, seconds // 2))

    def _membership(self) -> None:
        rounds = min(self.plan.rounds, MEMBERSHIP_ROUNDS)
        for name in self.plan.brokers:
            try:
                clusters.membership(
                    name,
                    self._folder / f"{name}-membership",
                    rounds,
                    lambda turn, measure, n=name: self._note(n, "membership", turn, measure),
                )
            except FAILURES as error:
                self.runs.append(Run(name, "membership", 0, error=f"{type(error).__name__}: {error}"))
            for turn in range(rounds):
                folder = self._folder / f"{name}-discovery-{turn}"
                self._note(name, "discovery", turn, lambda n=name, f=folder: clusters.discovery(n, f))

    def _flow(self, row: Row, started: brokers.Started) -> dict[str, float]:
        peer, plan = started.peer, self.plan
        if isinstance(row.load, Perf):
            before = brokers.usage(peer.pid)
            load = run_load(peer.url, row.load, row.durable, plan.seconds, plan.warm_load, self._folder)
            after = brokers.usage(peer.pid)
            return figures_of(load, after.cpu_seconds - before.cpu_seconds, after.resident_mib)
        marks: dict[str, brokers.Usage] = {}

        def mark(event: str, line: Mapping[str, Any]) -> None:
            marks[event] = brokers.usage(peer.pid)

        assert isinstance(row.load, Program)
        options = {**row.load.options, "warm": max(1, plan.warm_load // 2), "seconds": plan.seconds}
        load = load_of(self._program.run(peer.url, row.load.workload, options, plan.warm_load + plan.seconds, mark))
        return figures_of(load, marks["measured"].cpu_seconds - marks["measuring"].cpu_seconds, marks["measured"].resident_mib)

    def _million(self, name: str) -> dict[str, float]:
        started = self._running[name]
        # its memory after the start counts, not that after all the rows
        return amounts.million(self._program, started, self.plan.sizes, lambda again: self._running.update({name: again}))


def run_ten_million(folder: Path, count: int) -> Run:
    """Through a paged queue of mqbroker, with its peak of memory."""
    peer = brokers.new_broker("mqbroker", folder / "broker", amounts.PAGING)
    program = LoadProgram()
    try:
        brokers.start_peer(peer)
        return Run("mqbroker", TEN_MILLION, 0, amounts.ten_million(program, peer, count))
    except FAILURES as error:
        return Run("mqbroker", TEN_MILLION, 0, error=f"{type(error).__name__}: {error}")
    finally:
        program.stop()
        peer.kill()


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
