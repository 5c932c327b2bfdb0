"""Reads that a store answers later (decision 34)."""

from __future__ import annotations

from collections.abc import Callable


class NotYet(Exception):
    """A store does not have at hand what was to be read.  Nothing has happened.

    ``when_there(function)`` has ``function`` called once, later: then the same read answers, or raises another one that is further on.
    Nobody is called after the store was left.  Whoever does not need the answer any more need not read it.
    """

    def __init__(self, when_there: Callable[[Callable[[], object]], object]) -> None:
        super().__init__("what was to be read is not there yet")
        self.when_there = when_there
