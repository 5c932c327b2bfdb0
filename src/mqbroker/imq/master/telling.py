"""Tells other members how far the record has come."""

from __future__ import annotations

from mqbroker.imq.links.requests import Peer, Peers


class Telling:
    """One telling at a time is under way to each member; those that come meanwhile are told as one, the last.

    A telling that is lost is made up for at the next one, or when the link is up again.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._under_way: set[str] = set()
        self._next: dict[str, tuple[str, int]] = {}

    def tell(self, generation: str, position: int, master: str | None) -> None:
        """Tell all linked members but the master, which knows."""
        for peer in list(self._peers.by_id.values()):
            if peer.name != master:
                self.tell_one(peer, generation, position)

    def tell_one(self, peer: Peer, generation: str, position: int) -> None:
        """Tell one member."""
        if peer.node_id in self._under_way:
            self._next[peer.node_id] = generation, position
            return
        self._under_way.add(peer.node_id)
        peer.ask("recordHas", generation, position).addBoth(self._told, peer)

    def lost(self, peer: Peer) -> None:
        """The link to a member is gone."""
        self._under_way.discard(peer.node_id)
        self._next.pop(peer.node_id, None)

    def _told(self, result: object, peer: Peer) -> None:
        if self._peers.by_id.get(peer.node_id) is not peer:
            return
        self._under_way.discard(peer.node_id)
        following = self._next.pop(peer.node_id, None)
        if following is not None:
            self.tell_one(peer, *following)
