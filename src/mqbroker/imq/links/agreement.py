"""Members compare what has to be the same on all of them when a link comes up; brokers that differ are not linked [B7.3]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.config.imq.matching import differences
from mqbroker.imq.links.requests import Peer, Peers

log = Logger(namespace="mqbroker.imq")


class Agreement:
    """Asks each member that is linked for its values of the properties in ``own``; ``part`` ends the link to a node for good.

    Each of two members has a link to the other, so both compare, and both name what differs.
    """

    def __init__(self, own: Mapping[str, str], peers: Peers, part: Callable[[str], object]) -> None:
        self._own = dict(own)
        self._part = part
        peers.linked.subscribe(self._linked)

    def answer(self) -> dict[str, str]:
        """The answer to another member: the values of this broker."""
        return self._own

    def _linked(self, peer: Peer) -> None:
        asked = peer.ask("matchProperties")
        asked.addCallbacks(partial(self._compare, peer), partial(self._not_told, peer))

    def _compare(self, peer: Peer, theirs: Any) -> None:
        found = differences(self._own, theirs if isinstance(theirs, dict) else {})
        if found:
            log.error(
                "this broker and {name} are not linked: {differences}. Expected the same on all brokers of a cluster",
                name=peer.name,
                differences="; ".join(found),
            )
            self._part(peer.node_id)

    @staticmethod
    def _not_told(peer: Peer, failure: Failure) -> None:
        """The link is lost, or the member does not answer: it is asked again with the next link."""
        log.warn("{name} has not told its properties: {reason}", name=peer.name, reason=failure.getErrorMessage())
