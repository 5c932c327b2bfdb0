"""From the path of a module follows that of its test: ``src/mqbroker/a/b/c.py`` is tested in ``tests/unit/a/b/test_c.py``.

The tests of the client stand below ``mqclient/``, those of the data sources below ``mqspark/``.  Further files about the same module are
``test_c_TOPIC.py`` beside it.  A module that needs real sockets, files or processes has its test at the same place below
``tests/integration``, one that needs Spark below ``tests/spark`` (without ``mqspark/``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"src/mqbroker": "", "clients/mqclient/src/mqclient": "mqclient", "clients/mqspark/src/mqspark": "mqspark"}
"""Each package, and the folder of its tests below those of a suite."""
DECLARED_MAX = 5
"""Statements in all functions of a module together.  With fewer it only declares: tables, types, protocols, names."""


def statements(path: Path) -> int:
    """How many statements the functions of a module have; docstrings, ``...`` and ``pass`` are none."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = [node for function in functions for part in function.body for node in ast.walk(part) if isinstance(node, ast.stmt)]
    plain = {id(node) for node in inner if not isinstance(node, ast.Pass) and not _is_constant(node)}
    return len(plain)


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def places(root: Path) -> Iterator[tuple[Path, tuple[Path, ...]]]:
    """Each module that does something, and the folders in which its test may be."""
    for package, below in PACKAGES.items():
        for path in sorted((root / package).rglob("*.py")):
            if path.name in ("__init__.py", "__main__.py") or statements(path) <= DECLARED_MAX:
                continue
            inside = path.parent.relative_to(root / package)
            folders = [root / "tests" / suite / below / inside for suite in ("unit", "integration")]
            if below == "mqspark":
                folders.append(root / "tests" / "spark" / inside)
            yield path, tuple(folders)


def untested(root: Path) -> list[str]:
    """Modules without a test where one looks for it."""
    return [
        str(path.relative_to(root))
        for path, folders in places(root)
        if not any((folder / f"test_{path.name}").is_file() or [*folder.glob(f"test_{path.stem}_*.py")] for folder in folders)
    ]


class MirrorTests(SynchronousTestCase):
    def test_every_module_has_a_test_where_one_looks_for_it(self) -> None:
        self.assertEqual(untested(ROOT), [])

    def test_a_module_without_a_test_is_noticed(self) -> None:
        root = Path(self.mktemp())
        work = "def work():\n" + "".join(f"    a{number} = {number}\n" for number in range(DECLARED_MAX + 1))
        for name in ("src/mqbroker/room/planted.py", "src/mqbroker/room/tested.py", "clients/mqspark/src/mqspark/room/late.py"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(work)
        (root / "src/mqbroker/room/names.py").write_text("def name() -> str:\n    return 'x'\n")
        for name in ("tests/unit/room/test_tested_twice.py", "tests/unit/test_planted.py", "tests/spark/room/test_late.py"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()
        self.assertEqual(untested(root), ["src/mqbroker/room/planted.py"])

    def test_statements_are_counted_and_declarations_are_not(self) -> None:
        path = Path(self.mktemp())
        path.write_text('TABLE = {1: 2}\n\nclass Port:\n    def ask(self):\n        """Says it."""\n\n    def tell(self): ...\n')
        self.assertEqual(statements(path), 0)
        path.write_text("def choose(a):\n    if a:\n        return 1\n    return 2\n")
        self.assertEqual(statements(path), 3)
