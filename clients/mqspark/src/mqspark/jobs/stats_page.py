"""The HTML page of :mod:`mqspark.jobs.stats`: one file that needs no other and no network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from html import escape
from typing import Final

from mqspark.jobs.charts import SERIES_MAX, Series, lines, ranking, stacked_bars
from mqspark.jobs.report import Table, cell_text, duration_text
from mqspark.jobs.stats import ROWS_SHOWN, Group, Stats, tables

HOURS_PLOTTED: Final = 31 * 24
"""The latest month: more bars would be narrower than a point."""

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #888; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1040px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
.soft, .legend { color: var(--soft); margin: .2rem 0; }
.facts { display: flex; flex-wrap: wrap; gap: 2rem; margin: 1.2rem 0; } .facts b { display: block; font-size: 1.4rem; }
svg { width: 100%; height: auto; } svg .grid { stroke: var(--line); } svg .label { fill: currentColor; font-size: 12px; }
.key { margin-right: 1.2rem; } .key i { display: inline-block; width: .8em; height: .8em; margin-right: .4em; border-radius: 2px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
"""


def page(found: Stats, archive: str) -> str:
    """The page as text; ``archive`` is named in its title.  Every text of a message is escaped."""
    first, last = found.total.first, found.total.last
    span = "" if first is None or last is None else f"{cell_text(first)} to {cell_text(last)} UTC"
    hours, note = plotted_hours(found.hours)
    labels = [f"{hour:%m-%d %H:%M}" for hour in hours]
    shown = _by_address(found, hours)
    facts = (
        (cell_text(found.total.messages), "messages"),
        (bytes_text(found.total.size), "in bodies"),
        (cell_text(round(found.total.rate, 1)), "messages a second"),
        (cell_text(len(found.addresses)), "addresses"),
        (cell_text(len([name for name in found.producers if name])), "producers named"),
    )
    parts = [
        "<h1>Messages of an archive</h1>",
        f'<p class="soft">{escape(archive)}</p><p class="soft">{escape(span)}</p>',
        f'<div class="facts">{"".join(f"<div><b>{escape(value)}</b>{escape(name)}</div>" for value, name in facts)}</div>',
        _section("Messages an hour", stacked_bars(labels, _series(shown, lambda group: group.messages), count_text), note),
        _section("Bytes an hour", stacked_bars(labels, _series(shown, lambda group: group.size), bytes_text), note),
        *_latencies(found, hours, labels, note),
        _section("Sizes of the bodies", _sizes(found.sizes)),
        _section("Producers", _producers(found)),
        *(_html_table(table) for table in tables(found)),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Messages of {escape(archive)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def plotted_hours(hours: Iterable[datetime]) -> tuple[list[datetime], str]:
    """Every hour from the first to the last, also hours without messages; for a long time only the latest hours, and a note about that."""
    known = sorted(hours)
    if not known:
        return [], "No message has a timestamp."
    count = (known[-1] - known[0]) // timedelta(hours=1) + 1
    kept = min(count, HOURS_PLOTTED)
    note = f"The latest {kept} of {count} hours." if kept < count else ""
    return [known[-1] - timedelta(hours=kept - 1 - number) for number in range(kept)], note


def _by_address(found: Stats, hours: list[datetime]) -> dict[str, list[Group | None]]:
    """The groups of each hour, for the greatest addresses; the other addresses are summed up."""
    names = sorted(found.addresses, key=lambda name: -found.addresses[name].messages)
    own = names if len(names) <= SERIES_MAX else names[: SERIES_MAX - 1]
    shown: dict[str, list[Group | None]] = {name: [found.address_hours.get((name, hour)) for hour in hours] for name in own}
    if len(own) < len(names):
        rest = names[len(own) :]
        shown[f"{len(rest)} others"] = [_sum(found.address_hours.get((name, hour)) for name in rest) for hour in hours]
    return shown


def _sum(groups: Iterable[Group | None]) -> Group | None:
    there = [group for group in groups if group is not None]
    if not there:
        return None
    return Group(sum(one.messages for one in there), sum(one.size for one in there), max(one.largest for one in there), None, None)


def _series(shown: Mapping[str, list[Group | None]], value: Callable[[Group], float]) -> list[Series]:
    return [Series(name, [None if group is None else value(group) for group in groups]) for name, groups in shown.items()]


def _latencies(found: Stats, hours: list[datetime], labels: list[str], note: str) -> list[str]:
    """A plot for each kind of latency that is known."""
    sections = []
    groups = [found.hours.get(hour) for hour in hours]
    for title, kinds in (
        ("Latency from the client to the broker", [group and group.to_broker for group in groups]),
        ("Latency from the client to the archive", [group and group.to_archive for group in groups]),
    ):
        if not any(kinds):
            continue
        series = [Series(part, [None if one is None else getattr(one, part) for one in kinds]) for part in ("p50", "p95", "p99")]
        sections.append(_section(title, lines(labels, series, duration_text), note))
    return sections


def _sizes(sizes: Mapping[int, int]) -> str:
    if not sizes:
        return ""
    powers = range(min(sizes), max(sizes) + 1)
    labels = ["empty" if power == 0 else f"< {binary_text(1 << power)}" for power in powers]
    return stacked_bars(labels, [Series("messages", [sizes.get(power, 0) for power in powers])], count_text)


def _producers(found: Stats) -> str:
    most = sorted(found.producers.items(), key=lambda item: -item[1].messages)[:ROWS_SHOWN]
    return ranking([(name or "(not named)", group.messages) for name, group in most], count_text)


def _section(title: str, plot: str, note: str = "") -> str:
    return f"<h2>{escape(title)}</h2>{plot}" + (f'<p class="soft">{escape(note)}</p>' if note else "")


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell_text(cell))}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f'<h2>{escape(table.title)}</h2><div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def count_text(value: float) -> str:
    """``950``, ``1.5 k``, ``20 M``."""
    return _scaled(value, ("", " k", " M", " G", " T"))


def bytes_text(value: float) -> str:
    """``950 B``, ``1.5 kB``, ``20 MB``: powers of ten, so that the steps of an axis are round."""
    return _scaled(value, (" B", " kB", " MB", " GB", " TB"))


def binary_text(value: int) -> str:
    """``512 B``, ``4 KiB``: a power of two."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value} {unit}"
        value //= 1024
    return f"{value} TiB"


def _scaled(value: float, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        if abs(value) < 1000:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.4g}{units[-1]}"
