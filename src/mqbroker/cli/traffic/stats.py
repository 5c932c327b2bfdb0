"""Rates and latencies of a run of ``producer`` or ``consumer``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)
_GROWTH: Final = 1.02
_LOG_GROWTH: Final = math.log(_GROWTH)


class Latencies:
    """A histogram of durations in milliseconds: exact to 2 per cent, in memory that does not grow with the number of messages."""

    __slots__ = ("_buckets", "count", "maximum")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self.count = 0
        self.maximum = 0.0

    def add(self, milliseconds: float) -> None:
        """Count one duration; negative ones (clocks that differ) count as 0."""
        value = max(milliseconds, 0.0)
        bucket = math.ceil(math.log(value * 1000.0) / _LOG_GROWTH) if value > 0.001 else 0
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        self.maximum = max(self.maximum, value)

    def merge(self, other: Latencies) -> None:
        for bucket, number in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + number
        self.count += other.count
        self.maximum = max(self.maximum, other.maximum)

    def percentile(self, percent: float) -> float:
        """The duration in ms that ``percent`` per cent do not exceed; 0.0 when nothing was counted."""
        if not self.count:
            return 0.0
        wanted = math.ceil(self.count * percent / 100.0)
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(_GROWTH**bucket / 1000.0, self.maximum)
        return self.maximum


@dataclass(slots=True)
class Tally:
    """The work of one thread."""

    label: str
    count: int = 0
    seconds: float = 0.0
    latencies: Latencies = field(default_factory=Latencies)
    error: BaseException | None = None


def summary(tallies: Iterable[Tally], seconds: float) -> dict[str, object]:
    """Count, rate and latency percentiles over all threads, as a JSON object; ``seconds`` is the time of the whole run."""
    latencies = Latencies()
    count = 0
    for tally in tallies:
        latencies.merge(tally.latencies)
        count += tally.count
    return {
        "messages": count,
        "seconds": round(seconds, 3),
        "messagesPerSecond": round(count / seconds, 1) if seconds > 0 else 0.0,
        "latencyMs": {f"p{percent:g}": round(latencies.percentile(percent), 3) for percent in PERCENTILES}
        | {"max": round(latencies.maximum, 3)},
    }


def summary_lines(result: dict[str, object], what: str) -> list[str]:
    """``summary`` as lines of text; ``what`` names the step whose latency was measured."""
    latency = result["latencyMs"]
    assert isinstance(latency, dict)
    return [
        f"Rate: {result['messages']} messages in {result['seconds']} s, {result['messagesPerSecond']} messages/s",
        f"Latency ({what}): " + ", ".join(f"{name} {value} ms" for name, value in latency.items()),
    ]
