"""`make bench`: mqbroker and Artemis under the same loads, interleaved in one run; tables with targets go to docs/performance.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from tests import compiled
from tests.bench import brokers, databases, ha, homes, once, report, spark
from tests.bench.amounts import Sizes
from tests.bench.before import cost_table
from tests.bench.databases import PREFIX as DATABASES_PREFIX
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
    parser.add_argument("--spark", action="store_true", help="only the rows of Spark's source and sink; they join the kept results")
    parser.add_argument("--ha", action="store_true", help="only the rows of high availability; they join the kept results")
    parser.add_argument("--zookeeper", action="store_true", help="of these rows only those with ZooKeeper; they join the kept results")
    parser.add_argument("--imq", action="store_true", help="only the rows of home brokers; they join the kept results")
    parser.add_argument("--database", action="store_true", help="only the rows of databases; they join the kept results")
    parser.add_argument("--once", action="store_true", help="only the rows of exactlyOnce; they join the kept results")
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


def with_rows(earlier: Results, prefix: str, rounds: int, measure: Callable[[Path, int, Callable[[Run], None]], None]) -> Results:
    """The rows of a group instead of those that were there."""
    runs: list[Run] = []
    begin = time.monotonic()

    def note(run: Run) -> None:
        runs.append(run)
        told = run.error[:300] or ", ".join(f"{name} {value:,.1f}" for name, value in run.figures.items())
        place = f"[{clock(time.monotonic() - begin)}] {run.round + 1}/{rounds} {run.row}: {run.broker}"
        print(f"{place} {told}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="mqbroker-bench-") as folder:
        measure(Path(folder), rounds, note)
    return replace(earlier, runs=[*(each for each in earlier.runs if not each.row.startswith(prefix)), *runs])


def with_spark(earlier: Results, rounds: int, sizes: spark.Sizes) -> Results:
    return with_rows(earlier, SPARK_PREFIX, rounds, lambda folder, rounds, note: spark.measure(folder, rounds, sizes, note))


def with_ha(earlier: Results, rounds: int, sizes: ha.Sizes) -> Results:
    return with_rows(earlier, HA_PREFIX, rounds, lambda folder, rounds, note: ha.measure(folder, rounds, sizes, note))


def with_zookeeper(earlier: Results, rounds: int) -> Results:
    return with_rows(earlier, ZOOKEEPER_PREFIX, rounds, ha.measure_zookeeper)


def with_homes(earlier: Results, rounds: int, sizes: homes.Sizes) -> Results:
    return with_rows(earlier, HOMES_PREFIX, rounds, lambda folder, rounds, note: homes.measure(rounds, sizes, note))


def with_databases(earlier: Results, rounds: int, sizes: databases.Sizes) -> Results:
    return with_rows(earlier, DATABASES_PREFIX, rounds, lambda folder, rounds, note: databases.measure(folder, rounds, sizes, note))


def with_once(earlier: Results, rounds: int, sizes: once.Sizes) -> Results:
    return with_rows(earlier, ONCE_PREFIX, rounds, lambda folder, rounds, note: once.measure(folder, rounds, sizes, note))


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    command = " ".join(["python -m tests.bench", *arguments])
    if options.source is not None:
        results = load_results(options.source)
    elif options.ten_million or options.spark or options.ha or options.zookeeper or options.imq or options.database or options.once:
        empty = Results(machine(), command, {"rounds": 0, "seconds": 0, "warm_load": 0, "warm_broker": 0}, [])
        kept = () if options.quick else (options.results, PUBLISHED)
        results = next((load_results(path) for path in kept if path.exists()), empty)
        if options.ten_million:
            results = with_ten_million(results, options.messages)
        if options.spark:
            results = with_spark(results, 1 if options.quick else options.rounds, spark.QUICK if options.quick else spark.Sizes())
        if options.ha:
            results = with_ha(results, 1 if options.quick else options.rounds, ha.QUICK if options.quick else ha.Sizes())
        if options.zookeeper:
            results = with_zookeeper(results, 1 if options.quick else options.rounds)
        if options.imq:
            results = with_homes(results, 1 if options.quick else options.rounds, homes.QUICK if options.quick else homes.Sizes())
        if options.database:
            sizes = databases.QUICK if options.quick else databases.Sizes()
            results = with_databases(results, 1 if options.quick else options.rounds, sizes)
        if options.once:
            results = with_once(results, 1 if options.quick else options.rounds, once.QUICK if options.quick else once.Sizes())
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
            results = with_ha(results, options.rounds, ha.Sizes())
            results = with_homes(results, options.rounds, homes.Sizes())
            results = with_databases(results, options.rounds, databases.Sizes())
            results = with_once(results, options.rounds, once.Sizes())
            results = with_spark(results, options.rounds, spark.Sizes())
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
