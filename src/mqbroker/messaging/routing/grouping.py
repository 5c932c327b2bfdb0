"""Message groups over a cluster: the seam between routing and the handler that knows where each group goes.

Routing never waits.  Where it is not known yet it raises :class:`Undecided`; whoever sends for a client then sends the message again later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.routing.routing import Binding, Route


class Undecided(Exception):
    """Where a message goes is not known yet.  Nothing has happened; ``when_known(function)`` calls it once to try again."""

    def __init__(self, when_known: Callable[[Callable[[], object]], object]) -> None:
        super().__init__("where the message goes is not known yet")
        self.when_known = when_known


class Grouping(Protocol):
    """A grouping handler.  ``ticket``: the work that has to be durable before messages of the groups it has decided are delivered."""

    ticket: int

    def select(self, route: Route, message: Message, may_wait: bool) -> Sequence[Binding]:
        """Who gets ``message``, which has a group id.  Raises :class:`Undecided`, but only where the sender ``may_wait``."""
