"""The report of a soak run: what happened, what was found, and whether it stayed flat; as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.soak.watch import Trend

PROBLEMS_SHOWN = 20


@dataclass(frozen=True)
class Part:
    """One part of the run: its counts by what was confirmed, and every violation as a sentence."""

    name: str
    seconds: float
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """`trends` are of the part in which the broker lives on; none is a problem of its own when they were wanted."""

    seed: int
    command: str
    parts: Sequence[Part]
    trends: Sequence[Trend]
    trends_wanted: bool
    judged_seconds: float
    series: Mapping[str, Sequence[Mapping[str, float]]] = field(default_factory=dict)

    @property
    def problems(self) -> list[str]:
        found = [f"{part.name}: {problem}" for part in self.parts for problem in part.problems]
        found += [
            f"{trend.subject}: {trend.quantity} grew by {trend.growth:.1f} {trend.unit}, allowed are {trend.allowed:.1f}"
            for trend in self.trends
            if not trend.flat
        ]
        if self.trends_wanted and not self.trends:
            found.append("too few samples to say whether anything grew: run it longer")
        return found

    @property
    def passed(self) -> bool:
        return not self.problems

    def text(self) -> str:
        lines = [f"Soak run, seed {self.seed}: {self.command}", ""]
        for part in self.parts:
            counts = ", ".join(f"{number} {verb}" for verb, number in sorted(part.counts.items()))
            lines.append(f"{part.name}: {part.seconds:.0f} s; {counts}; {len(part.problems)} problems")
        if self.trends:
            lines += ["", f"Over the last {self.judged_seconds:.0f} s, in which the broker lived on (a straight line through the samples):"]
            lines.append(f"{'':<22}{'':<10}{'median':>10}{'growth':>10}{'allowed':>10}{'an hour':>10}")
            for trend in self.trends:
                figures = "".join(f"{value:>10.1f}" for value in (trend.median, trend.growth, trend.allowed, trend.per_hour))
                lines.append(f"{trend.subject:<22}{trend.quantity:<10}{figures} {trend.unit:<8}{'flat' if trend.flat else 'GROWS'}")
        problems = self.problems
        lines += ["", *problems[:PROBLEMS_SHOWN]]
        if len(problems) > PROBLEMS_SHOWN:
            lines.append(f"… and {len(problems) - PROBLEMS_SHOWN} more")
        lines.append("PASSED" if self.passed else f"FAILED: {len(problems)} problems")
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        """`report.txt` and `report.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.txt").write_text(self.text())
        document = {**asdict(self), "passed": self.passed, "problems": self.problems}
        (folder / "report.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
