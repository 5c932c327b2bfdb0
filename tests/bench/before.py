"""An earlier state of the checkout beside this one, under the same loads: what a change costs per message."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tests.bench.brokers import BEFORE
from tests.bench.results import Run
from tests.bench.rows import FLOWS

PER_CPU_SECOND = "per_cpu_second"
HEADER = ("| row | µs of CPU per message before | now | now divided by before |", "|---|---|---|---|")


def cost_table(runs: Sequence[Run]) -> str:
    """CPU per message in µs, and its ratio, taken round by round: median [least–greatest]."""
    lines = list(HEADER)
    for row in FLOWS:
        before, now = _costs(runs, row.name, BEFORE), _costs(runs, row.name, "mqbroker")
        ratios = [now[turn] / before[turn] for turn in sorted(now.keys() & before.keys())]
        if ratios:
            spread = f"{statistics.median(ratios):.3f} [{min(ratios):.3f}–{max(ratios):.3f}]"
            medians = (f"{statistics.median(costs.values()):.1f}" for costs in (before, now))
            lines.append(f"| {' | '.join((row.title, *medians, spread))} |")
    return "\n".join(lines)


def _costs(runs: Sequence[Run], row: str, broker: str) -> dict[int, float]:
    chosen = [run for run in runs if run.row == row and run.broker == broker and run.figures.get(PER_CPU_SECOND)]
    return {run.round: 1e6 / run.figures[PER_CPU_SECOND] for run in chosen}
