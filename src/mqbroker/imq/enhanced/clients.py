"""Which clients of other nodes go on at this broker [B10.7]."""

from __future__ import annotations

from collections.abc import Collection

from mqbroker.imq.enhanced.stamping import Look
from mqbroker.storage.shared.brokers import BrokerRow

REFUSED_MAX = 1000
"""Nodes that are remembered because clients have come from there in vain."""

ELSEWHERE_SECONDS = 15.0
"""A Java client does not hear where its data are, and would ask for ever."""


def owner_of(look: Look, node_id: str) -> BrokerRow | None:
    """The member that has the data of a node."""
    broker = look.owners.get(node_id)
    return next((row for row in look.rows if row.broker == broker), None)


class Clients:
    """``adopted`` are the node ids whose data are here, in memory or in pages."""

    def __init__(self) -> None:
        self.adopted: set[str] = set()
        self._refused: dict[str, float] = {}
        """Node ids whose data are not here, and when a client came from there first."""

    def serves(self, node_id: str, look: Look | None, linked: Collection[str], now: float) -> bool:
        """May a client go on here that was at this node before?  Nobody may come before everything is there that it has left there.

        Whoever comes from a node that the database does not know has left nothing.  The last ``look`` may be older than that node, so the
        next one decides.  A client that is sent to the member which has its data, and goes on coming here, cannot go there: it is served
        here, as in every home cluster, if that member is ``linked`` (node ids).
        """
        if node_id in self.adopted:
            return True
        if look is None:
            return False
        if len(self._refused) >= REFUSED_MAX:
            self._refused.clear()
        since = self._refused.setdefault(node_id, now)
        if node_id not in look.owners:
            return look.when > since
        owner = owner_of(look, node_id)
        return owner is not None and owner.node_id in linked and now - since >= ELSEWHERE_SECONDS
