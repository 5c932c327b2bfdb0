"""The load of the link to a member of a cluster.  The member itself knows only when the link comes and goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mqbroker.cluster.links.bridge import BridgeEvents

if TYPE_CHECKING:
    from mqbroker.cluster.membership.locators import MemberLocators
    from mqbroker.cluster.membership.topology import ClusterTopology
    from mqbroker.config.model.cluster import ClusterConnectionConfiguration
    from mqbroker.server.server import Server
    from mqclient.core.factories.factory import SessionFactory
    from mqclient.core.runtime import Runtime
    from mqclient.protocol.topology import TopologyMember
    from mqclient.wire.primitives import TransportConfiguration


class Link(Protocol):
    """A bridge to the member."""

    def start(self) -> None: ...

    def stop(self) -> object: ...

    def figures(self) -> dict[str, Any]:
        """The figures of the link for management."""


class LinkedTo(BridgeEvents, Protocol):
    """The member, as the maker of its link sees it: the events of the bridge go to it."""

    node_id: str

    def connectors(self) -> Sequence[TransportConfiguration]:
        """The connectors of the member, in the order in which to try."""


class Load(Protocol):
    """The load of the link to one member, from the announcement of the member to the end of its record."""

    @property
    def waiting(self) -> int:
        """Messages that wait for the member."""

    def make_link(self, member: LinkedTo) -> Link:
        """The bridge to ``member``; called once."""

    async def connected(self, factory: SessionFactory) -> None:
        """The connection to the member is up.  An MQError fails the attempt."""

    def started(self) -> None:
        """The link is up."""

    def disconnected(self) -> None:
        """The link is lost, or did not come up; it will be tried again."""

    def end(self) -> None:
        """The member has left, or is given up."""

    def move_to(self, node_id: str) -> None:
        """The member has given its messages to the broker ``node_id``; :meth:`end` follows."""

    def forgotten(self, running: bool) -> None:
        """The record of the member has ended.  With ``running`` false this broker leaves the cluster, and may come back."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """The queues that the member has made known, for management."""

    def figures(self) -> dict[str, Any]:
        """The load in figures, for management."""

    def series(self) -> Sequence[tuple[str, str, Callable[[], float]]]:
        """Name, explanation and value of each metric of the load."""


class LoadOwner(Protocol):
    """The cluster connection, as the loads of its members see it."""

    name: str
    configuration: ClusterConnectionConfiguration
    server: Server
    runtime: Runtime
    locators: MemberLocators
    topology: ClusterTopology


class Loads(Protocol):
    """Makes the loads of all members of one cluster connection.

    ``stand_ins``: each member stands in for another one, and clients are told so.
    """

    stand_ins: bool

    def load(self, owner: LoadOwner, announced: TopologyMember) -> Load:
        """The load of the link to a member that has appeared."""

    def stop(self) -> None:
        """This broker leaves the cluster: work for members that have left ends."""
