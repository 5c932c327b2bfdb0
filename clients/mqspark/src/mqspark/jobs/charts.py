"""Plots as SVG inside an HTML page: stacked bars, lines and a ranking.

The plots need no plotting library, because mqspark is installed on every executor and such libraries are many times its size.  The colours
are those of Okabe and Ito, which colour-blind readers can tell apart too; every mark has a tooltip with its number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b3a100", "#7f7f7f")
SERIES_MAX: Final = len(COLOURS)
"""More series than colours could not be told apart: callers sum up the rest."""

_WIDTH, _HEIGHT = 960, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 10, 12, 34
_INNER_WIDTH, _INNER_HEIGHT = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
_LABELS = 8  # along the x axis: more would run into each other
_RANK_HEIGHT = 22  # of one row of a ranking


@dataclass(frozen=True, slots=True)
class Series:
    """A name, and one value for each label; None = there is none, which breaks a line."""

    name: str
    values: Sequence[float | None]


def stacked_bars(labels: Sequence[str], series: Sequence[Series], text: Callable[[float], str]) -> str:
    """Bars on top of each other, one stack for each label.  ``text`` writes a value for axis and tooltips.

    Raises :class:`ValueError` for more than :data:`SERIES_MAX` series or values that are not as many as the labels.
    """
    _check(labels, series)
    sums = [sum(one.values[place] or 0 for one in series) for place in range(len(labels))]
    ticks = axis_ticks(max(sums, default=0))
    step = _INNER_WIDTH / max(1, len(labels))
    width = max(0.5, step * 0.86)
    marks = []
    for place, label in enumerate(labels):
        below = 0.0
        for number, one in enumerate(series):
            value = one.values[place] or 0
            if value <= 0:
                continue
            y = _y(below + value, ticks[-1])
            marks.append(
                f'<rect x="{_LEFT + place * step:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_y(below, ticks[-1]) - y:.1f}" '
                f'fill="{COLOURS[number]}"><title>{escape(f"{label}, {one.name}: {text(value)}")}</title></rect>'
            )
            below += value
    return _frame(labels, series, ticks, text, marks, step / 2)


def lines(labels: Sequence[str], series: Sequence[Series], text: Callable[[float], str]) -> str:
    """One line for each series, with a point at each label; the errors are those of :func:`stacked_bars`."""
    _check(labels, series)
    ticks = axis_ticks(max((value for one in series for value in one.values if value is not None), default=0))
    step = _INNER_WIDTH / max(1, len(labels))
    marks = []
    for number, one in enumerate(series):
        points = [
            None if value is None else (_LEFT + (place + 0.5) * step, _y(max(0, value), ticks[-1]))
            for place, value in enumerate(one.values)
        ]
        for run in _runs(points):
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in run)
            marks.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[number]}" stroke-width="2"/>')
        for place, point in enumerate(points):
            if point is not None:
                value = one.values[place] or 0
                tip = escape(f"{labels[place]}, {one.name}: {text(value)}")
                marks.append(
                    f'<circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="3" fill="{COLOURS[number]}"><title>{tip}</title></circle>'
                )
    return _frame(labels, series, ticks, text, marks, step / 2)


def ranking(rows: Sequence[tuple[str, float]], text: Callable[[float], str]) -> str:
    """Horizontal bars in the order given, each with its name and value."""
    most = max((value for _, value in rows), default=0) or 1
    height = len(rows) * _RANK_HEIGHT + 4
    marks = []
    for place, (name, value) in enumerate(rows):
        y = place * _RANK_HEIGHT + 2
        shown = name if len(name) <= 40 else name[:39] + "…"
        width = max(1.0, value / most * (_WIDTH - 400))
        marks.append(
            f'<text class="label" x="270" y="{y + 15}" text-anchor="end">{escape(shown)}<title>{escape(name)}</title></text>'
            f'<rect x="280" y="{y + 2}" width="{width:.1f}" height="{_RANK_HEIGHT - 6}" fill="{COLOURS[0]}"/>'
            f'<text class="label" x="{286 + width:.1f}" y="{y + 15}">{escape(text(value))}</text>'
        )
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">{"".join(marks)}</svg>'


def axis_ticks(most: float) -> list[float]:
    """Round numbers from 0 to at least ``most``: four to eight of them, steps of 1, 2 or 5 times a power of ten."""
    if most < 1e-9:
        return [0.0, 1.0]
    raw = most / 6
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    return [number * step for number in range(math.ceil(most / step - 1e-9) + 1)]


def _check(labels: Sequence[str], series: Sequence[Series]) -> None:
    if len(series) > SERIES_MAX:
        raise ValueError(f"{len(series)} series are more than the {SERIES_MAX} that can be told apart")
    for one in series:
        if len(one.values) != len(labels):
            raise ValueError(f"'{one.name}' has {len(one.values)} values for {len(labels)} labels")


def _y(value: float, most: float) -> float:
    return _TOP + _INNER_HEIGHT * (1 - value / most)


def _runs(points: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    """The parts of a line between its gaps; a single point is no line."""
    runs: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point is not None:
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _frame(
    labels: Sequence[str],
    series: Sequence[Series],
    ticks: Sequence[float],
    text: Callable[[float], str],
    marks: Sequence[str],
    offset: float,
) -> str:
    """Axes, labels and legend around the marks."""
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    for tick in ticks:
        y = _y(tick, ticks[-1])
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text class="label" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text(tick))}</text>')
    every = max(1, math.ceil(len(labels) / _LABELS))
    for place in range(0, len(labels), every):
        x = _LEFT + place * _INNER_WIDTH / len(labels) + offset
        parts.append(f'<text class="label" x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{escape(labels[place])}</text>')
    parts.extend(marks)
    parts.append("</svg>")
    keys = "".join(
        f'<span class="key"><i style="background:{COLOURS[number]}"></i>{escape(one.name)}</span>' for number, one in enumerate(series)
    )
    return "".join(parts) + f'<p class="legend">{keys}</p>'
