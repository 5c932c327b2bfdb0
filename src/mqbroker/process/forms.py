"""The form of the running broker: Python source, or compiled modules (decision 29; docs/performance-notes.md)."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec

_OF_EACH = ("mqbroker.messaging.queues.queue", "mqclient.wire.properties")
"""One module of each distribution; it is compiled if any module of its distribution is."""


def running_form() -> str:
    """``pure``, ``compiled``, or ``mixed`` where only the broker or only the client is compiled."""
    specs = [find_spec(name) for name in _OF_EACH]
    compiled = {spec is not None and str(spec.origin).endswith(tuple(EXTENSION_SUFFIXES)) for spec in specs}
    if len(compiled) > 1:
        return "mixed"
    return "compiled" if compiled.pop() else "pure"
