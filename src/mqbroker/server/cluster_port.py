"""What the server asks of the cluster that it is in, if it is in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mqbroker.server.connection import ServerConnection
    from mqclient.wire.packets import Packet


class TopologySubscription(Protocol):
    """A connection's subscription to the topology, kept by the connection as long as it lives."""

    def writable(self) -> None:
        """The peer reads again: what was held back may be sent."""

    def ended(self) -> None:
        """The connection has gone."""


class ClusterPort(Protocol):
    """The cluster connections of this broker; all calls come inside a turn."""

    def subscribe(self, connection: ServerConnection, cluster_connection: bool) -> None:
        """Send the whole topology now, and each change from now on, until the connection ends.

        ``cluster_connection`` is what the peer says of itself.  Which topology it gets follows from ``connection.cluster_connection``, the
        name that its acceptor gives (None: the default one).
        """

    def handle(self, connection: ServerConnection, packet: Packet) -> None:
        """A packet on the cluster channel.  Raises ProtocolError for one that cannot be read, which ends the connection."""

    def may_fail_over(self, node_id: str | None) -> bool:
        """May a client that was connected to the broker ``node_id`` (None = it does not say) go on here?"""
