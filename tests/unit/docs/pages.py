"""The pages for readers, and what is in them."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (
    ROOT,
    ROOT / "docs",
    ROOT / "docs" / "decisions",
    ROOT / "protocol-spec",
    ROOT / "clients" / "mqclient",
    ROOT / "clients" / "mqspark",
    ROOT / "config",
    *sorted((ROOT / "config").glob("*/")),
)
FENCED = re.compile(r"^( *)```(\S*)\n(.*?)^\1```$", re.M | re.S)
"""Indentation, language and content: a block in a list is indented."""
CODE = re.compile(r"`([^`\n]+)`")


def pages() -> list[Path]:
    """README, change log, documentation, specification."""
    return sorted(path for folder in FOLDERS for path in folder.glob("*.md"))


def blocks(text: str, language: str) -> Iterator[str]:
    """The contents of the fenced blocks of one language."""
    return (dedent(content) for _, found, content in FENCED.findall(text) if found == language)


def prose(text: str) -> str:
    """The text without its fenced blocks."""
    return FENCED.sub("", text)


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every line that is a row of a table."""
    for line in prose(text).splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def read(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def load_program(*parts: str) -> Any:
    """The program at this path of the checkout, as a module."""
    path = ROOT.joinpath(*parts)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = program
    spec.loader.exec_module(program)
    return program
