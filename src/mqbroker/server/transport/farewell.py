"""The disconnect packet, in the form that the client's version understands."""

from __future__ import annotations

from mqclient.wire.packets import Disconnect, DisconnectV2, DisconnectV3, Packet

VERSION_V2 = 125
VERSION_V3 = 131


def disconnect_for(version: int, packet: DisconnectV3) -> Packet:
    """The notice for a client of this protocol version (0 = not yet known)."""
    if 0 < version < VERSION_V2:
        return Disconnect(packet.node_id)
    if 0 < version < VERSION_V3:
        return DisconnectV2(packet.node_id, packet.target_node_id)
    return packet
