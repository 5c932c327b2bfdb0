"""Figures of several rounds, their ratios, and whether these reach a target."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.results import Run

PURE = "mqbroker"


@dataclass(frozen=True)
class Judged:
    """A ratio of mqbroker to Artemis over the rounds, and whether its median reaches the target (None: there is no target)."""

    values: Sequence[float]
    reached: bool | None

    def text(self) -> str:
        verdict = {None: "", True: " reached", False: " **not reached**"}[self.reached]
        return spread(self.values, 2) + verdict if self.values else ""


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median, with least and greatest when there are several: `120 [110–130]`."""
    middle = f"{statistics.median(values):,.{digits}f}"
    return middle if len(values) == 1 else f"{middle} [{min(values):,.{digits}f}–{max(values):,.{digits}f}]"


def figures(runs: Sequence[Run], row: str, broker: str, name: str) -> dict[int, float]:
    """One figure by round, of the rounds that went well."""
    return {run.round: run.figures[name] for run in runs if run.row == row and run.broker == broker and name in run.figures}


def ratios(runs: Sequence[Run], row: str, name: str, form: str = PURE, other: str = "artemis") -> list[float]:
    """mqbroker divided by Artemis, or by another one, round by round."""
    mine, others = figures(runs, row, form, name), figures(runs, row, other, name)
    return [mine[turn] / others[turn] for turn in sorted(mine.keys() & others.keys()) if others[turn]]


def judged(values: Sequence[float], *, least: float | None = None, most: float | None = None) -> Judged:
    if not values or (least is None and most is None):
        return Judged(values, None)
    middle = statistics.median(values)
    return Judged(values, (least is None or middle >= least) and (most is None or middle <= most))


def target(own: Sequence[float], *, least: float | None = None, most: float | None = None, own_most: float | None = None) -> str:
    """The cell that says what is to be reached: the figure ``own`` by itself, with the verdict, or else its ratio."""
    if own_most is not None:
        verdict = "" if not own else " reached" if statistics.median(own) <= own_most else " **not reached**"
        return f"{PURE} ≤ {own_most:g}{verdict}"
    if least is not None:
        return f"≥ {least}"
    return "" if most is None else f"≤ {most}"
