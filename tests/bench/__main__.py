"""`python -m tests.bench`: the load client of the real distribution against mqbroker and Artemis, interleaved in one run."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import brokers, report
from tests.bench.load_client import WORKLOADS, Workload, run_load
from tests.interop.artemis import distribution
from tests.interop.maven import java_missing

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "performance.md"


@dataclass(frozen=True)
class Plan:
    """How much is run: every workload in every round, each for `seconds` after `warm_up_seconds`."""

    brokers: Sequence[str]
    workloads: Sequence[Workload]
    rounds: int
    seconds: int
    warm_up_seconds: int


def one_run(name: str, started: brokers.Started, workload: Workload, plan: Plan, folder: Path) -> report.Run:
    before = brokers.usage(started.peer.pid)
    load = run_load(started.peer.url, workload, plan.seconds, plan.warm_up_seconds, folder)
    after = brokers.usage(started.peer.pid)
    return report.Run(name, workload.name, load, after.cpu_seconds - before.cpu_seconds, after.resident_mib)


def measure(plan: Plan, folder: Path) -> tuple[list[report.Run], dict[str, list[tuple[float, float]]]]:
    """All runs, and per broker the start-up times (s) with the memory after the start (MiB)."""
    starts: dict[str, list[tuple[float, float]]] = {name: [] for name in plan.brokers}
    running: dict[str, brokers.Started] = {}
    runs: list[report.Run] = []
    try:
        for name in plan.brokers:
            for attempt in range(plan.rounds):
                started = brokers.start(name, folder / f"{name}-{attempt}")
                starts[name].append((started.start_seconds, started.resident_mib))
                if attempt < plan.rounds - 1:
                    started.peer.stop()
                else:
                    running[name] = started
        for turn in range(plan.rounds):
            for workload in plan.workloads:
                order = plan.brokers if turn % 2 == 0 else list(reversed(plan.brokers))
                for name in order:
                    run = one_run(name, running[name], workload, plan, folder)
                    print(f"{turn + 1}/{plan.rounds} {workload.name}: {name} {run.load.per_second:,.0f}/s", file=sys.stderr, flush=True)
                    runs.append(run)
    finally:
        for started in running.values():
            started.peer.stop()
    return runs, starts


def render(plan: Plan, runs: list[report.Run], starts: dict[str, list[tuple[float, float]]], command: str) -> str:
    lines = [
        f"Machine: {report.machine()}. Command: `{command}`.",
        f"Median [least–greatest] of {plan.rounds} interleaved rounds of {plan.seconds} s after a warm-up of {plan.warm_up_seconds} s.",
        "",
        *report.workload_table(runs, plan.brokers),
        "",
        *report.start_table(starts),
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it works; the figures mean nothing")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10, help="measured time of each run")
    parser.add_argument("--warm-up", type=int, default=8, help="seconds before the measurement, in each run")
    parser.add_argument("--broker", action="append", choices=("mqbroker", "artemis"), help="only this broker (may be repeated)")
    parser.add_argument("--no-write", action="store_true", help="leave docs/performance.md as it is (so do --quick and --broker)")
    options = parser.parse_args(arguments)
    missing = java_missing()
    if missing is not None:
        parser.error(f"the load client needs Java 17 and Maven: {missing}")
    distribution()
    names = options.broker or ["mqbroker", "artemis"]
    plan = Plan(names, WORKLOADS, options.rounds, options.seconds, options.warm_up)
    if options.quick:
        plan = Plan(names, WORKLOADS, rounds=1, seconds=2, warm_up_seconds=2)
    with tempfile.TemporaryDirectory() as folder:
        runs, starts = measure(plan, Path(folder))
    table = render(plan, runs, starts, " ".join(["python -m tests.bench", *arguments]))
    print(table)
    if not (options.no_write or options.quick or options.broker):
        report.write_into(DOCUMENT, table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
