"""The results of all mixtures as a table of docs/compatibility.md."""

from __future__ import annotations

import configparser
import datetime
import platform
from collections.abc import Sequence
from pathlib import Path

from tests.interop import artemis
from tests.interop.cluster.play import Result

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- the table of clusters begins: written by make interop-cluster -->", "<!-- the table of clusters ends -->"


def write_table(results: Sequence[Result]) -> None:
    """Replace the table in the page."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(results)}{END}{after}")


def table(results: Sequence[Result]) -> str:
    """One row for each scenario, one column for each mixture."""
    by_name: dict[str, dict[tuple[str, ...], Result]] = {}
    for result in results:
        by_name.setdefault(result.name, {})[result.kinds] = result
    mixtures = sorted({result.kinds for result in results}, key=lambda kinds: (len(kinds), kinds), reverse=True)
    head = [" and ".join(kinds) if len(kinds) > 1 else f"replicated pair with {kinds[0]}" for kinds in mixtures]
    package = configparser.ConfigParser()
    package.read(ROOT / "setup.cfg")
    lines = [
        f"mqbroker {package['metadata']['version']} and Artemis {artemis.VERSION}, its Java client, Python {platform.python_version()}, "
        f"{datetime.date.today().isoformat()}.",
        "",
        f"| scenario | {' | '.join(head)} |",
        "|---" * (len(head) + 1) + "|",
    ]
    for name, by_mixture in by_name.items():
        cells = (_cell(by_mixture.get(kinds)) for kinds in mixtures)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(result: Result | None) -> str:
    if result is None:
        return ""
    return "holds" if result.reason is None else "**fails**"
