"""Writes the tables of options and columns into the pages about Spark: ``python docs/generate_spark_tables.py``.

A table stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``.  A test compares the pages with the code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqspark.columns import Column
    from mqspark.options import OptionEntry, Use

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "docs" / "spark.md", ROOT / "docs" / "spark-journal.md")
SOURCES = (ROOT / "clients" / "mqclient" / "src", ROOT / "clients" / "mqspark" / "src")
BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end: \2 -->)", re.S)


CONNECTION = ("url", "user", "password", "passwordFile", "passwordEnv", "connectTimeout", "reconnectTimeout")
"""The options that say how to connect."""


def tables() -> dict[str, Callable[[], str]]:
    """What makes each table, by its name.  The code is imported here, when it can be found."""
    from mqspark.columns import COLUMNS, CORRUPT
    from mqspark.journal_tables import TABLES
    from mqspark.options import OPTIONS, Use

    def options_table(uses: Use) -> str:
        return _options(entry for entry in OPTIONS if entry.uses & uses and entry.name not in CONNECTION)

    return {
        "connection": lambda: _options(entry for entry in OPTIONS if entry.name in CONNECTION),
        "source": lambda: options_table(Use.SOURCE),
        "sink": lambda: options_table(Use.SINK),
        "journal": lambda: options_table(Use.JOURNAL),
        "columns": lambda: _columns((*COLUMNS, CORRUPT)),
        **{f"journal_{name}": partial(_columns, columns) for name, columns in TABLES.items()},
    }


def _options(entries: Iterable[OptionEntry]) -> str:
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for entry in entries:
        default = entry.default if " " in entry.default or not entry.default else f"`{entry.default}`"
        text = re.sub(r"\{.*\}", r"`\g<0>`", f"{entry.meaning} Expected: {entry.kind.expected}.")
        rows.append(f"| `{entry.name}` | {default} | {text} |")
    return "\n".join(rows) + "\n"


def _columns(columns: Iterable[Column]) -> str:
    rows = [f"| `{column.name}` | `{column.type}` | {column.meaning} |" for column in columns]
    return "\n".join(("| column | type | meaning |", "|---|---|---|", *rows)) + "\n"


def generated(page: str) -> str:
    """``page`` with its tables as the code has them.  Raises KeyError for a table that nobody makes."""
    makers = tables()
    return BLOCK.sub(lambda found: f"{found[1]}\n{makers[found[2]]()}\n{found[4]}", page)


if __name__ == "__main__":
    sys.path[:0] = [str(path) for path in SOURCES]
    for page in PAGES:
        page.write_text(generated(page.read_text(encoding="utf-8")), encoding="utf-8")
