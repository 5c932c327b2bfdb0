"""A request that has to wait for a decision, and is then carried out from its beginning."""

from __future__ import annotations

from collections.abc import Callable


def _nothing() -> None: ...


class Undecided(Exception):
    """A request cannot be carried out before a decision, such as the place of a message group.  The request has changed nothing.

    ``when_known(function)`` has ``function`` called once, to try again.  ``withdraw`` is called when the client has gone, and does nothing
    after the request was carried out.
    """

    def __init__(self, when_known: Callable[[Callable[[], object]], object], withdraw: Callable[[], object] = _nothing) -> None:
        super().__init__("what the request depends on is not known yet")
        self.when_known = when_known
        self.withdraw = withdraw
        self.known = False
        """Has the decision been made?"""
