"""The rows about Spark: what is measured, what it has to reach, and how the table shows it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.results import Run

SIZES = (100, 1024)
CORES = (1, 2)
COLUMNS = {"all": "", "two": "message_id,body"}
MODES = ("duplicateIds", "transactions")
SOURCE_ALL_MIN, SOURCE_TWO_MIN, SINK_MIN = 60_000.0, 150_000.0, 40_000.0
"""Messages a second on two cores, the broker included."""
PREFIX = "spark-"
KINDS = ("broker", "worker", "jvm")
"""Of processes."""


def sink_name(mode: str, size: int, cores: int) -> str:
    return f"{PREFIX}sink-{mode}-{size}-{cores}"


def source_name(kind: str, size: int, cores: int) -> str:
    return f"{PREFIX}source-{kind}-{size}-{cores}"


def rate_name(size: int, cores: int) -> str:
    return f"{PREFIX}rate-{size}-{cores}"


def deep_name(cores: int) -> str:
    return f"{PREFIX}deep-{cores}"


def client_name(what: str, size: int) -> str:
    return f"{PREFIX}client-{what}-{size}"


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    name: str
    title: str
    place: str
    least: float | None = None
    """Messages a second that it has to reach."""


def lines() -> list[Line]:
    found = []
    for size, label in zip(SIZES, ("100 B", "1 KiB"), strict=True):
        for cores in CORES:
            place = f"local[{cores}]"

            def least(target: float, cores: int = cores) -> float | None:
                return target if cores == 2 else None

            found += [
                Line(source_name("all", size, cores), f"source, all columns, {label}", place, least(SOURCE_ALL_MIN)),
                Line(source_name("two", size, cores), f"source, body and id only, {label}", place, least(SOURCE_TWO_MIN)),
                *(Line(sink_name(mode, size, cores), f"sink, {mode}, durable {label}", place, least(SINK_MIN)) for mode in MODES),
                Line(rate_name(size, cores), f"Spark's `rate` source, {label}", place),
            ]
        found += [
            Line(client_name("receive", size), f"our client in Python receives, {label}", ""),
            Line(client_name("send", size), f"our client in Python sends, durable {label}, 1,000 a commit", ""),
        ]
    return found + [
        Line(deep_name(cores), "source, body and id only, 100 B, from a queue that is paged", f"local[{cores}]") for cores in CORES
    ]


def of(runs: Sequence[Run], name: str, figure: str) -> list[float]:
    return [run.figures[figure] for run in runs if run.row == name and figure in run.figures]


def spark_table(runs: Sequence[Run]) -> list[str]:
    """Empty when nothing was measured."""
    table = [
        "| row | on | messages | msg/s | target | CPU, µs per message: broker | Python workers | virtual machine "
        "| memory, MiB: broker | a Python worker | virtual machine |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines():
        rates = of(runs, line.name, "per_second")
        if not rates:
            continue
        verdict = ""
        if line.least is not None:
            verdict = f"≥ {line.least:,.0f} " + ("reached" if statistics.median(rates) >= line.least else "**not reached**")
        costs = [f"{statistics.median(found):.1f}" if (found := of(runs, line.name, f"{kind}_us")) else "" for kind in KINDS]
        memory = [f"{max(found):,.0f}" if (found := of(runs, line.name, f"{kind}_mib")) else "" for kind in KINDS]
        cells = [line.title, line.place, f"{of(runs, line.name, 'messages')[0]:,.0f}", _spread(rates), verdict, *costs, *memory]
        table.append("| " + " | ".join(cells) + " |")
    return table if len(table) > 2 else []


def _spread(values: Sequence[float]) -> str:
    middle = f"{statistics.median(values):,.0f}"
    return middle if len(values) == 1 else f"{middle} [{min(values):,.0f}–{max(values):,.0f}]"
