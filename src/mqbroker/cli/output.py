"""Tables, JSON and summaries, in the style of the ``artemis`` command."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TextIO

import click


def print_json(value: object, out: TextIO | None = None) -> None:
    """One JSON document on stdout (or ``out``), indented by three blanks."""
    click.echo(json.dumps(value, indent=3, ensure_ascii=False), out)


def wrap(text: str, width: int) -> list[str]:
    """``text`` in pieces of at most ``width`` characters (0 or less: no limit); continuation lines are indented by two blanks."""
    lines: list[str] = []
    for part in text.split("\n"):
        indent = "  " if lines else ""
        while width > 2 and len(indent) + len(part) > width:
            lines.append(indent + part[: width - len(indent)])
            part = part[width - len(indent) :]
            indent = "  "
        lines.append(indent + part)
    return lines


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, max_width: int = -1, left: int = 2, one_line_header: bool = False
) -> str:
    """A table with ``|`` between the columns.

    The first ``left`` columns are flush left, the others centred.  Titles with ``_`` become two lines, unless ``one_line_header``; then
    every column is flush left.  Cells longer than ``max_width`` characters go on in the next line.
    """
    titles = [[title] if one_line_header else title.split("_", 1) for title in header]
    body = [[wrap(cell, max_width) for cell in row] for row in rows]
    blocks = [[[*title, *[""] * (max(map(len, titles)) - len(title))] for title in titles], *body]
    widths = [max(len(line) for block in blocks for line in block[column]) for column in range(len(header))]
    lines: list[str] = []
    for block in blocks:
        for number in range(max(map(len, block))):
            cells = [cell[number] if number < len(cell) else "" for cell in block]
            aligned = [
                text.ljust(width) if one_line_header or column < left else f"{text:^{width}}"
                for column, (text, width) in enumerate(zip(cells, widths, strict=True))
            ]
            lines.append("|" + "|".join(aligned) + "|")
    return "\n".join(lines)
