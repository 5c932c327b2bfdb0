"""Tables that people write agree with the code: limits, log codes, metrics."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.server.observation.metrics import ADDRESS_METRICS, BROKER_METRICS, QUEUE_METRICS, RESULT_METRICS
from tests.unit.docs.pages import CODE, ROOT, read, rows

SOURCES = (ROOT / "src", ROOT / "clients" / "mqclient" / "src")
CONSTANT = re.compile(r"`(mq\w+(?:\.\w+)*)\.([A-Z_]+)`")
LOG_CODE = re.compile(r"AMQ22\d{4}")

NO_LIMITS = {"I32_MAX", "I64_MAX", "INT_MAX", "LONG_MAX", "VERSION_MAX", "LISTED_MAX", "SHOWN_MAX"}
"""Ranges of types, versions of the protocol, and what shortens the texts of errors."""


def limits() -> Iterator[tuple[str, str, str]]:
    """Module, name and value of each row of the table of limits."""
    for cells in rows(read("docs", "architecture.md")):
        match = CONSTANT.fullmatch(cells[0])
        if match is not None:
            yield match[1], match[2], cells[1]


def limits_in_the_code() -> Iterator[tuple[str, str]]:
    """Module and name of every public constant that ends in ``_MAX``."""
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
                for target in targets:
                    if isinstance(target, ast.Name) and re.fullmatch("[A-Z0-9]\\w*_MAX", target.id) and target.id not in NO_LIMITS:
                        yield module_name(path, source), target.id


def module_name(path: Path, source: Path) -> str:
    return ".".join(path.relative_to(source).with_suffix("").parts)


class TableTests(SynchronousTestCase):
    def test_limits_have_the_values_of_the_table(self) -> None:
        listed = list(limits())
        self.assertGreater(len(listed), 30)
        wrong = [
            f"{module}.{name} is {value}"
            for module, name, text in listed
            if (value := getattr(importlib.import_module(module), name)) != float(text)
        ]
        self.assertEqual(wrong, [])

    def test_every_limit_is_in_the_table(self) -> None:
        """Whoever adds a limit adds a row to docs/architecture.md, "Back-pressure and limits"."""
        listed = {(module, name) for module, name, _ in limits()}
        self.assertEqual(sorted(set(limits_in_the_code()) - listed), [])

    def test_codes_that_the_broker_writes_are_listed(self) -> None:
        written = set()
        for path in (ROOT / "src").rglob("*.py"):
            written |= set(LOG_CODE.findall(path.read_text(encoding="utf-8")))
        listed = {code for cells in rows(read("docs", "operations.md")) for code in LOG_CODE.findall(cells[0])}
        self.assertEqual((sorted(written - listed), sorted(listed - written)), ([], []))

    def test_metrics_are_listed(self) -> None:
        listed = {name for cells in rows(read("docs", "operations.md")) for name in CODE.findall(cells[-1])}
        names = {*BROKER_METRICS, *RESULT_METRICS, *ADDRESS_METRICS, *QUEUE_METRICS}
        self.assertEqual(names - listed, set())
