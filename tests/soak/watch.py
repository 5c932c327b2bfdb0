"""Memory, file handles, threads and journal over time: samples of a process from /proc, and whether they stayed flat."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tolerance:
    """How far a quantity may grow within the judged time: by `absolute`, or by `share` of its median if that is more."""

    unit: str
    absolute: float
    share: float


TOLERANCES: Mapping[str, Tolerance] = {
    "memory": Tolerance("MiB", 8.0, 0.08),
    "handles": Tolerance("files", 6.0, 0.1),
    "threads": Tolerance("threads", 2.0, 0.0),
    # compaction makes the journal go up and down by some files, and large messages wait in files of their own
    "journal": Tolerance("MiB", 15.0, 0.25),
}
SAMPLES_MIN = 10
"""Fewer say nothing."""
SERIES_POINTS = 300


@dataclass(frozen=True)
class Sample:
    """Quantities of one moment (s, monotonic)."""

    time: float
    values: Mapping[str, float]


@dataclass(frozen=True)
class Trend:
    """A straight line through the samples: median, growth from the first to the last, and whether that is within the tolerance."""

    subject: str
    quantity: str
    unit: str
    median: float
    growth: float
    allowed: float
    per_hour: float

    @property
    def flat(self) -> bool:
        return self.growth <= self.allowed


def process_sample(pid: int) -> dict[str, float]:
    """Memory (MiB), open files and threads of a process; raises OSError when it has gone."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    if "VmRSS" not in status:
        raise ProcessLookupError(f"process {pid} has ended")
    return {
        "memory": int(status["VmRSS"].split()[0]) / 1024,
        "handles": float(len(list(Path(f"/proc/{pid}/fd").iterdir()))),
        "threads": float(status["Threads"]),
    }


def folder_mib(folder: Path) -> float:
    """Size of all files below a folder; those that vanish meanwhile do not count."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total / 1048576


def trends(subject: str, samples: Sequence[Sample]) -> list[Trend]:
    """One line for each quantity; none when there are too few samples."""
    if len(samples) < SAMPLES_MIN:
        return []
    times = [sample.time for sample in samples]
    span = times[-1] - times[0]
    found = []
    for quantity in samples[0].values:
        values = [sample.values[quantity] for sample in samples]
        slope = statistics.linear_regression(times, values).slope
        middle = statistics.median(values)
        tolerance = TOLERANCES[quantity]
        allowed = max(tolerance.absolute, tolerance.share * middle)
        found.append(Trend(subject, quantity, tolerance.unit, middle, slope * span, allowed, slope * 3600))
    return found


class Watch:
    """Takes samples of several subjects at an interval, in a thread of its own; a subject that cannot be read is left out that time."""

    def __init__(self, subjects: Mapping[str, Callable[[], Mapping[str, float]]], interval: float) -> None:
        self.samples: dict[str, list[Sample]] = {name: [] for name in subjects}
        self._subjects = subjects
        self._interval = interval
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(self._interval):
            for name, take in self._subjects.items():
                try:
                    values = take()
                except OSError:
                    continue
                self.samples[name].append(Sample(time.monotonic(), values))

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def series(self) -> dict[str, list[dict[str, float]]]:
        """All samples, thinned to some hundred of each subject, with `time` in s since its first one."""
        found = {}
        for name, samples in self.samples.items():
            step = len(samples) // SERIES_POINTS + 1
            found[name] = [{"time": round(each.time - samples[0].time, 1), **each.values} for each in samples[::step]]
        return found

    def trends(self, begin: float) -> list[Trend]:
        """Of the samples from the moment `begin` on."""
        return [
            trend
            for name, samples in self.samples.items()
            for trend in trends(name, [sample for sample in samples if sample.time >= begin])
        ]
