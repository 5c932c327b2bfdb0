"""Results as Markdown: ratios and targets first, because absolute figures change with the machine, then the figures themselves."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import rows
from tests.bench.brokers import COMPILED
from tests.bench.databases import DATABASES_NOTE, databases_table
from tests.bench.enhanced_rows import ENHANCED_NOTE, enhanced_table
from tests.bench.ha_rows import HA_NOTE, ha_table
from tests.bench.homes_rows import HOMES_NOTE, homes_table
from tests.bench.judging import PURE, Judged, figures, judged, ratios, spread
from tests.bench.once import ONCE_NOTE, once_table
from tests.bench.results import Results, Run
from tests.bench.rows import FLOWS, TEN_MILLION, Row
from tests.bench.spark_rows import spark_table

TITLES = {PURE: "mqbroker", COMPILED: "mqbroker (compiled)", "artemis": "artemis", "disk": "bare loop"}
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
TEN_MILLION_MIB_MAX = 300.0
SPARK_NOTE = (
    "Driver, executor and broker share the processors; `python -m tests.bench --spark` measures this table alone. A source is a stream "
    "that reads what is in a queue, with a reader of its own; a sink is a batch. Memory is the greatest that was seen of the broker, of "
    "one Python worker, and of the virtual machine."
)


SECTIONS: Sequence[tuple[str, str, Callable[[Sequence[Run]], list[str]]]] = (
    ("High availability", HA_NOTE, ha_table),
    ("Home brokers", HOMES_NOTE, homes_table),
    ("Enhanced clusters", ENHANCED_NOTE, enhanced_table),
    ("A database", DATABASES_NOTE, databases_table),
    ("Exactly once", ONCE_NOTE, once_table),
    ("Spark", SPARK_NOTE, spark_table),
)
"""Title, note, and table, which is empty where nothing was measured."""


@dataclass(frozen=True)
class Amount:
    """One figure of a row that is measured by amount. `most` or `least`: the target of the ratio to Artemis."""

    row: str
    figure: str
    title: str
    digits: int = 0
    most: float | None = None
    least: float | None = None


AMOUNTS = (
    Amount("start", "start_s", "start: exec to first answer, s", 2, most=rows.START_RATIO_MAX),
    Amount("start", "resident_mib", "memory after the start, MiB", 0, most=rows.MEMORY_RATIO_MAX),
    Amount("idle", "kib_each", "memory of an idle connection with session and consumer, KiB", 1, most=rows.MEMORY_RATIO_MAX),
    Amount("idle", "connects_per_second", "connections opened per second"),
    Amount("queues", "kib_each", "memory of a durable queue, KiB", 1, most=rows.MEMORY_RATIO_MAX),
    Amount("membership", "join_s", "a third node joins a cluster, until all members tell their clients, s", 2),
    Amount("membership", "leave_s", "it leaves, s", 2),
    Amount(
        "discovery", "discovery_s", "a second node starts, until both have found each other by UDP multicast (announced every second), s", 2
    ),
    Amount("million", "put_per_second", "a million durable messages of 100 B put, msg/s", least=rows.DURABLE[0]),
    Amount("million", "drain_per_second", "the same drained, msg/s", least=rows.DURABLE[0]),
    Amount("million", "bytes_each", "memory of a queued message of 100 B, bytes", most=rows.MEMORY_RATIO_MAX),
    Amount("million", "resident_mib", "memory with a million messages, MiB", most=rows.MEMORY_RATIO_MAX),
    Amount("million", "restart_s", "restart with a million messages after kill -9, s", 2, most=rows.RESTART_RATIO_MAX),
    Amount("million", "restart_resident_mib", "memory after that, MiB", most=rows.MEMORY_RATIO_MAX),
)


def forms(runs: Sequence[Run]) -> list[str]:
    """mqbroker as it is, and its compiled form if that was measured, too."""
    return [PURE, COMPILED] if any(run.broker == COMPILED for run in runs) else [PURE]


def bare_loop_share(runs: Sequence[Run], row: Row, form: str = PURE) -> float | None:
    """Median of what mqbroker reaches of the bare loop of write and fdatasync beside it, or None."""
    mine, disk = figures(runs, row.name, form, "per_second"), figures(runs, row.name, "disk", "per_second")
    shares = [mine[turn] / disk[turn] for turn in mine.keys() & disk.keys()]
    return statistics.median(shares) if shares else None


def throughput(runs: Sequence[Run], row: Row, form: str = PURE) -> Judged:
    found = judged(ratios(runs, row.name, "per_second", form), least=row.throughput_target)
    share = bare_loop_share(runs, row, form) if row.beside_bare_loop else None
    if share is not None and share >= rows.BARE_LOOP_SHARE:
        return Judged(found.values, True)
    return found


def target_table(runs: Sequence[Run]) -> list[str]:
    lines = [
        "| row | throughput | target | per CPU s | target | p99 (at most 1) | memory (at most 1/4) |",
        "|---|---|---|---|---|---|---|",
    ]
    for row, form in ((row, form) for row in present(runs) for form in forms(runs)):
        target = f"≥ {row.throughput_target}"
        if row.beside_bare_loop:
            share = bare_loop_share(runs, row, form)
            target += f", or ≥ {rows.BARE_LOOP_SHARE:.0%} of the bare loop" + (f" (has {share:.0%})" if share is not None else "")
        cells = [
            row.title if form == PURE else f"{row.title}: compiled",
            throughput(runs, row, form).text(),
            target,
            judged(ratios(runs, row.name, "per_cpu_second", form), least=row.cpu_target).text(),
            f"≥ {row.cpu_target}",
            judged(ratios(runs, row.name, "p99_ms", form), most=rows.P99_RATIO_MAX).text(),
            judged(ratios(runs, row.name, "resident_mib", form), most=rows.MEMORY_RATIO_MAX).text(),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def present(runs: Sequence[Run]) -> list[Row]:
    return [row for row in FLOWS if any(run.row == row.name for run in runs)]


def figure_table(runs: Sequence[Run]) -> list[str]:
    lines = ["| row | | msg/s | per CPU s | p50 ms | p99 ms | p99.9 ms | resident MiB |", "|---|---|---|---|---|---|---|---|"]
    columns = (("per_second", 0), ("per_cpu_second", 0), ("p50_ms", 2), ("p99_ms", 2), ("p999_ms", 2), ("resident_mib", 0))
    for row in present(runs):
        for broker in (*forms(runs), "artemis", "disk"):
            cells = [
                spread(list(values.values()), digits) if (values := figures(runs, row.name, broker, name)) else ""
                for name, digits in columns
            ]
            if any(cells):
                lines.append(f"| {row.title} | {TITLES[broker]} | " + " | ".join(cells) + " |")
    return lines


def amount_table(runs: Sequence[Run]) -> list[str]:
    brokers = [*forms(runs), "artemis"]
    kinds = ["ratio"] if COMPILED not in brokers else ["ratio", "ratio (compiled)"]
    heads = ["measurement", *(TITLES[broker] for broker in brokers), *kinds, "target"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for amount in AMOUNTS:
        values = [list(figures(runs, amount.row, broker, amount.figure).values()) for broker in brokers]
        if not any(values):
            continue
        target = f"≤ {amount.most}" if amount.most is not None else f"≥ {amount.least}" if amount.least is not None else ""
        found = [judged(ratios(runs, amount.row, amount.figure, form), least=amount.least, most=amount.most) for form in forms(runs)]
        cells = [amount.title, *(spread(each, amount.digits) if each else "" for each in values), *(each.text() for each in found), target]
        lines.append("| " + " | ".join(cells) + " |")
    return lines if len(lines) > 2 else []


def ten_million_lines(runs: Sequence[Run]) -> list[str]:
    for run in runs:
        if run.row == TEN_MILLION and not run.error:
            peak, rates = run.figures["peak_mib"], [run.figures[f"{name}_per_second"] for name in ("put", "drain")]
            verdict = "reached" if peak < TEN_MILLION_MIB_MAX else "**not reached**"
            return [
                f"{run.figures['count']:,.0f} messages of 100 B put into one queue with paging, then drained (`--ten-million`): "
                f"{rates[0]:,.0f} and {rates[1]:,.0f} msg/s; greatest resident memory of the broker {peak:,.0f} MiB, "
                f"target below {TEN_MILLION_MIB_MAX:.0f} MiB: {verdict}."
            ]
    return []


def error_lines(runs: Sequence[Run]) -> list[str]:
    failed = [run for run in runs if run.error]
    return [f"- {run.row}, {run.broker}, round {run.round + 1}: {' '.join(run.error.split())[:300]}" for run in failed]


def render(results: Results, pictures: Sequence[str] = ()) -> str:
    """Everything between the marks of the document; `pictures` are paths relative to it.

    Absolute figures are left out (see :func:`absolute`): they change with the machine, and the document keeps to one page.
    """
    runs, settings = results.runs, results.settings
    parts = [
        [f"Machine: {results.machine}. Command: `{results.command}`."],
    ]
    if settings["rounds"]:
        parts[0].append(
            f"Median [least–greatest] of {settings['rounds']} interleaved rounds of {settings['seconds']} s, "
            f"each after {settings['warm_load']} s of the same load; the brokers had {settings['warm_broker']} s of load before."
        )
    if present(runs):
        parts.append(["### mqbroker divided by Artemis"])
        parts.append(target_table(runs))
        parts.append([f"![{picture}]({picture})" for picture in pictures])
    parts.append(["### Start, memory, a million messages"] if amount_table(runs) else [])
    parts.append(amount_table(runs))
    parts.append(ten_million_lines(runs))
    for title, note, table in SECTIONS:
        lines = table(runs)
        parts += [[f"### {title}", note], lines] if lines else []
    errors = error_lines(runs)
    parts.append([f"### Failed runs ({len(errors)})", *errors] if errors else [])
    return "\n\n".join("\n".join(part) for part in parts if part)


def absolute(results: Results) -> str:
    """The figures of each broker behind the ratios; empty when no row has any."""
    return "\n\n".join(["### Figures", "\n".join(figure_table(results.runs))]) if present(results.runs) else ""


def write_into(path: Path, table: str) -> None:
    """Put `table` between the two marks of the document; raises ValueError when it has none."""
    text = path.read_text()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{path} has no marks {BEGIN} and {END}")
    before, rest = text.split(BEGIN, 1)
    path.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END, 1)[1]}")
