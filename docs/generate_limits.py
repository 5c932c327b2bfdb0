"""Writes ``docs/limits.md`` from the limits in the code: ``python docs/generate_limits.py``.

A limit is a public constant at module level whose name ends in ``_MAX``, or one of :data:`OTHERS`.  The docstring below it says the unit,
what it bounds, and why.  A test compares the page with the code.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "limits.md"
SOURCES = (ROOT / "src", ROOT / "clients" / "mqclient" / "src")

NO_LIMITS = {"I32_MAX", "I64_MAX", "INT_MAX", "LONG_MAX", "VERSION_MAX", "LISTED_MAX", "SHOWN_MAX"}
"""Ranges of types, versions of the protocol, and what shortens the texts of errors."""

OTHERS = {
    "mqbroker.cluster.remote_queues.flow.TOLD_PER_TURN",
    "mqbroker.cluster.remote_queues.ways.REMOVED_PER_TURN",
    "mqbroker.messaging.administration.reapers.REFERENCES_PER_STEP",
    "mqbroker.messaging.message.message.MEMORY_PER_MESSAGE",
    "mqbroker.messaging.queues.queue_pages.PIECES_PER_SEARCH",
    "mqbroker.messaging.queues.queue_pages.PIECES_PER_TURN",
    "mqbroker.messaging.message.memory.MEMORY_PER_REFERENCE",
    "mqbroker.messaging.queues.ring.REMOVED_TOGETHER",
    "mqbroker.node.life.STOP_SECONDS",
    "mqbroker.process.memory_limits.GLOBAL_MAX_SIZE",
    "mqbroker.server.transport.acceptor.BACKLOG_DEFAULT",
    "mqbroker.server.transport.connection.FLUSH_BYTES",
    "mqbroker.server.transport.liveness.CONNECTION_TTL_MS",
    "mqbroker.storage.files.filestore.ID_BLOCK",
    "mqbroker.storage.files.journal.compaction.STEP_BYTES",
    "mqbroker.storage.files.journal.compaction.STEP_RECORDS",
    "mqbroker.storage.files.journal.journal.FRAME_CONTENT",
    "mqbroker.storage.files.journal.journal.LATE_WRITE_SECONDS",
    "mqbroker.storage.files.pages.reader.PIECE_SIZE",
    "mqbroker.storage.mirror.copying.FILES_PER_STEP",
    "mqbroker.storage.mirror.copying.PIECE",
    "mqbroker.storage.mirror.copying.SYNC_BYTES",
    "mqclient.wire.frames.FRAME_SIZE_BEFORE_SESSION",
}
"""Limits whose names do not end in ``_MAX``: sizes of steps, times, and what things count as."""

HEAD = """# Limits

The limits that are fixed in the code. This page is made by `python docs/generate_limits.py` from the constants and the docstrings below
them; change those, not this page. How the broker holds back a fast side for a slow one is in
[Architecture](architecture.md#back-pressure-and-limits); limits that broker.xml sets are in [Configuration](configuration.md).
"""


class Limit(NamedTuple):
    """``meaning``: the docstring of the constant; None when it has none."""

    module: str
    name: str
    meaning: str | None


def limits() -> Iterator[Limit]:
    """All limits, by module, in the order of their source."""
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            yield from limits_of(".".join(path.relative_to(source).with_suffix("").parts), path.read_text(encoding="utf-8"))


def limits_of(module: str, text: str) -> Iterator[Limit]:
    """The limits of one module, whose source is ``text``."""
    body = ast.parse(text).body
    for number, node in enumerate(body):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            if isinstance(target, ast.Name) and is_limit(module, target.id):
                yield Limit(module, target.id, _docstring(body[number + 1 : number + 2]))


def is_limit(module: str, name: str) -> bool:
    return f"{module}.{name}" in OTHERS or (re.fullmatch(r"[A-Z0-9]\w*_MAX", name) is not None and name not in NO_LIMITS)


def _docstring(following: list[ast.stmt]) -> str | None:
    for node in following:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return re.sub(r":\w+:`([^`]+)`", r"`\1`", " ".join(node.value.value.split())).replace("``", "`")
    return None


def page() -> str:
    """The whole page.  Raises ValueError for a limit without a docstring."""
    parts = [HEAD]
    for package, group in groupby(limits(), lambda limit: ".".join(limit.module.split(".")[:2])):
        parts += [f"\n## {package}\n\n", "| limit | value | unit and meaning |\n", "|---|---|---|\n"]
        for module, name, meaning in group:
            if meaning is None:
                raise ValueError(f"{module}.{name} has no docstring that says unit and reason")
            parts.append(f"| `{module}.{name}` | {getattr(importlib.import_module(module), name)} | {meaning} |\n")
    return "".join(parts)


if __name__ == "__main__":
    sys.path[:0] = [str(path) for path in SOURCES]
    PAGE.write_text(page(), encoding="utf-8")
