"""The choice of the member that takes over the messages of a leaving member."""

from __future__ import annotations

from collections.abc import Iterable

from mqclient.protocol.topology import TopologyMember
from mqclient.wire.primitives import TransportConfiguration


def members_after(topology: Iterable[TopologyMember], own_node_id: str, group: str | None) -> list[TransportConfiguration]:
    """The primaries of the other members, of ``group`` if there is one, in the order of their node ids, beginning after the own one.

    So one broker makes the same choice each time, and different brokers that leave make different ones.
    """
    members = [each for each in topology if each.node_id != own_node_id and group in (None, each.scale_down_group_name)]
    members.sort(key=lambda each: (each.node_id < own_node_id, each.node_id))
    return [each.primary for each in members if each.primary is not None]
