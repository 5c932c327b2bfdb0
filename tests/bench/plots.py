"""Horizontal bars as SVG: one bar per row with its spread, and a mark where the target is. Small enough to need no library."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from tests.bench import report, rows
from tests.bench.judging import judged, ratios
from tests.bench.results import Run

BARS, LINE, TOP, FIGURES = 420, 24, 40, 60
"""Pixels."""
CHARACTER = 7
"""Pixels: wider than the mean character of a label in any font that a browser has for 12px sans-serif."""
STYLE = "text { font: 12px sans-serif; fill: #222 } .title { font-weight: bold } .reached { fill: #3a7d44 } .missed { fill: #b5533c }"


@dataclass(frozen=True)
class Bar:
    """Ratios of one row over the rounds; `reached` chooses the colour."""

    label: str
    values: Sequence[float]
    target: float
    reached: bool


def bars(title: str, content: Sequence[Bar]) -> str:
    """The picture; the scale ends at the greatest value or target."""
    labels = 16 + CHARACTER * max((len(bar.label) for bar in content), default=0)
    most = max([1.0, *(max(*bar.values, bar.target) for bar in content)])
    scale = BARS / most
    width, height = max(labels + BARS + FIGURES, 16 + CHARACTER * len(title)), TOP + LINE * len(content) + 10
    one = labels + scale
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="20">{escape(title)}</text>',
        f'<line x1="{one:.1f}" y1="{TOP - 6}" x2="{one:.1f}" y2="{height - 6}" stroke="#999" stroke-dasharray="3 3"/>',
    ]
    for number, bar in enumerate(content):
        y = TOP + number * LINE
        middle = statistics.median(bar.values)
        low, high, target = (labels + value * scale for value in (min(bar.values), max(bar.values), bar.target))
        parts += [
            f'<text x="{labels - 8}" y="{y + 12}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect class="{"reached" if bar.reached else "missed"}" x="{labels}" y="{y}" width="{middle * scale:.1f}" height="16"/>',
            f'<line x1="{low:.1f}" y1="{y + 8}" x2="{high:.1f}" y2="{y + 8}" stroke="#222"/>',
            f'<line x1="{target:.1f}" y1="{y - 2}" x2="{target:.1f}" y2="{y + 18}" stroke="#222" stroke-width="2"/>',
            f'<text x="{labels + BARS + 8}" y="{y + 12}">{middle:.2f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def pictures(runs: Sequence[Run]) -> dict[str, str]:
    """SVG texts by file name: throughput, messages per CPU second, memory. Empty without rounds of both brokers."""
    found = {}
    kinds = (
        ("throughput", "Throughput, mqbroker ÷ Artemis", "per_second"),
        ("per-cpu-second", "Messages per CPU second of the broker, mqbroker ÷ Artemis", "per_cpu_second"),
        ("memory", "Resident memory of the broker, mqbroker ÷ Artemis (less is better)", "resident_mib"),
    )
    for name, title, figure in kinds:
        content = []
        for row in report.present(runs):
            values = ratios(runs, row.name, figure)
            if not values:
                continue
            if figure == "per_second":
                target, reached = row.throughput_target, bool(report.throughput(runs, row).reached)
            elif figure == "per_cpu_second":
                target, reached = row.cpu_target, bool(judged(values, least=row.cpu_target).reached)
            else:
                target, reached = rows.MEMORY_RATIO_MAX, bool(judged(values, most=rows.MEMORY_RATIO_MAX).reached)
            content.append(Bar(row.title, values, target, reached))
        if content:
            found[f"{name}.svg"] = bars(f"{title}. Thick mark: target; dashed: equal", content)
    return found


def write_pictures(runs: Sequence[Run], folder: Path) -> list[str]:
    """Write them; returns their paths relative to the folder above."""
    folder.mkdir(parents=True, exist_ok=True)
    made = pictures(runs)
    for name, text in made.items():
        (folder / name).write_text(text)
    return [f"{folder.name}/{name}" for name in made]
