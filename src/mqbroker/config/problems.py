"""Errors and warnings about a configuration: all of them, not only the first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mqclient.text import nearest_name


@dataclass(frozen=True, slots=True)
class Problem:
    """One sentence about one place.  ``line`` counts from 1; 0 means the whole file."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"


class ConfigurationError(Exception):
    """The configuration cannot be used.  ``problems`` lists every reason; ``file``, ``line`` and ``text`` are the first one."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)

    @property
    def file(self) -> str:
        return self.problems[0].file

    @property
    def line(self) -> int:
        return self.problems[0].line

    @property
    def text(self) -> str:
        return self.problems[0].text


@dataclass(frozen=True, slots=True)
class WrittenFilter:
    """A filter of a queue as it stands in a file.  A higher layer, which has the grammar, checks it."""

    text: str
    file: str
    line: int


@dataclass(slots=True)
class Findings:
    """Collects errors and warnings while a configuration is read, and the filters that are still to be checked."""

    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    filters: list[WrittenFilter] = field(default_factory=list)

    def error(self, file: str, line: int, text: str) -> None:
        self.errors.append(Problem(file, line, text))

    def warn(self, file: str, line: int, text: str) -> None:
        self.warnings.append(Problem(file, line, text))

    def filter(self, text: str | None, file: str, line: int) -> None:
        """Note a filter, unless it is empty."""
        if text:
            self.filters.append(WrittenFilter(text, file, line))

    def check(self) -> None:
        """Raises :class:`ConfigurationError` when there are errors."""
        if self.errors:
            raise ConfigurationError(sorted_by_place(self.errors))


def sorted_by_place(problems: Iterable[Problem]) -> list[Problem]:
    """In the order of lines; files stay in the order in which they were met."""
    order: dict[str, int] = {}
    listed = list(problems)
    for problem in listed:
        order.setdefault(problem.file, len(order))
    return sorted(listed, key=lambda problem: (order[problem.file], problem.line))


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The end of a sentence about a name that is not among ``known``: the nearest one, or ``otherwise`` where none is near."""
    near = nearest_name(name, known)
    return f"; did you mean {near}?" if near else otherwise
