"""The page of limits is that of the code, and no limit is missing there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.docs.pages import load_program, read, rows

CONSTANT = re.compile(r"`(mq\w+(?:\.\w+)*\.[A-Z_]+)`")


def limits_in_the_code(sources: tuple[Path, ...], excepted: set[str]) -> Iterator[str]:
    """Module and name of every public constant that ends in ``_MAX``."""
    for source in sources:
        for path in sorted(source.rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
                for target in targets:
                    if isinstance(target, ast.Name) and re.fullmatch("[A-Z0-9]\\w*_MAX", target.id) and target.id not in excepted:
                        yield ".".join((*path.relative_to(source).with_suffix("").parts, target.id))


class LimitTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.program = load_program("docs", "generate_limits.py")

    def test_the_page_is_fresh(self) -> None:
        """If this fails: python docs/generate_limits.py"""
        self.assertEqual(read("docs", "limits.md"), self.program.page())

    def test_every_limit_is_on_the_page(self) -> None:
        listed = {match[1] for cells in rows(read("docs", "limits.md")) if (match := CONSTANT.fullmatch(cells[0]))}
        there = set(limits_in_the_code(self.program.SOURCES, self.program.NO_LIMITS))
        self.assertGreater(len(there), 100)
        self.assertEqual((sorted(there - listed), sorted(self.program.OTHERS - listed)), ([], []))

    def test_a_limit_without_a_docstring_is_refused(self) -> None:
        found = list(
            self.program.limits_of("m", 'A_MAX = 1\n"""Bytes of\n:data:`B`, see ``C``."""\nB_MAX: int = 2\n_D_MAX = 3\nLISTED_MAX = 4\n')
        )
        self.assertEqual(found, [("m", "A_MAX", "Bytes of `B`, see `C`."), ("m", "B_MAX", None)])
        self.patch(self.program, "limits", lambda: iter(found[1:]))
        self.assertIn("m.B_MAX has no docstring", str(self.assertRaises(ValueError, self.program.page)))
