"""Which form of the broker runs: its source as it is, or what was compiled from it (decision 29; docs/performance-notes.md)."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec

_OF_EACH = ("mqbroker.messaging.queues.queue", "mqclient.wire.properties")
"""A module of each distribution that is compiled where any is."""


def running_form() -> str:
    """``pure``, ``compiled``, or ``mixed`` where only the broker or only the client is compiled."""
    specs = [find_spec(name) for name in _OF_EACH]
    compiled = {spec is not None and str(spec.origin).endswith(tuple(EXTENSION_SUFFIXES)) for spec in specs}
    if len(compiled) > 1:
        return "mixed"
    return "compiled" if compiled.pop() else "pure"
