"""The links of this broker to other brokers, as server and management see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

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
        """The node id of this broker."""

    @property
    def configuration(self) -> ClusterConnectionConfiguration: ...

    @property
    def running(self) -> bool: ...

    @property
    def topology(self) -> Iterable[TopologyMember]: ...

    @property
    def contested_by(self) -> Sequence[str]:
        """The places (``host:port``) of other brokers with the node id of this broker."""

    def links(self) -> list[dict[str, Any]]:
        """A row for the link to each other member; ``docs/clusters.md`` lists its fields."""

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
        """The number of announcements sent."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class ClusterPort(Cluster, Protocol):
    """The cluster connections of this broker; all calls come inside a turn.

    The topology that the peer of a subscription gets follows from ``connection.cluster_connection``, the name that its acceptor gives
    (None: the default one).
    """

    @property
    def connections(self) -> Mapping[str, ManagedClusterConnection]:
        """By name, the default one first."""

    def writable(self, connection: ServerConnection) -> None:
        """The peer reads again: send the held back part of the topology."""

    def ended(self, connection: ServerConnection) -> None:
        """The connection has gone."""


class CopyFigures(NamedTuple):
    """The standing of a broker of a replicated pair.

    ``sequence`` is that of the last activation that its data know of.  ``in_sync``: the other broker, or this one while it is passive, has
    everything, and may take over.  ``copied`` and ``size`` are bytes: of what is or was copied to the present replica, or what has come
    from the present active broker, which does not say how much there is; None where there is none.  ``behind``: bytes that the present
    replica was sent and has not answered yet; None where there is none.
    """

    sequence: int
    in_sync: bool
    copied: int | None
    size: int | None
    behind: int | None = None


class HostedFigures(NamedTuple):
    """A backup of another broker in this process.  ``state`` is active, passive and so on."""

    name: str
    node_id: str
    state: str


class ColocatedFigures(NamedTuple):
    """``host`` is the node id of the broker that hosts the backup of this one, None while none does; ``hosted`` are those of others."""

    host: str | None
    hosted: Sequence[HostedFigures]


class OtherBrokers(Protocol):
    """The links of this broker to other brokers."""

    @property
    def colocated(self) -> ColocatedFigures | None:
        """None for a broker that neither hosts backups nor has its own hosted."""

    @property
    def copies(self) -> CopyFigures | None:
        """None for a broker without replication."""

    @property
    def cluster(self) -> ClusterPort | None:
        """None for a broker in no cluster."""

    @property
    def bridges(self) -> BridgePort | None:
        """None until the first bridge is made."""

    @property
    def broadcast_groups(self) -> Mapping[str, ManagedBroadcastGroup]: ...

    def open_bridges(self) -> BridgePort:
        """The bridges; made when there are none yet."""

    def scale_down_to(self, connector: str | None) -> None:
        """Stop this broker after its messages have moved to the broker at this connector, or, without one, to a broker that it finds.

        Raises ValueError for a connector that is not there.
        """

    def fail_over(self) -> None:
        """Stop this broker in order, for good; its backup goes on."""

    def problem(self) -> str | None:
        """A problem that makes the broker not ready, in one line; None without one."""
