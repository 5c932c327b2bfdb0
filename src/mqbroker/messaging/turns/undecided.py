"""A request that has to wait for a decision, and is then carried out from its beginning."""

from __future__ import annotations

from collections.abc import Callable


def _nothing() -> None: ...


class Undecided(Exception):
    """A request cannot be carried out before something is decided, such as where its message goes.  Nothing has happened.

    ``when_known(function)`` calls it once to try again.  ``withdraw`` is called when whoever asked has gone; it does nothing once the
    request was carried out.
    """

    def __init__(self, when_known: Callable[[Callable[[], object]], object], withdraw: Callable[[], object] = _nothing) -> None:
        super().__init__("what the request depends on is not known yet")
        self.when_known = when_known
        self.withdraw = withdraw
