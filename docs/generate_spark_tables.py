"""Writes the tables of options and columns into the pages about Spark: ``python docs/generate_spark_tables.py``.

A table stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``.  A test compares the pages with the code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "docs" / "spark.md", ROOT / "docs" / "spark-journal.md")
SOURCES = (ROOT / "clients" / "mqclient" / "src", ROOT / "clients" / "mqspark" / "src")
BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end: \2 -->)", re.S)


def tables() -> dict[str, Callable[[], str]]:
    from mqspark.columns import columns_table
    from mqspark.journal_tables import TABLES, journal_columns_table
    from mqspark.options import Use, connection_table, options_table

    return {
        "connection": connection_table,
        "source": lambda: options_table(Use.SOURCE),
        "sink": lambda: options_table(Use.SINK),
        "journal": lambda: options_table(Use.JOURNAL),
        "columns": columns_table,
        **{f"journal_{name}": partial(journal_columns_table, name) for name in TABLES},
    }


def generated(page: str) -> str:
    """``page`` with its tables as the code has them.  Raises KeyError for a table that nobody makes."""
    makers = tables()
    return BLOCK.sub(lambda found: f"{found[1]}\n{makers[found[2]]()}\n{found[4]}", page)


if __name__ == "__main__":
    sys.path[:0] = [str(path) for path in SOURCES]
    for page in PAGES:
        page.write_text(generated(page.read_text(encoding="utf-8")), encoding="utf-8")
