"""Votes of Java brokers about a node: they are asked as they ask each other.

A Java broker promises nothing and remembers nothing: it says what it sees.  With one among the voters the guarantee is that of the peer.
Source: ``protocol-spec/``, chapter "Cluster packets".
"""

from __future__ import annotations

from mqbroker.cluster.membership.votes import FAILOVER_VOTE, OLD_FAILOVER_VOTE
from mqclient.wire.primitives import Decoder, Encoder


class JavaVotes:
    """Questions about one node, by the same copy.

    ``active``: the copy is active and has lost its replica, and asks whether it still is the one; its connector is ``connector`` then, as
    :func:`mqbroker.cluster.membership.votes.connector_text` writes it.  Otherwise it asks whether the active one is gone.
    """

    def __init__(self, node_id: str, connector: str) -> None:
        self._node_id = node_id
        self._connector = connector
        self._old: set[str] = set()
        """Voters that did not answer under the present name."""

    def handler(self, voter: str) -> str:
        """The name to ask this one under."""
        return OLD_FAILOVER_VOTE if voter in self._old else FAILOVER_VOTE

    def silent(self, voter: str) -> None:
        """The voter did not answer, perhaps because it knows only the other name."""
        self._old ^= {voter}

    def question(self, active: bool) -> bytes:
        encoder = Encoder()
        encoder.boolean(active)
        encoder.string(self._node_id)
        encoder.nullable_string(None)
        return bytes(encoder.data)

    def agrees(self, active: bool, vote: bytes) -> bool:
        """Is the answer a yes?  Raises MalformedPacketError."""
        decoder = Decoder(vote, "QUORUM_VOTE_REPLY")
        agreed, node_id, connector = decoder.boolean(), decoder.string(), decoder.nullable_string()
        return agreed and node_id == self._node_id and (not active or connector == self._connector)
