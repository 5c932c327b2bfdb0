"""The results of all mixtures as a table of docs/compatibility.md, written row by row: an interrupted run loses only what was under way."""

from __future__ import annotations

import configparser
import datetime
import itertools
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.interop import artemis
from tests.interop.cluster.play import PAIRED, SCENARIOS, Result
from tests.interop.cluster.scenarios import Scenario

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- the table of clusters begins: written by make interop-cluster -->", "<!-- the table of clusters ends -->"
MIXTURES = tuple(itertools.product(("mqbroker", "artemis"), repeat=2))
EVERYTHING: Mapping[str, Scenario] = {**SCENARIOS, **PAIRED}


def write_row(results: Sequence[Result], page: Path = PAGE) -> None:
    """Put the results of one scenario into the table, in place of those of an earlier run; scenarios that are no more go."""
    before, _, rest = page.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    rows = {row.split("|")[1].strip(): row for row in old.splitlines() if row.startswith("| ")}
    name = results[0].name
    by_mixture = {result.kinds: result for result in results}
    cells = [_cell(name, kinds, by_mixture.get(kinds)) for kinds in MIXTURES]
    rows[name] = f"| {name} | {' | '.join(cells)} | {_played()} |"
    lines = [
        f"The last run: {versions()}.",
        "",
        f"| scenario | {' | '.join(' and '.join(kinds) for kinds in MIXTURES)} | played |",
        "|---" * (len(MIXTURES) + 2) + "|",
        *(rows[name] for name in EVERYTHING if name in rows),
        "",
        *(f"({number}) {EVERYTHING[name].why}\n" for name, number in _notes().items()),
    ]
    page.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"{END}{after}")


def versions() -> str:
    """Of what a run plays."""
    package = configparser.ConfigParser()
    package.read(ROOT / "setup.cfg")
    return f"mqbroker {package['metadata']['version']}, Artemis and its Java client {artemis.VERSION}, Python {platform.python_version()}"


def _played() -> str:
    return datetime.date.today().isoformat()


def _notes() -> dict[str, int]:
    """Scenarios that do not hold for all, with the numbers of the notes below the table."""
    return {name: number for number, name in enumerate((name for name, scenario in EVERYTHING.items() if scenario.why), 1)}


def _cell(name: str, kinds: tuple[str, ...], result: Result | None) -> str:
    if result is None:
        return f"– ({_notes()[name]})" if EVERYTHING[name].not_for in kinds else ""
    return "holds" if result.reason is None else "**fails**"
