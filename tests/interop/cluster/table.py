"""The results of all mixtures as a table of docs/compatibility.md, written cell by cell: an interruption loses only what was under way."""

from __future__ import annotations

import datetime
import itertools
import platform
from collections.abc import Mapping
from pathlib import Path

from mqbroker import __version__
from tests.interop import artemis
from tests.interop.cluster.play import PAIRED, SCENARIOS, Result
from tests.interop.cluster.scenarios import Scenario

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- the table of clusters begins: written by make interop-cluster -->", "<!-- the table of clusters ends -->"
MIXTURES = tuple(itertools.product(("mqbroker", "artemis"), repeat=2))
EVERYTHING: Mapping[str, Scenario] = {**SCENARIOS, **PAIRED}


def write(result: Result, page: Path = PAGE) -> None:
    """Put a result into the table, in place of that of an earlier run; scenarios that are no more go."""
    before, _, rest = page.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    written = (row.split("|")[1:-1] for row in old.splitlines() if row.startswith("| "))
    rows = {name.strip(): [cell.strip() for cell in cells] for name, *cells in written}
    notes = {name: number for number, name in enumerate((name for name, scenario in EVERYTHING.items() if scenario.why), 1)}
    empty = [f"– ({notes[result.name]})" if EVERYTHING[result.name].not_for in kinds else "" for kinds in MIXTURES]
    row = rows.setdefault(result.name, [*empty, ""])
    row[MIXTURES.index(result.kinds)] = "holds" if result.reason is None else "**fails**"
    row[-1] = datetime.date.today().isoformat()
    lines = [
        f"The last run: {versions()}.",
        "",
        f"| scenario | {' | '.join(' and '.join(kinds) for kinds in MIXTURES)} | played |",
        "|---" * (len(MIXTURES) + 2) + "|",
        *(f"| {name} | {' | '.join(rows[name])} |" for name in EVERYTHING if name in rows),
        "",
        *(f"({number}) {EVERYTHING[name].why}\n" for name, number in notes.items()),
    ]
    page.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"{END}{after}")


def versions() -> str:
    """Of what a run plays."""
    return f"mqbroker {__version__}, Artemis and its Java client {artemis.VERSION}, Python {platform.python_version()}"
