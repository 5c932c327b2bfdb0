"""``reload cls``: each member reads its list of brokers again, and opens and closes links accordingly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mqbroker.config.imq.places import Place
from mqbroker.imq.links.requests import Peers
from mqclient.errors import IllegalStateError, MQError


class Reloading:
    """``read`` reads the files and raises ManagementError for those that cannot be used; ``change`` lets the members be others."""

    def __init__(
        self, brokers: Sequence[str], read: Callable[[], Sequence[Place]], change: Callable[[Sequence[Place]], object], peers: Peers
    ) -> None:
        self.brokers = tuple(brokers)
        """The members by the present files, host:port."""
        self._read = read
        self._change = change
        self._peers = peers

    def here(self) -> None:
        """Do it at this broker alone."""
        places = self._read()
        self.brokers = tuple(map(str, places))
        self._change(places)

    async def everywhere(self) -> None:
        """Do it here and at all linked members, as the lists were before.  Raises IllegalStateError with the reasons of members."""
        asked = [(peer.name, peer.ask("reload")) for peer in self._peers.by_id.values()]
        self.here()
        reasons = [reason for name, result in asked if (reason := await _reason(name, result)) is not None]
        if reasons:
            raise IllegalStateError("; ".join(reasons))


async def _reason(name: str, result: Any) -> str | None:
    try:
        await result
    except MQError as error:
        return f"{name}: {error}"
    return None
