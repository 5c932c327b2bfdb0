"""What the server asks of the cluster that it is in, if it is in one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mqbroker.server.transport.control_channels import Cluster

if TYPE_CHECKING:
    from mqbroker.config.model.cluster import BroadcastGroupConfiguration, ClusterConnectionConfiguration
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
