"""The choice of clients from other nodes that go on at this broker [B10.7]."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mqbroker.imq.enhanced.stamping import Look
from mqbroker.storage.shared.brokers import BrokerRow

REFUSED_MAX = 1000
"""Nodes that are remembered because clients have come from there in vain."""

ELSEWHERE_SECONDS = 15.0
"""A Java client does not hear where its data are, and would ask for ever."""

SERVED_SECONDS = 300.0
"""A client that comes again so much later was served elsewhere meanwhile; one that cannot go there may pause for minutes."""


def owner_of(look: Look, node_id: str) -> BrokerRow | None:
    """The member that has the data of a node."""
    broker = look.owners.get(node_id)
    return next((row for row in look.rows if row.broker == broker), None)


@dataclass(slots=True)
class _Refused:
    """Clients of a node have come in vain since then, last at ``last``; ``owner`` is the node id of the member that had its data."""

    owner: str | None
    since: float
    last: float


class Clients:
    """``adopted`` are the node ids whose data are here, in memory or in pages."""

    def __init__(self, adopted: Collection[str]) -> None:
        self._adopted = adopted
        self._refused: dict[str, _Refused] = {}

    def serves(self, node_id: str, look: Look | None, linked: Collection[str], now: float) -> bool:
        """May a client go on here that was at this node before?  Nobody may come before everything is there that it has left there.

        A client from a node that the database does not know has left nothing.  The last ``look`` may be older than that node, so the
        next one decides.  A client that is sent to the member which has its data, and goes on coming here, cannot go there: it is served
        here, as in every home cluster, if that member is ``linked`` (node ids).
        """
        if node_id in self._adopted:
            return True
        if look is None:
            return False
        owner = owner_of(look, node_id)
        refused = self._note(node_id, None if owner is None else owner.node_id, now)
        if node_id not in look.owners:
            return look.when > refused.since
        return owner is not None and owner.node_id in linked and now - refused.since >= ELSEWHERE_SECONDS

    def _note(self, node_id: str, owner: str | None, now: float) -> _Refused:
        """A client has come from there.  Where its data are at another member by now, or nobody came for long, it is the first one."""
        found = self._refused.get(node_id)
        if found is None or found.owner != owner or (owner is not None and now - found.last >= SERVED_SECONDS):
            if found is None and len(self._refused) >= REFUSED_MAX:
                self._refused.clear()
            found = self._refused[node_id] = _Refused(owner, now, now)
        found.last = now
        return found
