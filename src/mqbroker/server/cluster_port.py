"""What the server asks of the cluster that it is in, if it is in one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mqbroker.server.bridge_port import BridgePort
from mqbroker.server.transport.control_channels import Cluster

if TYPE_CHECKING:
    from mqbroker.config.model.cluster import BroadcastGroupConfiguration, ClusterConnectionConfiguration
    from mqbroker.server.transport.connection import ServerConnection
    from mqclient.protocol.topology import TopologyMember


class ManagedClusterConnection(Protocol):
    """One cluster connection, as management sees it."""

    @property
    def name(self) -> str: ...

    @property
    def node_id(self) -> str:
        """That of this broker."""

    @property
    def configuration(self) -> ClusterConnectionConfiguration: ...

    @property
    def running(self) -> bool: ...

    @property
    def topology(self) -> Iterable[TopologyMember]: ...

    @property
    def contested_by(self) -> Sequence[str]:
        """Where other brokers with the node id of this one are."""

    def links(self) -> list[dict[str, Any]]:
        """What there is to say of the link to each other member; see ``docs/clusters.md``."""

    def remote_bindings(self) -> Iterable[dict[str, Any]]:
        """The queues that other members have made known."""

    def start(self) -> None: ...

    def stop(self) -> object: ...


class ManagedBroadcastGroup(Protocol):
    """One broadcast group."""

    @property
    def name(self) -> str: ...

    @property
    def configuration(self) -> BroadcastGroupConfiguration: ...

    @property
    def started(self) -> bool: ...

    @property
    def sent(self) -> int:
        """Announcements that were sent."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class ClusterPort(Cluster, Protocol):
    """The cluster connections of this broker; all calls come inside a turn.

    Which topology the peer of a subscription gets follows from ``connection.cluster_connection``, the name that its acceptor gives (None:
    the default one).
    """

    @property
    def connections(self) -> Mapping[str, ManagedClusterConnection]:
        """By name, the default one first."""

    def writable(self, connection: ServerConnection) -> None:
        """The peer reads again: what was held back of the topology may be sent."""

    def ended(self, connection: ServerConnection) -> None:
        """The connection has gone."""


class OtherBrokers(Protocol):
    """What this broker does together with other brokers."""

    @property
    def cluster(self) -> ClusterPort | None:
        """None: this broker is in no cluster."""

    @property
    def bridges(self) -> BridgePort | None:
        """None: there were never any."""

    @property
    def broadcast_groups(self) -> Mapping[str, ManagedBroadcastGroup]: ...

    def open_bridges(self) -> BridgePort:
        """The bridges, also where the one that is to be created is the first."""

    def scale_down_to(self, connector: str | None) -> None:
        """Stop this broker, which then gives its messages to the broker at the connector of this name, or to one that it finds.

        Raises ValueError for a connector that is not there.
        """

    def problem(self) -> str | None:
        """What is not well, in one line, which makes the broker not ready; None when all is."""
