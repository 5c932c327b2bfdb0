"""Tables and lists of properties in the form of ``imqcmd``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(
    titles: Sequence[str], rows: Iterable[Sequence[object]], over: Sequence[tuple[str, int]] = (), gap: int = 4, *, centred: bool = False
) -> str:
    """Columns between lines of dashes, ``gap`` blanks apart.

    ``over`` are titles above the titles, each with the number of columns that it is for.
    """
    body = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in (list(titles), *body)) for column in range(len(titles))]
    lines = []
    if over:
        lines.append(_over(over, widths, gap))
    lines.append(_line([title.center(width) if centred else title for title, width in zip(titles, widths, strict=True)], widths, gap))
    dashes = "-" * (sum(widths) + gap * (len(widths) - 1))
    return "\n".join([dashes, *lines, dashes, *(_line(line, widths, gap) for line in body)])


def _line(cells: Sequence[str], widths: Sequence[int], gap: int) -> str:
    return (" " * gap).join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _over(over: Sequence[tuple[str, int]], widths: list[int], gap: int) -> str:
    """The line of titles above; the last column of a title that needs more room gets wider."""
    cells: list[str] = []
    column = 0
    for title, count in over:
        width = sum(widths[column : column + count]) + gap * (count - 1)
        missing = max(len(title) - width, 0)
        widths[column + count - 1] += missing
        cells.append(title.center(width + missing))
        column += count
    return (" " * gap).join(cells).rstrip()


def properties(groups: Iterable[Iterable[Sequence[str]]], gap: int = 4) -> str:
    """Titles and values in two columns, with an empty line between groups."""
    listed = [[(title, value) for title, value in group] for group in groups]
    width = max((len(title) for group in listed for title, _ in group), default=0) + gap
    return "\n\n".join("\n".join(f"{title.ljust(width)}{value}".rstrip() for title, value in group) for group in listed)


def nested(groups: Iterable[Iterable[Sequence[str]]]) -> dict[str, object]:
    """Titles and values as one object; lines that are indented are an object below the title before them."""
    found: dict[str, object] = {}
    outer = ""
    inner: dict[str, str] = {}
    for title, value in (pair for group in groups for pair in group):
        if not title.startswith(" "):
            outer, inner = title, {}
            found[outer] = value
        else:
            inner[title.strip()] = value
            found[outer] = inner
    return found
