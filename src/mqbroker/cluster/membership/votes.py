"""Votes: the answers of a member to a primary or backup that has lost its partner, and to a broker that looks for a host of its backup.

Source: ``protocol-spec/``, chapter "Cluster packets".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqclient.wire.primitives import Decoder, Encoder

if TYPE_CHECKING:
    from mqclient.protocol.topology import Topology
    from mqclient.wire.primitives import TransportConfiguration

FAILOVER_VOTE = "PrimaryFailoverQuorumVote"
OLD_FAILOVER_VOTE = "LiveFailoverQuorumVote"
"""The name of the same vote before version 2.37; the answer bears the name of the question."""

OFFER_VOTE = "RequestBackupQuorumVote"
"""A broker asks who would host a backup of its own."""

WANTED_VOTE = "MqbrokerBackupWanted"
"""A broker asks the primary of a backup that it hosts whether it is to go on with it; the answer is a boolean."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The bytes of :data:`OFFER_VOTE`.

    In an answer: ``count`` is the number of backups that ``node_id`` hosts, ``available`` says whether it would host one more.  A question
    has :data:`ASKED` as its count; between brokers of this kind ``node_id`` is the one that looks for a host, and :data:`HOSTED` as the
    count of an answer says that its backup is there already.
    """

    count: int
    node_id: str | None
    available: bool

    def encode(self) -> bytes:
        encoder = Encoder()
        encoder.i32(self.count)
        encoder.nullable_string(self.node_id)
        encoder.boolean(self.available)
        return bytes(encoder.data)

    @classmethod
    def decode(cls, vote: bytes) -> Offer:
        """Raises MalformedPacketError."""
        decoder = Decoder(vote, OFFER_VOTE)
        return cls(decoder.i32(), decoder.nullable_string(), decoder.boolean())


ASKED = -1
"""The count in a question for offers."""

HOSTED = -1
"""The count in the offer of a broker that hosts the backup of whoever asks: it comes before all others."""


def wanted_question(node_id: str) -> bytes:
    """``node_id`` is the broker that hosts the backup."""
    encoder = Encoder()
    encoder.string(node_id)
    return bytes(encoder.data)


def failover_vote(topology: Topology, vote: bytes) -> bytes:
    """The answer to the question about a node id.  Raises MalformedPacketError.

    A member that knows a primary with this node id returns the vote of the question, and the connector of the primary.  A member that
    knows none returns the contrary: the backup may take over.
    """
    decoder = Decoder(vote, "QUORUM_VOTE")
    asked, node_id = decoder.boolean(), decoder.string()
    decoder.nullable_string()
    member = topology.get(node_id)
    primary = None if member is None else member.primary
    encoder = Encoder()
    encoder.boolean(asked == (primary is not None))
    encoder.string(node_id)
    encoder.nullable_string(None if primary is None else connector_text(primary))
    return bytes(encoder.data)


def connector_text(connector: TransportConfiguration) -> str:
    """A connector in the form by which a primary recognises its own: parameters in their order, passwords hidden, hyphens for dots."""
    parameters = "&".join(
        f"{_hyphened(key)}={'****' if 'password' in key.lower() else _hyphened(_text(value))}" for key, value in connector.parameters
    )
    text = f"TransportConfiguration(name={connector.name}, factory={_hyphened(connector.factory_class_name)})"
    return f"{text}?{parameters}" if parameters else text


def _hyphened(text: str) -> str:
    return text.replace(".", "-")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
