"""Figures of several interleaved runs as one Markdown table: ratios first, because absolute figures change with the machine."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.load_client import LoadResult

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


@dataclass(frozen=True)
class Run:
    """One run of one workload against one broker, with the CPU seconds that the broker used for it."""

    broker: str
    workload: str
    load: LoadResult
    cpu_seconds: float
    resident_mib: float

    @property
    def per_cpu_second(self) -> float:
        return self.load.total_messages / self.cpu_seconds if self.cpu_seconds else 0.0


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median, with least and greatest when there are several: `120 [110–130]`."""
    middle = f"{statistics.median(values):,.{digits}f}"
    return middle if len(values) == 1 else f"{middle} [{min(values):,.{digits}f}–{max(values):,.{digits}f}]"


def ratios(mine: Sequence[Run], others: Sequence[Run]) -> list[float]:
    """Throughput of mqbroker divided by that of Artemis, round by round."""
    return [a.load.per_second / b.load.per_second for a, b in zip(mine, others, strict=True)]


def workload_table(runs: Sequence[Run], brokers: Sequence[str]) -> list[str]:
    lines = [
        "| workload | broker | msg/s | throughput ratio | per CPU s | p50 ms | p99 ms | resident MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for workload in dict.fromkeys(run.workload for run in runs):
        groups = {name: [run for run in runs if run.workload == workload and run.broker == name] for name in brokers}
        for name, group in groups.items():
            ratio = spread(ratios(group, groups["artemis"]), 2) if name == "mqbroker" and groups.get("artemis") else ""
            cells = [
                workload,
                name,
                spread([run.load.per_second for run in group]),
                ratio,
                spread([run.per_cpu_second for run in group]),
                spread([run.load.p50_ms for run in group], 1),
                spread([run.load.p99_ms for run in group], 1),
                spread([run.resident_mib for run in group]),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def start_table(starts: dict[str, list[tuple[float, float]]]) -> list[str]:
    lines = ["| broker | start: exec to first answer, s | memory after the start, MiB |", "|---|---|---|"]
    for name, values in starts.items():
        lines.append(f"| {name} | {spread([seconds for seconds, _ in values], 2)} | {spread([mib for _, mib in values])} |")
    return lines


def machine() -> str:
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    return (
        f"{os.cpu_count()} processors, {int(memory.split()[1]) / 1048576:.0f} GiB, {platform.system()}, Python {platform.python_version()}"
    )


def write_into(path: Path, table: str) -> None:
    """Put `table` between the two marks of the document; raises ValueError when it has none."""
    text = path.read_text()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{path} has no marks {BEGIN} and {END}")
    before, rest = text.split(BEGIN, 1)
    path.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END, 1)[1]}")
