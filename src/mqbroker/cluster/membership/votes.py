"""Votes about a node: what a member answers to a primary or backup that has lost its partner.

Source: ``protocol-spec/``, chapter "Cluster packets".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqclient.wire.primitives import Reader, Writer

if TYPE_CHECKING:
    from mqclient.protocol.topology import Topology
    from mqclient.wire.primitives import TransportConfiguration

FAILOVER_VOTE = "PrimaryFailoverQuorumVote"
OLD_FAILOVER_VOTE = "LiveFailoverQuorumVote"
"""The name of the same vote before version 2.37; the answer bears the name of the question."""


def failover_vote(topology: Topology, vote: bytes) -> bytes:
    """The answer to the question about a node id.  Raises MalformedPacketError.

    A member that knows a primary of it returns the vote that it was asked with, and that primary's connector; one that knows none says the
    contrary: nobody is there, the backup may take over.
    """
    reader = Reader(vote, "QUORUM_VOTE")
    asked, node_id = reader.boolean(), reader.string()
    reader.nullable_string()
    member = topology.get(node_id)
    writer = Writer()
    if member is not None and member.primary is not None:
        writer.boolean(asked)
        writer.string(node_id)
        writer.nullable_string(connector_text(member.primary))
    else:
        writer.boolean(not asked)
        writer.string(node_id)
        writer.nullable_string(None)
    return bytes(writer.data)


def connector_text(connector: TransportConfiguration) -> str:
    """A connector in the form by which a primary knows its own again: parameters in their order, passwords hidden, hyphens for dots."""
    parameters = "&".join(
        f"{_hyphened(key)}={'****' if 'password' in key.lower() else _hyphened(_text(value))}" for key, value in connector.parameters
    )
    text = f"TransportConfiguration(name={connector.name}, factory={_hyphened(connector.factory_class_name)})"
    return f"{text}?{parameters}" if parameters else text


def _hyphened(text: str) -> str:
    return text.replace(".", "-")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
