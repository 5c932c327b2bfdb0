"""The report of a job: tables, notes and an exit status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mqspark.jobs import status as statuses

if TYPE_CHECKING:
    from rich.console import Console

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(slots=True)
class Table:
    """A title, names of columns, and rows.  Numbers are printed flush right and with separators, None as ``-``, the rest as text."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[object]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Add a row.  Raises :class:`ValueError` when the number of cells is not that of the columns."""
        if len(cells) != len(self.columns):
            raise ValueError(f"table '{self.title}' has {len(self.columns)} columns, the row has {len(cells)}")
        self.rows.append(cells)


@dataclass(slots=True)
class Report:
    """The text that a command prints at its end: ``tables``, then ``notes`` (sentences), and the exit status of the process."""

    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    status: int = statuses.OK

    def table(self, title: str, *columns: str) -> Table:
        """A new table behind the others."""
        table = Table(title, columns)
        self.tables.append(table)
        return table


def print_report(report: Report, console: Console) -> None:
    """Print tables and notes on ``console``.  A table without rows says so instead of showing empty lines."""
    from rich.markup import escape
    from rich.table import Table as RichTable

    for table in report.tables:
        shown = RichTable(title=escape(table.title), title_justify="left", title_style="bold")
        for number, name in enumerate(table.columns):
            numeric = any(_is_number(row[number]) for row in table.rows)
            shown.add_column(escape(name), justify="right" if numeric else "left", overflow="fold")
        for row in table.rows:
            shown.add_row(*(escape(cell_text(cell)) for cell in row))
        if table.rows:
            console.print(shown)
        else:
            console.print(f"{escape(table.title)}: none", highlight=False)
    for note in report.notes:
        console.print(escape(note), highlight=False, soft_wrap=True)


def cell_text(cell: object) -> str:
    """A cell as it is printed: ``1,234,567``, ``12.3``, ``-`` for None, times in UTC."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.1f}"
    if isinstance(cell, datetime):
        shown = cell.astimezone(UTC) if cell.tzinfo else cell
        return shown.strftime("%Y-%m-%d %H:%M:%S")
    return str(cell)


def size_text(size: float) -> str:
    """A number of bytes for a reader: ``512 B``, ``1.5 MiB``."""
    for unit in _UNITS[:-1]:
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"


def duration_text(ms: float) -> str:
    """``12 ms``, ``1.5 s``, ``3 min``, ``2 h``, ``10 d``."""
    for limit, divisor, unit in ((1_000, 1, "ms"), (60_000, 1_000, "s"), (3_600_000, 60_000, "min"), (86_400_000, 3_600_000, "h")):
        if abs(ms) < limit:
            return f"{ms / divisor:.3g} {unit}"
    return f"{ms / 86_400_000:,.1f} d"


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)
