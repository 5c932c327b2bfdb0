"""Writes the tables of options and columns into ``docs/spark.md``: ``python docs/generate_spark_tables.py``.

A table stands between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``.  A test compares the page with the code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "spark.md"
SOURCES = (ROOT / "clients" / "mqclient" / "src", ROOT / "clients" / "mqspark" / "src")
BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end: \2 -->)", re.S)


def tables() -> dict[str, Callable[[], str]]:
    from mqspark.columns import columns_table
    from mqspark.options import Use, connection_table, options_table

    return {
        "connection": connection_table,
        "source": lambda: options_table(Use.SOURCE),
        "sink": lambda: options_table(Use.SINK),
        "journal": lambda: options_table(Use.JOURNAL),
        "columns": columns_table,
    }


def generated(page: str) -> str:
    """``page`` with its tables as the code has them.  Raises KeyError for a table that nobody makes."""
    makers = tables()
    return BLOCK.sub(lambda found: f"{found[1]}\n{makers[found[2]]()}\n{found[4]}", page)


if __name__ == "__main__":
    sys.path[:0] = [str(path) for path in SOURCES]
    PAGE.write_text(generated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
