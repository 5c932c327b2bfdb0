"""Many runs, one process per core: ``python -m tests.simulation --help``."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.simulation.cluster.run import simulate_cluster
from tests.simulation.coverage import Coverage
from tests.simulation.database.members_run import simulate_enhanced
from tests.simulation.database.pair_run import simulate_database_pair
from tests.simulation.database.peers_run import simulate_peers
from tests.simulation.database.run import simulate_database
from tests.simulation.ha.runs import simulate_ha
from tests.simulation.imq.run import simulate_homes
from tests.simulation.late import simulate_late
from tests.simulation.plants import RUN_PLANTS, planted, put
from tests.simulation.run import Result, simulate
from tests.simulation.stops import simulate_stops

KINDS: dict[str, Callable[[int], Result]] = {
    "single": simulate,
    "cluster": simulate_cluster,
    "stops": simulate_stops,
    "late": simulate_late,
    "database": simulate_database,
    "database-pair": simulate_database_pair,
    "ha": simulate_ha,
    "homes": simulate_homes,
    "peers": simulate_peers,
    "enhanced": simulate_enhanced,
}
"""What runs a seed, by the kind of run."""
CHUNK = 5
"""Seeds that a process takes at a time."""
PROGRESS_SECONDS = 5.0


@dataclass(slots=True)
class Outcome:
    """What a run came to, small enough to be sent from one process to another; ``report`` is empty when all holds."""

    seed: int
    violations: list[str]
    report: str
    faults: list[str]
    events: int
    messages: int
    receipts: int
    starts: int
    handovers: int


@dataclass(slots=True)
class Summary:
    """What many runs came to."""

    seeds: int = 0
    events: int = 0
    messages: int = 0
    receipts: int = 0
    restarted: int = 0
    """Runs in which the broker was started again while clients worked."""
    handovers: int = 0
    """How often a node has given everything away in a scale-down."""
    faults: Counter[str] = field(default_factory=Counter)
    failed: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.events += outcome.events
        self.messages += outcome.messages
        self.receipts += outcome.receipts
        self.restarted += outcome.starts > 2
        self.handovers += outcome.handovers
        self.faults.update(outcome.faults)
        if outcome.violations:
            self.failed.append(outcome)

    def __str__(self) -> str:
        state = f"{len(self.failed)} failed: {[outcome.seed for outcome in self.failed]}" if self.failed else "all hold"
        return (
            f"{self.seeds} seeds, {self.events} events, {self.messages} messages, {self.receipts} receipts, "
            f"{self.restarted} runs with restarts, "
            f"{self.handovers} handovers, {sum(self.faults.values())} faults in {self.seconds:.1f} s: {state}"
        )


def outcome_of(result: Result, verbose: bool = False, plant: str = "") -> Outcome:
    return Outcome(
        result.seed,
        result.violations,
        result.report(verbose, plant) if result.violations else "",
        [str(getattr(fault, "kind", type(fault).__name__)) for fault in (*result.schedule.timed, *result.schedule.cuts)],
        result.events,
        result.messages,
        result.receipts,
        result.starts,
        result.handovers,
    )


def cores() -> int:
    """How many processes may work at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_many(
    seeds: Sequence[int],
    jobs: int = 0,
    plant: str = "",
    first_failure: bool = False,
    on_outcome: Callable[[Summary, Outcome], object] = lambda summary, outcome: None,
    kind: str = "single",
) -> Summary:
    """Run all seeds (``kind``: see :data:`KINDS`), in ``jobs`` processes (0: one per core), with ``plant`` in the code.

    ``first_failure`` ends at the first that fails.

    Which seed is the first to fail may then depend on which process is faster.
    """
    summary = Summary()
    started = time.monotonic()
    for outcome in _outcomes(seeds, jobs or cores(), plant, kind):
        summary.add(outcome)
        summary.seconds = time.monotonic() - started
        on_outcome(summary, outcome)
        if first_failure and outcome.violations:
            break
    return summary


def _outcomes(seeds: Sequence[int], jobs: int, plant: str, kind: str) -> Iterator[Outcome]:
    if jobs == 1:
        with planted(plant), _all_there_kept():
            yield from map(_run_planted, ((seed, plant, kind) for seed in seeds))
        return
    with planted(plant):
        pass  # a plant that does not fit fails here, and not in every process that the pool begins
    # The first pool begins a process that has all this imported, and that those of all pools are copies of.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with context.Pool(jobs, _begin, (plant,)) as pool:
        yield from pool.imap_unordered(_run_planted, [(seed, plant, kind) for seed in seeds], 1 if plant else CHUNK)


