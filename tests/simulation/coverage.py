"""How much of a package the runs reach: ``python -m tests.simulation --coverage``.

Lines are those that Python's compiler gives line numbers to, without what only runs at import (``def``, ``class``, docstrings).
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

PACKAGES = ("mqbroker.storage", "mqbroker.messaging", "mqbroker.server", "mqbroker.cluster", "mqbroker.ha", "mqclient.core")


class Coverage:
    """The lines of functions of :data:`PACKAGES`, and which of them have run."""

    def __init__(self) -> None:
        self.lines: dict[str, set[int]] = {}
        """Lines of each file."""
        self.modules: dict[str, str] = {}
        """Module of each file."""
        self.seen: dict[str, set[int]] = {}
        for package in PACKAGES:
            for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
                path = inspect.getsourcefile(importlib.import_module(found.name))
                assert path is not None
                self.modules[path] = found.name
                self.seen[path] = set()
                with open(path, encoding="utf-8") as file:
                    self.lines[path] = set(_lines(compile(file.read(), path, "exec"), top=True))

    @contextmanager
    def watching(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        seen = self.seen.get(frame.f_code.co_filename)
        if seen is None:
            return None
        add = seen.add
        add(frame.f_lineno)

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            add(frame.f_lineno)
            return line

        return line

    def share(self, package: str) -> float:
        """The part of the lines of a package that has run, 0 to 1."""
        paths = [path for path, module in self.modules.items() if module.startswith(package + ".")]
        reached = sum(len(self.lines[path] & self.seen[path]) for path in paths)
        return reached / sum(len(self.lines[path]) for path in paths)

    def __str__(self) -> str:
        rows = []
        for path, module in sorted(self.modules.items(), key=lambda item: item[1]):
            lines, missing = self.lines[path], sorted(self.lines[path] - self.seen[path])
            if lines:
                rows.append(f"{module:<40} {1 - len(missing) / len(lines):6.1%}  not reached: {', '.join(map(str, missing)) or 'nothing'}")
        rows += [f"{package:<40} {self.share(package):6.1%}" for package in PACKAGES]
        return "\n".join(rows)


def _lines(code: CodeType, top: bool = False) -> Iterator[int]:
    """The lines of the functions in a piece of code; those of modules and classes run at import."""
    if not top and code.co_flags & inspect.CO_NEWLOCALS:
        yield from (line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lines(constant)
