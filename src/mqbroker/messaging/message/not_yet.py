"""Reads that a store answers later (decision 34)."""

from __future__ import annotations

from collections.abc import Callable


class NotYet(Exception):
    """A store does not have the page or body at hand that was to be read.  The read has changed nothing.

    ``when_there(function)`` has ``function`` called once, later: then the same read succeeds, or raises another NotYet that is further on.
    No function is called after the store was left.  A caller that no longer needs the answer need not read again.
    """

    def __init__(self, when_there: Callable[[Callable[[], object]], object]) -> None:
        super().__init__("what was to be read is not there yet")
        self.when_there = when_there
