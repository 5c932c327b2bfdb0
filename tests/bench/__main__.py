"""`make bench`: mqbroker and Artemis under the same loads, interleaved in one run; tables with targets go to docs/performance.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests import compiled
from tests.bench import brokers, databases, enhanced, ha, homes, once, report, spark
from tests.bench.amounts import Sizes
from tests.bench.before import cost_table
from tests.bench.databases import PREFIX as DATABASES_PREFIX
from tests.bench.enhanced_rows import PREFIX as ENHANCED_PREFIX
from tests.bench.ha_rows import PREFIX as HA_PREFIX
from tests.bench.ha_rows import ZOOKEEPER_PREFIX
from tests.bench.homes_rows import PREFIX as HOMES_PREFIX
from tests.bench.once import PREFIX as ONCE_PREFIX
from tests.bench.plots import write_pictures
from tests.bench.results import Results, Run, load_results, machine
from tests.bench.rows import TEN_MILLION, chosen, row_names
from tests.bench.runner import Plan, Runner, clock, run_ten_million
from tests.bench.spark_rows import PREFIX as SPARK_PREFIX
from tests.interop.artemis import distribution
from tests.interop.maven import java_missing

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
PUBLISHED = DOCUMENT.parent / "performance" / "results.json"
KEPT = Path(__file__).resolve().parent / ".results" / "latest.json"
QUICK_ROWS = ("durable-1KiB-1", "blocking-1", "transacted")
QUICK_SIZES = Sizes(connections=50, queues=50, messages=5_000)
MESSAGES_TEN_MILLION = 10_000_000


Note = Callable[[Run], None]


@dataclass(frozen=True)
class Group:
    """Rows, told by the ``prefix`` of their names, that an option measures alone, in so many rounds, and quickly or not."""

    option: str
    about: str
    prefix: str
    measure: Callable[[Path, int, bool, Note], None]
    in_whole: bool = True
    """Whether `make bench` measures the group by itself."""


def _sizes(module: Any, quick: bool) -> Any:
    return module.QUICK if quick else module.Sizes()


GROUPS = (
    Group(
        "ha",
        "high availability",
        HA_PREFIX,
        lambda folder, rounds, quick, note: ha.measure(folder, rounds, _sizes(ha, quick), note),
    ),
    Group(
        "zookeeper",
        "high availability with ZooKeeper",
        ZOOKEEPER_PREFIX,
        lambda folder, rounds, quick, note: ha.measure_zookeeper(folder, rounds, note),
        in_whole=False,
    ),
    Group("imq", "home brokers", HOMES_PREFIX, lambda folder, rounds, quick, note: homes.measure(rounds, _sizes(homes, quick), note)),
    Group(
        "enhanced",
        "enhanced clusters",
        ENHANCED_PREFIX,
        lambda folder, rounds, quick, note: enhanced.measure(rounds, _sizes(enhanced, quick), note),
    ),
    Group(
        "database",
        "databases",
        DATABASES_PREFIX,
        lambda folder, rounds, quick, note: databases.measure(folder, rounds, _sizes(databases, quick), note),
    ),
    Group("once", "exactlyOnce", ONCE_PREFIX, lambda folder, rounds, quick, note: once.measure(folder, rounds, _sizes(once, quick), note)),
    Group(
        "spark",
        "Spark's source and sink",
        SPARK_PREFIX,
        lambda folder, rounds, quick, note: spark.measure(folder, rounds, _sizes(spark, quick), note),
    ),
)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few rows for a moment, to see that it works; the figures mean nothing")
    parser.add_argument("--rows", metavar="NAME,…", help=f"only these of: {', '.join(row_names())}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=6, help="measured time of each run (default %(default)s)")
    parser.add_argument("--warm-up", type=int, default=4, help="seconds of the same load before it is measured (default %(default)s)")
    parser.add_argument("--warm-broker", type=int, default=30, help="seconds of load for each fresh broker (default %(default)s)")
    parser.add_argument("--broker", action="append", choices=brokers.NAMES, help="only this broker (may be repeated)")
    parser.add_argument("--compiled", action="store_true", help="measure the compiled form of mqbroker, too: half as long again")
    parser.add_argument(
        "--before",
        action="store_true",
        help="compare CPU per message with the checkout in the folder .before (git worktree add .before COMMIT), without Artemis",
    )
    parser.add_argument(
        "--ten-million",
        action="store_true",
        help="only this, long: ten million messages through a paged queue of mqbroker; joins the kept results",
    )
    for group in GROUPS:
        parser.add_argument(f"--{group.option}", action="store_true", help=f"only the rows of {group.about}; they join the kept results")
    parser.add_argument("--messages", type=int, default=MESSAGES_TEN_MILLION, help="how many --ten-million puts (default %(default)s)")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="measure nothing: make the table from these results")
    parser.add_argument(
        "--results", type=Path, default=KEPT, metavar="FILE", help="where the results are kept as JSON (default %(default)s)"
    )
    parser.add_argument("--no-write", action="store_true", help="leave docs/performance.md as it is (so do --quick, --rows and --broker)")
    options = parser.parse_args(arguments)
    missing = java_missing() if options.source is None else None
    if missing is not None:
        parser.error(f"the load clients need Java 17 and Maven: {missing}")
    if options.before and not (brokers.BEFORE_TREE / "src").is_dir():
        parser.error("there is no checkout in .before; make it with: git worktree add .before COMMIT")
    try:
        chosen(options.rows)
    except ValueError as error:
        parser.error(str(error))
    return options


def plan_of(options: argparse.Namespace) -> Plan:
    flows, wanted = chosen(options.rows)
    if options.before:
        return Plan(["mqbroker", brokers.BEFORE], flows, [], options.rounds, options.seconds, options.warm_up, options.warm_broker)
    names = [*(options.broker or brokers.NAMES), *([brokers.COMPILED] if options.compiled else ())]
    if options.quick:
        if options.rows is None:
            flows = [row for row in flows if row.name in QUICK_ROWS]
        return Plan(names, flows, wanted, rounds=1, seconds=2, warm_load=2, warm_broker=0, sizes=QUICK_SIZES)
    return Plan(names, flows, wanted, options.rounds, options.seconds, options.warm_up, options.warm_broker)


def measure(plan: Plan, command: str, kept: Path | None) -> Results:
    """All runs of a plan, written to `kept` after each of them."""
    settings = {name: value for name, value in asdict(plan).items() if name not in ("rows", "amounts", "sizes")}

    def results() -> Results:
        return Results(machine(), command, settings, list(runner.runs))

    def save() -> None:
        if kept is not None:
            results().save(kept)

    with tempfile.TemporaryDirectory(prefix="mqbroker-bench-") as folder:
        runner = Runner(plan, Path(folder), save)
        runner.run()
    return results()


def with_ten_million(earlier: Results, count: int) -> Results:
    with tempfile.TemporaryDirectory(prefix="mqbroker-bench-") as folder:
        run = run_ten_million(Path(folder), count)
    run = replace(run, figures={**run.figures, "count": float(count)})
    return replace(earlier, runs=[*(each for each in earlier.runs if each.row != TEN_MILLION), run])


def with_group(earlier: Results, group: Group, rounds: int, quick: bool) -> Results:
    """The rows of a group instead of those that were there."""
    rounds = 1 if quick else rounds
    runs: list[Run] = []
    begin = time.monotonic()

    def note(run: Run) -> None:
        runs.append(run)
        told = run.error[:300] or ", ".join(f"{name} {value:,.1f}" for name, value in run.figures.items())
        place = f"[{clock(time.monotonic() - begin)}] {run.round + 1}/{rounds} {run.row}: {run.broker}"
        print(f"{place} {told}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="mqbroker-bench-") as folder:
        group.measure(Path(folder), rounds, quick, note)
    return replace(earlier, runs=[*(each for each in earlier.runs if not each.row.startswith(group.prefix)), *runs])


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    command = " ".join(["python -m tests.bench", *arguments])
    asked = [group for group in GROUPS if getattr(options, group.option)]
    if options.source is not None:
        results = load_results(options.source)
    elif options.ten_million or asked:
        empty = Results(machine(), command, {"rounds": 0, "seconds": 0, "warm_load": 0, "warm_broker": 0}, [])
        kept = () if options.quick else (options.results, PUBLISHED)
        results = next((load_results(path) for path in kept if path.exists()), empty)
        if options.ten_million:
            results = with_ten_million(results, options.messages)
        for group in asked:
            results = with_group(results, group, options.rounds, options.quick)
        if not options.quick:
            results.save(options.results)
    else:
        distribution()
        if options.compiled:
            compiled.build()
        plan = plan_of(options)
        print(f"{len(plan.rows) + len(plan.amounts)} rows, about {clock(plan.estimate())} minutes", file=sys.stderr, flush=True)
        partial = options.quick or options.rows or options.broker or options.before
        results = measure(plan, command, None if partial and options.results == KEPT else options.results)
        if not partial:
            for group in GROUPS:
                if group.in_whole:
                    results = with_group(results, group, options.rounds, quick=False)
            results.save(options.results)
    if options.before:
        print(cost_table(results.runs))
        return 1 if any(run.error for run in results.runs) else 0
    whole = options.source is not None or not (options.quick or options.rows or options.broker)
    if whole and not options.no_write:
        report.write_into(DOCUMENT, report.render(results, write_pictures(results.runs, PUBLISHED.parent)))
        results.save(PUBLISHED)
    print(report.render(results))
    print(report.absolute(results))
    return 1 if any(run.error for run in results.runs) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
