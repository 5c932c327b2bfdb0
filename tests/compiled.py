"""The compiled form of this checkout, and the suites on it.

``python -m tests.compiled`` makes a copy of the checkout in ``.compiled/``, with the compiled modules beside their sources, as
``MQBROKER_COMPILED=1 pip install`` makes them (setup.py).  ``python -m tests.compiled SUITE…`` runs suites of ``tests/run.py`` there, so
that the tests and every broker that they start have the compiled form.  Nothing is compiled again while no source has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / ".compiled"
DISTRIBUTIONS = (Path(), Path("clients/mqclient"))
SOURCES = (Path("src"), Path("clients/mqclient/src"))
PATHS = ("src", "clients/mqclient/src", "clients/mqspark/src", "plugins")
_STAMP = "built-from.txt"
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*", "build", "dist", "target", "_build", "_trial_temp*")


def modules(root: Path) -> list[str]:
    """The modules that are compiled, as pyproject.toml names them."""
    tables = [tomllib.loads((root / place / "pyproject.toml").read_text()) for place in DISTRIBUTIONS]
    return [module for table in tables for module in table["tool"]["mqbroker"]["compiled"]["modules"]]


def python_path(tree: Path = TREE) -> str:
    return os.pathsep.join(str(tree / path) for path in PATHS)


def not_compiled(python: str, path: str, names: Sequence[str]) -> list[str]:
    """Those of these modules that an interpreter with this PYTHONPATH would not load from native code."""
    program = "import importlib, json, sys; print(json.dumps({name: importlib.import_module(name).__file__ for name in sys.argv[1:]}))"
    done = subprocess.run(
        [python, "-c", program, *names], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the compiled modules cannot be loaded:\n{done.stderr}")
    return [name for name, file in json.loads(done.stdout).items() if not file.endswith(tuple(EXTENSION_SUFFIXES))]


def built_from() -> str:
    """Says what the native code was made from: compiler, interpreter, and all sources, since types come from everywhere."""
    level = os.environ.get("MYPYC_OPT_LEVEL", "")
    summed = hashlib.sha256(f"{platform.python_version()} {platform.machine()} {level}".encode())
    settings = [ROOT / place / name for place in DISTRIBUTIONS for name in ("setup.py", "pyproject.toml")]
    for path in [*settings, *sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))]:
        summed.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return summed.hexdigest()


def _native(tree: Path) -> Iterator[Path]:
    for folder in SOURCES:
        for path in (tree / folder).rglob("*"):
            if path.name.endswith(tuple(EXTENSION_SUFFIXES)):
                yield path.relative_to(tree)


def build() -> Path:
    """The tree of the compiled form, made anew as far as that is needed.  Raises RuntimeError with what the compiler says."""
    wanted = built_from()
    stamp = TREE / _STAMP
    fresh = stamp.is_file() and stamp.read_text() == wanted
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".compiled-") as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(ROOT, copy, ignore=_LEFT_OUT)
        if fresh:
            for path in _native(TREE):
                shutil.copy2(TREE / path, copy / path)
        else:
            for place in DISTRIBUTIONS:
                command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
                environment = os.environ | {"MQBROKER_COMPILED": "1"}
                done = subprocess.run(command, cwd=copy / place, env=environment, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise RuntimeError(f"{(ROOT / place).name} cannot be compiled:\n{done.stdout[-5000:]}{done.stderr[-5000:]}")
                shutil.rmtree(copy / place / "build", ignore_errors=True)
            pure = not_compiled(sys.executable, python_path(copy), modules(copy))
            if pure:
                raise RuntimeError(f"these modules were not compiled: {', '.join(pure)}")
        (copy / _STAMP).write_text(wanted)
        shutil.rmtree(TREE, ignore_errors=True)
        copy.rename(TREE)
    return TREE


def main(suites: Sequence[str]) -> int:
    try:
        tree = build()
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    if not suites:
        print(f"the compiled form is in {tree.relative_to(ROOT)}")
        return 0
    environment = os.environ | {"PYTHONPATH": python_path(tree)}
    return subprocess.run([sys.executable, "tests/run.py", *suites], cwd=tree, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
