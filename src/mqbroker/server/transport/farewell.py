"""What a broker tells a client that has to go, and one that comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqclient.wire.frames import PING_CHANNEL, SESSION_CHANNEL
from mqclient.wire.packets import CheckForFailover, CheckForFailoverReply, Disconnect, DisconnectV2, DisconnectV3, Packet

if TYPE_CHECKING:
    from mqbroker.server.transport.connection import ServerConnection

VERSION_V2 = 125
VERSION_V3 = 131


def send_disconnect(connection: ServerConnection, packet: DisconnectV3) -> None:
    """Send the form of the notice that the client's version understands."""
    version = connection.version
    form: Packet = packet
    if 0 < version < VERSION_V2:
        form = Disconnect(packet.node_id)
    elif 0 < version < VERSION_V3:
        form = DisconnectV2(packet.node_id, packet.target_node_id)
    connection.send(form, PING_CHANNEL)


def answer_failover_check(connection: ServerConnection, packet: CheckForFailover) -> None:
    """A broker that is in no cluster, and so takes over nobody's state, can always be used."""
    cluster = connection.server.cluster
    connection.send(CheckForFailoverReply(cluster is None or cluster.may_fail_over(packet.node_id)), SESSION_CHANNEL)
