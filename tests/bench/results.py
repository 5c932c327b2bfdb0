"""What the benchmark has measured, and its JSON form, from which the table can be made again."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


class LoadFailed(Exception):
    """A load ended with an error, took too long, or reported none of its numbers."""


@dataclass(frozen=True)
class Load:
    """What a load measured in its measured time; times in ms. `total_messages` belong to the CPU seconds."""

    messages: int
    total_messages: int
    per_second: float
    p50_ms: float
    p99_ms: float
    p999_ms: float


@dataclass(frozen=True)
class Run:
    """One row against one broker in one round: figures by name, or the error that ended it."""

    broker: str
    row: str
    round: int
    figures: Mapping[str, float] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Results:
    """All runs, with what a reader needs to judge them."""

    machine: str
    command: str
    settings: Mapping[str, Any]
    runs: Sequence[Run]

    def save(self, path: Path) -> None:
        """Written beside and renamed, so that a stop in between leaves the older file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")
        beside.replace(path)


def load_results(path: Path) -> Results:
    data = json.loads(path.read_text())
    return Results(data["machine"], data["command"], data["settings"], [Run(**run) for run in data["runs"]])


def figures_of(load: Load, cpu_seconds: float, resident_mib: float) -> dict[str, float]:
    """The figures of a row that ran for a time."""
    return {
        "per_second": load.per_second,
        "per_cpu_second": load.total_messages / cpu_seconds if cpu_seconds else 0.0,
        "p50_ms": load.p50_ms,
        "p99_ms": load.p99_ms,
        "p999_ms": load.p999_ms,
        "resident_mib": resident_mib,
    }


def machine() -> str:
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    size = int(memory.split()[1]) / 1048576
    return f"{os.cpu_count()} processors, {size:.0f} GiB, {platform.system()}, Python {platform.python_version()}"