@contextmanager
def _all_there_kept() -> Iterator[None]:
    """While this lasts what is there now is not looked at when what a run has made is collected."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _begin(plant: str) -> None:
    """The first thing that a process of the pool does."""
    put(plant)
    gc.collect()
    gc.freeze()


def _run_planted(work: tuple[int, str, str]) -> Outcome:
    seed, plant, kind = work
    try:
        return outcome_of(KINDS[kind](seed), plant=plant)
    except Exception:
        # Not every error can be sent from one process to another, and the other seeds are to be run.
        report = f"seed {seed}: {traceback.format_exc()}"
        return Outcome(seed, ["the run raised an error"], report, faults=[], events=0, messages=0, receipts=0, starts=0, handovers=0)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Broker and clients under simulated faults.")
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="how many seeds to run (default %(default)s)")
    parser.add_argument("--first", type=int, default=1, metavar="S", help="the seed to begin with (default %(default)s)")
    parser.add_argument("--seed", type=int, metavar="S", help="run just this seed, and print its digest")
    parser.add_argument("--verbose", action="store_true", help="with --seed: print the whole event log")
    parser.add_argument("--jobs", type=int, default=0, metavar="J", help="processes at a time (default: one per core)")
    parser.add_argument(
        "--plant",
        default="",
        choices=sorted(RUN_PLANTS),
        help="put this fault into the code first",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--cluster",
        action="store_const",
        dest="kind",
        const="cluster",
        default="single",
        help="clusters of several brokers instead of one that is alone",
    )
    kind.add_argument(
        "--stops",
        action="store_const",
        dest="kind",
        const="stops",
        help="of both, with orderly stops, starts that fail and scale-down only",
    )
    kind.add_argument(
        "--late",
        action="store_const",
        dest="kind",
        const="late",
        help="of both, with a store that answers later than it is asked",
    )
    kind.add_argument(
        "--database",
        action="store_const",
        dest="kind",
        const="database",
        help="one broker that keeps everything in a database",
    )
    kind.add_argument(
        "--database-pair",
        action="store_const",
        dest="kind",
        const="database-pair",
        help="a primary and its backups on one database",
    )
    kind.add_argument(
        "--ha",
        action="store_const",
        dest="kind",
        const="ha",
        help="brokers of which one is active, and that take each other's place",
    )
    kind.add_argument(
        "--homes",
        action="store_const",
        dest="kind",
        const="homes",
        help="clusters of home brokers, where each message stays at the broker that took it",
    )
    kind.add_argument(
        "--peers",
        action="store_const",
        dest="kind",
        const="peers",
        help="the same without a master, with the change record in a database",
    )
    kind.add_argument(
        "--enhanced",
        action="store_const",
        dest="kind",
        const="enhanced",
        help="enhanced clusters, where one broker takes over another one that has failed",
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="run in this process, also half as many clusters and groups, and tell which lines of the broker and of the client ran",
    )
    options = parser.parse_args(arguments)
    if options.coverage:
        return _coverage(range(options.first, options.first + options.seeds))
    if options.seed is not None:
        with planted(options.plant):
            return _one(options.seed, options.verbose, options.plant, options.kind)
    last_line = time.monotonic()

    def progress(summary: Summary, outcome: Outcome) -> None:
        nonlocal last_line
        if outcome.violations:
            print(outcome.report, flush=True)
        if time.monotonic() - last_line >= PROGRESS_SECONDS:
            last_line = time.monotonic()
            print(f"{summary.seeds} of {options.seeds} seeds, {len(summary.failed)} failed, {summary.seconds:.0f} s", flush=True)

    summary = run_many(
        range(options.first, options.first + options.seeds), options.jobs, options.plant, on_outcome=progress, kind=options.kind
    )
    print(", ".join(f"{name} {count}" for name, count in sorted(summary.faults.items())))
    print(summary)
    return 1 if summary.failed else 0


def _coverage(seeds: Sequence[int]) -> int:
    coverage = Coverage()
    with coverage.watching():
        summary = run_many(seeds, jobs=1)
        half = seeds[: (len(seeds) + 1) // 2]
        others = {kind: run_many(half, jobs=1, kind=kind) for kind in ("cluster", "ha")}
    print(coverage)
    print(summary)
    for kind, each in others.items():
        print(f"{kind}: {each}")
    return 1 if summary.failed or any(each.failed for each in others.values()) else 0


def _one(seed: int, verbose: bool, plant: str, kind: str) -> int:
    result = KINDS[kind](seed)
    if result.violations:
        print(result.report(verbose, plant))
        return 1
    if verbose:
        print("\n".join(result.log), "faults:", str(result.schedule), sep="\n")
    print(f"seed {seed}: {result.messages} messages, {result.receipts} receipts, {result.starts} starts, digest {result.digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
