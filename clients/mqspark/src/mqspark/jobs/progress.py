"""The progress of a job.

The functions of the jobs take a :class:`Progress` and know no terminals; the commands pass in a :class:`RichProgress`.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID


class Progress(Protocol):
    """Steps one after the other, each with a count."""

    def step(self, title: str, total: int | None = None) -> None:
        """The next step begins; ``total`` is how many there are to do (None = not known)."""

    def reached(self, done: int, total: int | None = None) -> None:
        """``done`` items of this step are done in all; ``total`` corrects the total of :meth:`step`."""


class NoProgress:
    """Shows nothing: for callers of the functions that want no progress."""

    def step(self, title: str, total: int | None = None) -> None:
        pass

    def reached(self, done: int, total: int | None = None) -> None:
        pass


class RichProgress:
    """A progress bar on ``console``, one line per step; nothing where that is no terminal.  A context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Bars | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> RichProgress:
        if self._console.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            self._bars = Progress(
                SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                console=self._console,
            )  # fmt: skip
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bars is not None:
            if kind is None:
                self._finish()
            self._bars.stop()

    def step(self, title: str, total: int | None = None) -> None:
        if self._bars is not None:
            self._finish()
            self._task = self._bars.add_task(title, total=total)

    def reached(self, done: int, total: int | None = None) -> None:
        if self._bars is not None and self._task is not None:
            if total is None:
                self._bars.update(self._task, completed=done)
            else:
                self._bars.update(self._task, completed=done, total=total)

    def _finish(self) -> None:
        """A step is over when the next one begins; a step of unknown total stops turning, too."""
        if self._bars is not None and self._task is not None:
            task = self._bars.tasks[self._task]
            done = task.completed if task.total is None else task.total
            self._bars.update(self._task, completed=done, total=done)
            self._bars.stop_task(self._task)
