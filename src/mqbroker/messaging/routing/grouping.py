"""Message groups over a cluster: the seam between routing and the handler that knows where each group goes.

Routing never waits.  While the place of a group is unknown routing raises :class:`~mqbroker.messaging.turns.undecided.Undecided`; the
caller then sends the client's message again later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.routing.routing import Binding, Route


class Grouping(Protocol):
    """A grouping handler.  ``ticket``: the work that has to be durable before messages of the groups it has decided are delivered."""

    ticket: int

    def select(self, route: Route, message: Message, may_wait: bool) -> Sequence[Binding]:
        """The bindings for ``message``, which has a group id.  Raises Undecided, but only if the sender ``may_wait``."""
