"""The progress bar of commands that take long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[], None]


@contextmanager
def progress(total: int, title: str, as_json: bool) -> Iterator[Advance]:
    """A progress bar on a terminal; nothing elsewhere."""
    if as_json or not sys.stdout.isatty():
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task(title, total=total or None)

        def advance() -> None:
            bar.advance(task)

        yield advance
