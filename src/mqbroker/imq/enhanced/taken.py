"""The nodes whose data this broker has, and the place of others that were taken over: for clients, and for transactions with branches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from mqbroker.cluster.links.outgoing import node_id_bytes
from mqbroker.messaging.turns.undecided import Undecided
from mqclient.errors import NotConnectedError

if TYPE_CHECKING:
    from mqbroker.imq.links.requests import Peers


class Adopted:
    """The node ids whose data are here, in memory or in pages: that of this broker, and those that it has taken over.

    It is ``complete`` when the database has said what this broker had taken over before its start.
    """

    def __init__(self, own: str = "") -> None:
        self.nodes: set[str] = {own} if own else set()
        self.complete = False
        self._asked: list[Callable[[], object]] = []
        """Functions that ask again when the nodes are complete."""

    def begin(self, nodes: Iterable[str]) -> None:
        """The data of ``nodes`` are here since the start.  Called inside a turn."""
        self.nodes.update(nodes)
        self.complete = True
        asked, self._asked = self._asked, []
        for function in asked:
            function()

    def answer(self, asked: Any) -> list[str]:
        """The nodes (hexadecimal digits) among ``asked``, from another member, whose data are here.  Raises Undecided until all are known.

        Raises ValueError when ``asked`` is no list of texts.
        """
        if not isinstance(asked, list) or not all(isinstance(each, str) for each in asked):
            raise ValueError("a list of node ids was expected")
        if not self.complete:
            raise Undecided(self._asked.append)
        return sorted({node_id_bytes(node_id).hex() for node_id in self.nodes}.intersection(asked))


class Taken:
    """A :class:`mqbroker.imq.delivery.decisions.TakenOver`: this broker has the nodes ``adopted``, and its ``peers`` say what they have."""

    def __init__(self, adopted: Callable[[], Collection[str]], peers: Peers) -> None:
        self._adopted = adopted
        self._peers = peers

    @property
    def nodes(self) -> Collection[str]:
        return self._adopted()

    async def at(self, member: str, nodes: Collection[bytes]) -> Collection[bytes]:
        peer = self._peers.by_id.get(member)
        if peer is None:
            raise NotConnectedError(f"there is no link to {member}")
        there = await peer.ask("hasDataOf", sorted(node.hex() for node in nodes))
        return [node for node in nodes if node.hex() in there]
