"""Assembly of the links to other brokers: cluster connections, the groups by which brokers find each other, core bridges.

Imported only by a broker whose configuration has any of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

from mqbroker.cluster.connection import ClusterConnection
from mqbroker.cluster.core_bridge import CoreBridges
from mqbroker.cluster.grouping.grouping import GroupingHandler
from mqbroker.cluster.links.connectors import announced_form
from mqbroker.cluster.manager import ClusterManager
from mqbroker.cluster.membership.load import Loads
from mqbroker.cluster.membership.store_and_forward import StoreAndForwardLoads
from mqbroker.cluster.remote_queues.flow import tell_consumers
from mqbroker.cluster.remote_queues.ways import Ways
from mqbroker.config.model.cluster import ClusterConnectionConfiguration, ScaleDownConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.home_cluster import HomeCluster
from mqbroker.ha.colocated.own_clients import OwnClients
from mqbroker.ha.places import members_after
from mqbroker.ha.scale_down import ScaleDown
from mqbroker.messaging.routing.remote import RemoteBinding
from mqbroker.node.grouping import follow
from mqbroker.node.groups import Groups, connector_of
from mqbroker.server.bridge_port import KEPT_BRIDGE_KIND
from mqbroker.server.server import Server
from mqclient.core.runtime import Runtime
from mqclient.core.settings import LocatorSettings
from mqclient.protocol.topology import same_place
from mqclient.wire.primitives import TransportConfiguration

if TYPE_CHECKING:
    from mqbroker.cluster.membership.discovery import Discovery
    from mqbroker.imq.enhanced.membership import Membership
    from mqbroker.node.homes import HomeFiles, Homes, RecordDatabase

STOP_SECONDS = 10.0
"""How long a stop waits for answers of other brokers; messages without an answer are kept, and go again after the next start."""

_LINK = LocatorSettings(ha=True, use_topology_for_load_balancing=False, confirmation_window_size=10485760, producer_window_size=1048576)
"""Settings of the connection to a scale-down target, for a broker in no cluster."""

log = Logger(namespace="mqbroker.cluster")


class Clustering:
    """The links of one broker to other brokers.

    ``etc`` is the folder of the stack files of JGroups, ``kept`` the settings of management from the store, by kind and name.  ``files``
    are those of an instance of Open Message Queue, ``record`` is the database of a cluster of peers,
    ``membership`` this broker's in an enhanced cluster.

    ``grouping`` is the handler by which messaging routes.  Raises ValueError for names that are not there.
    """

    def __init__(
        self,
        server: Server,
        runtime: Runtime,
        etc: Path,
        kept: Mapping[tuple[str, str], str],
        grouping: GroupingHandler | None = None,
        files: HomeFiles | None = None,
        record: RecordDatabase | None = None,
        membership: Membership | None = None,
    ) -> None:
        configuration = server.configuration
        self.grouping = grouping
        self.connectors = {name: announced_form(uri) for name, uri in configuration.connectors.items()}
        self.groups = Groups(server, runtime, etc, self.connectors)
        self.bridges = CoreBridges(server, runtime, self.connectors, self.groups.discovered)
        self._server = server
        self._runtime = runtime
        self._kept_bridges = {name: text for (kind, name), text in kept.items() if kind == KEPT_BRIDGE_KIND}
        self._following: list[Callable[[], None]] = []
        """Functions that end the subscriptions and gauges of the grouping handler."""
        self._leaving: Deferred[Any] | None = None
        """Completes when all links are closed; None before :meth:`stop`."""
        home = configuration.home_cluster
        self.homes = None if home is None else self._make_homes(home, kept, files, record, membership)
        self.manager = self._make_manager(configuration, membership) if configuration.cluster_connections else None
        self.scale_down: ScaleDown | None = None
        if configuration.scale_down is not None and configuration.scale_down.enabled and not configuration.gives_away:
            self.scale_down_to(configuration.scale_down)

    def _make_homes(
        self,
        settings: HomeCluster,
        kept: Mapping[tuple[str, str], str],
        files: HomeFiles | None,
        record: RecordDatabase | None,
        membership: Membership | None,
    ) -> Homes:
        from mqbroker.node.homes import Homes

        return Homes(self._server, self._runtime, settings, kept, lambda: self.connection_of_homes, files, record, membership)

    @property
    def connection_of_homes(self) -> ClusterConnection:
        """The cluster connection of a home broker."""
        assert self.manager is not None
        return self.manager.default

    def _make_manager(self, configuration: Configuration, membership: Membership | None) -> ClusterManager:
        messaging, send = self._server.messaging, self._server.notifications.send

        def in_use(binding: RemoteBinding) -> None:
            tell_consumers(binding, send)
            messaging.redistribution.consumer_appeared(binding)

        ways = Ways(messaging.core, in_use)
        appeared = messaging.redistribution.consumer_appeared
        configurations = configuration.cluster_connections
        if self.homes is not None:
            # One cluster model per broker: the configuration has the one connection of the home cluster.
            links = [self._cluster_connection(each, self.homes.loads) for each in configurations]
            return ClusterManager(self._server, links, ways, None if membership is None else self.homes)
        loads = [StoreAndForwardLoads(self._server, each, ways, appeared, grouping=self.grouping) for each in configurations]
        connections = [self._cluster_connection(each, load) for each, load in zip(configurations, loads, strict=True)]
        handler = configuration.grouping_handler
        if handler is not None and not any(each.interests.cover(handler.address) for each in loads):
            log.warn(
                "grouping-handler {name}: no cluster connection shares its address, {address!r}: other brokers do not hear its decisions. "
                "Expected an address that begins as the <address> of a cluster connection says",
                name=handler.name,
                address=handler.address,
            )
        successors = OwnClients(connections[0].topology) if configuration.hosted else None
        return ClusterManager(self._server, connections, ways, successors)

    def _cluster_connection(self, configuration: ClusterConnectionConfiguration, loads: Loads) -> ClusterConnection:
        owner = f"cluster-connection {configuration.name}"
        static: list[TransportConfiguration] | None = None
        if configuration.static_connectors is not None:
            static = [connector_of(self.connectors, name, owner) for name in configuration.static_connectors]
        discovery: Discovery | None = None if self.homes is None else self.homes.members
        if configuration.discovery_group is not None:
            discovery = self.groups.discovery.get(configuration.discovery_group)
            if discovery is None:
                raise ValueError(f"{owner}: there is no discovery group {configuration.discovery_group}")
        return ClusterConnection(
            self._server,
            configuration,
            connector_of(self.connectors, configuration.connector_ref, owner),
            static,
            discovery,
            self._runtime,
            loads,
        )

    def scale_down_to(self, configuration: ScaleDownConfiguration) -> None:
        """Give the messages to another broker when this one stops.  Raises ValueError for names that are not there."""
        self.scale_down = self.make_scale_down(configuration)

    def make_scale_down(self, configuration: ScaleDownConfiguration) -> ScaleDown:
        """A scale-down that nobody has begun.  Raises ValueError for names that are not there."""
        cluster: ClusterConnection | None = None
        if self.manager is not None:
            name = configuration.cluster_name
            found = self.manager.default if name is None else self.manager.connections.get(name)
            if found is None:
                raise ValueError(f"scale-down: there is no cluster connection {name}")
            cluster = found
        static = [connector_of(self.connectors, name, "scale-down") for name in configuration.connectors]
        group = configuration.discovery_group
        if group is not None and group not in self.groups.discovery:
            raise ValueError(f"scale-down: there is no discovery group {group}")

        def places() -> list[TransportConfiguration]:
            if static:
                found: Sequence[TransportConfiguration] = static
            elif group is not None:
                found = self.groups.discovery[group].connectors()
            else:
                found = [] if cluster is None else members_after(cluster.topology, self._server.node_id, configuration.group_name)
            own = None if cluster is None else cluster.own_connector
            return [place for place in found if not same_place(place, own)]

        settings = _LINK if cluster is None else cluster.locators.settings()
        return ScaleDown(self._server, self._runtime, configuration, settings, places)

    def problem(self) -> str | None:
        """A problem with the other brokers, in one line; None without one, and after :meth:`stop`."""
        if self._leaving is not None:
            return None
        found = None if self.manager is None else self.manager.problem()
        if found is None and self.homes is not None:
            found = self.homes.problem()
        return found or self.groups.problem()

    def start(self) -> None:
        """Join the other brokers; the acceptors must be open."""
        self.groups.listen()
        if self.grouping is not None:
            self._following = follow(self.grouping, self._server)
            self.grouping.start()
        if self.homes is not None:
            self.homes.start()
        if self.manager is not None:
            self.manager.start()
        self.groups.announce()
        self.bridges.restore(self._kept_bridges)
        self.bridges.deploy(self._server.configuration.bridges)

    def stop(self) -> Deferred[None]:
        """Leave the other brokers after messages under way have arrived; a peer that does not answer has :data:`STOP_SECONDS`."""
        self.groups.stop()
        if self.grouping is not None:
            self.grouping.stop()
        while self._following:
            self._following.pop()()
        waiting: list[Deferred[Any]] = [self.bridges.stop()]
        if self.manager is not None:
            waiting.append(self.manager.stop())
        if self.homes is not None:
            waiting.append(self.homes.stop())
        left: Deferred[None] = Deferred()

        def done(result: object = None) -> None:
            if not left.called:
                limit.cancel()
                left.callback(None)

        limit = self._server.clock.call_later(STOP_SECONDS, done)
        self._leaving = DeferredList(waiting, consumeErrors=True)
        self._leaving.addCallback(done)
        return left

    def cut(self) -> None:
        """End now: do not wait for links without an answer."""
        if self._leaving is None:
            self.stop()
        assert self._leaving is not None
        self._leaving.cancel()
