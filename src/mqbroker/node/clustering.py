"""Assembly of what a broker does with others: cluster connections, the groups by which they find each other, core bridges.

Imported only by a broker whose configuration has any of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

from mqbroker.cluster.connection import ClusterConnection
from mqbroker.cluster.core_bridge import CoreBridges
from mqbroker.cluster.grouping.grouping import GroupingHandler, Place
from mqbroker.cluster.grouping.local_grouping import KEPT_KIND, LocalGrouping
from mqbroker.cluster.grouping.remote_grouping import RemoteGrouping
from mqbroker.cluster.links.connectors import announced_form
from mqbroker.cluster.manager import ClusterManager
from mqbroker.cluster.membership.broadcast import BroadcastGroup
from mqbroker.cluster.membership.discovery import DiscoveryGroup, endpoint_in
from mqbroker.cluster.remote_queues.flow import tell_consumers
from mqbroker.cluster.remote_queues.ways import Ways
from mqbroker.config.model.cluster import (
    ClusterConnectionConfiguration,
    DiscoveryGroupConfiguration,
    GroupingHandlerConfiguration,
    ScaleDownConfiguration,
)
from mqbroker.config.model.configuration import Configuration
from mqbroker.ha.places import members_after
from mqbroker.ha.scale_down import ScaleDown
from mqbroker.messaging.routing.remote import RemoteBinding
from mqbroker.server.bridge_port import KEPT_BRIDGE_KIND
from mqbroker.server.server import Server
from mqclient.core.api import LocatorSettings
from mqclient.core.connection.reconnect import same_place
from mqclient.core.runtime import Runtime, new_uuid
from mqclient.text import nearest_name
from mqclient.wire.primitives import TransportConfiguration

STOP_SECONDS = 10.0
"""How long a stop waits for answers of other brokers; messages without one are kept, and go again after the next start."""

_LINK = LocatorSettings(ha=True, use_topology_for_load_balancing=False, confirmation_window_size=10485760, producer_window_size=1048576)
"""The connection to the target of a broker that is in no cluster itself."""

log = Logger(namespace="mqbroker.cluster")


class Clustering:
    """``etc`` is where the stack files of JGroups are, ``kept`` what the store has kept of management and of grouping handlers."""

    def __init__(self, server: Server, runtime: Runtime, etc: Path, kept: Mapping[tuple[str, str], str]) -> None:
        configuration = server.configuration
        self.connectors = {name: announced_form(uri) for name, uri in configuration.connectors.items()}
        self.manager: ClusterManager | None = None
        self.grouping: GroupingHandler | None = None
        self.discovery_groups: dict[str, DiscoveryGroup] = {}
        self.broadcast_groups: dict[str, BroadcastGroup] = {}
        self._server = server
        self._runtime = runtime
        self._etc = str(etc)
        self._kept_bridges = {name: text for (kind, name), text in kept.items() if kind == KEPT_BRIDGE_KIND}
        self._shown: list[Callable[[], object]] = []
        """What takes the metrics of groups away."""
        self._leaving: Deferred[Any] | None = None
        """Completes when nobody has to be waited for any more."""
        self._unique_id = new_uuid(runtime)
        self._make_groups(configuration)
        self.bridges = CoreBridges(server, runtime, self.connectors, self._discovered)
        if configuration.cluster_connections:
            self._make_grouping(configuration.grouping_handler, kept)
            self._make_manager(configuration)
        self.scale_down: ScaleDown | None = None
        if configuration.scale_down is not None and configuration.scale_down.enabled:
            self.scale_down_to(configuration.scale_down)

    def _make_groups(self, configuration: Configuration) -> None:
        server, send = self._server, self._server.notifications.send
        wanted = {each.discovery_group for each in configuration.cluster_connections}
        wanted |= {each.discovery_group for each in configuration.bridges}
        if configuration.scale_down is not None and configuration.scale_down.enabled:
            wanted.add(configuration.scale_down.discovery_group)
        for name, group in configuration.discovery_groups.items():
            if name in wanted:
                self.discovery_groups[name] = self._discovery_group(name, group)
        for broadcast in configuration.broadcast_groups:
            connectors = [self._connector(name, f"broadcast-group {broadcast.name}") for name in broadcast.connectors]
            located = replace(broadcast, endpoint=endpoint_in(broadcast.endpoint, self._etc))
            self.broadcast_groups[broadcast.name] = BroadcastGroup(
                located, connectors, self._runtime, server.node_id, self._unique_id, send
            )

    def _discovery_group(self, name: str, group: DiscoveryGroupConfiguration) -> DiscoveryGroup:
        return DiscoveryGroup(
            name,
            replace(group, endpoint=endpoint_in(group.endpoint, self._etc)),
            self._runtime,
            self._server.node_id,
            self._unique_id,
            self._server.notifications.send,
        )

    def _make_grouping(self, configuration: GroupingHandlerConfiguration | None, kept: Mapping[tuple[str, str], str]) -> None:
        if configuration is None:
            return
        server = self._server
        place = Place(
            server.messaging.core,
            server.node_id,
            server.notifications.send,
            lambda text: server.reasons.warn("grouping:", f"grouping-handler {configuration.name}: {text}"),
        )
        handler: GroupingHandler
        if configuration.local:
            handler = LocalGrouping(configuration, place, {key: text for (kind, key), text in kept.items() if kind == KEPT_KIND})
        else:
            handler = RemoteGrouping(configuration, place)
        self.grouping = server.messaging.core.routing.grouping = handler
        server.notifications.observers.append(handler.notified)
        server.notifications.queue_info.on_sent.append(handler.repeat)
        labels = {"handler": configuration.name, "type": "LOCAL" if configuration.local else "REMOTE"}
        for name, explanation, read in (
            ("grouping.decisions", "Groups whose queue is decided, as far as known here", lambda: handler.decisions),
            ("grouping.waiting", "Groups whose messages wait for a decision or its queue", lambda: handler.waiting),
            ("grouping.messages.ungrouped", "Messages that were routed without a decision", lambda: handler.messages_ungrouped),
        ):
            server.gauges.register(name, explanation, labels, read)

    def _make_manager(self, configuration: Configuration) -> None:
        messaging, send = self._server.messaging, self._server.notifications.send

        def in_use(binding: RemoteBinding) -> None:
            tell_consumers(binding, send)
            messaging.redistribution.consumer_appeared(binding)

        ways = Ways(messaging.core, in_use)
        connections = [self._cluster_connection(each, ways) for each in configuration.cluster_connections]
        handler = configuration.grouping_handler
        if handler is not None and not any(each.interests.cover(handler.address) for each in connections):
            log.warn(
                "grouping-handler {name}: no cluster connection shares its address, {address!r}: other brokers do not hear its decisions. "
                "Expected an address that begins as the <address> of a cluster connection says",
                name=handler.name,
                address=handler.address,
            )
        self.manager = ClusterManager(self._server, connections, ways)

    def _cluster_connection(self, configuration: ClusterConnectionConfiguration, ways: Ways) -> ClusterConnection:
        static: list[TransportConfiguration] | None = None
        if configuration.static_connectors is not None:
            static = [self._connector(name, f"cluster-connection {configuration.name}") for name in configuration.static_connectors]
        discovery = None
        if configuration.discovery_group is not None:
            discovery = self.discovery_groups.get(configuration.discovery_group)
            if discovery is None:
                raise ValueError(f"cluster-connection {configuration.name}: there is no discovery group {configuration.discovery_group}")
        return ClusterConnection(
            self._server,
            configuration,
            self._connector(configuration.connector_ref, f"cluster-connection {configuration.name}"),
            static,
            discovery,
            self._runtime,
            ways=ways,
            consumer_appeared=self._server.messaging.redistribution.consumer_appeared,
            grouping=self.grouping,
        )

    def scale_down_to(self, configuration: ScaleDownConfiguration) -> None:
        """Give the messages to another broker when this one stops.  Raises ValueError for names that are not there."""
        cluster: ClusterConnection | None = None
        if self.manager is not None:
            name = configuration.cluster_name
            found = self.manager.default if name is None else self.manager.connections.get(name)
            if found is None:
                raise ValueError(f"scale-down: there is no cluster connection {name}")
            cluster = found
        static = [self._connector(name, "scale-down") for name in configuration.connectors]
        group = configuration.discovery_group
        if group is not None and group not in self.discovery_groups:
            raise ValueError(f"scale-down: there is no discovery group {group}")

        def places() -> list[TransportConfiguration]:
            if static:
                found: Sequence[TransportConfiguration] = static
            elif group is not None:
                found = self.discovery_groups[group].connectors()
            else:
                found = [] if cluster is None else members_after(cluster.topology, self._server.node_id, configuration.group_name)
            own = None if cluster is None else cluster.own_connector
            return [place for place in found if not same_place(place, own)]

        settings = _LINK if cluster is None else cluster.settings()
        self.scale_down = ScaleDown(self._server, self._runtime, configuration, settings, places)

    def _discovered(self, group: str) -> Callable[[], Sequence[TransportConfiguration]] | None:
        found = self.discovery_groups.get(group)
        configured = self._server.configuration.discovery_groups.get(group)
        if found is None and configured is not None:  # for a bridge of management
            found = self.discovery_groups[group] = self._discovery_group(group, configured)
            self._start_group(found)
        return None if found is None else found.connectors

    def _start_group(self, group: DiscoveryGroup | BroadcastGroup) -> None:
        group.start()
        self._shown.append(group.register(self._server.gauges))

    def _connector(self, name: str, owner: str) -> TransportConfiguration:
        connector = self.connectors.get(name)
        if connector is None:
            expected = nearest_name(name, self.connectors) or ", ".join(self.connectors) or "one that is configured"
            raise ValueError(f"{owner}: there is no connector {name}; expected: {expected}")
        return connector

    def problem(self) -> str | None:
        """What is not well with the other brokers, in one line; None when all is, and once this broker leaves them."""
        if self._leaving is not None:
            return None
        found = None if self.manager is None else self.manager.problem()
        return found or next(filter(None, (group.problem() for group in self.discovery_groups.values())), None)

    def start(self) -> None:
        """Join the others; the acceptors are open."""
        for group in self.discovery_groups.values():
            self._start_group(group)
        if self.grouping is not None:
            self.grouping.start()
        if self.manager is not None:
            self.manager.start()
        for broadcast in self.broadcast_groups.values():
            self._start_group(broadcast)
        self.bridges.restore(self._kept_bridges)
        self.bridges.deploy(self._server.configuration.bridges)

    def stop(self) -> Deferred[None]:
        """Leave the others: what is under way to them arrives first, but a peer that does not answer is not waited for long."""
        for hide in self._shown:
            hide()
        self._shown.clear()
        for broadcast in self.broadcast_groups.values():
            broadcast.stop()
        for group in self.discovery_groups.values():
            group.stop()
        if self.grouping is not None:
            self.grouping.stop()
            self._server.notifications.observers.remove(self.grouping.notified)
        waiting: list[Deferred[Any]] = [self.bridges.stop()]
        if self.manager is not None:
            waiting.append(self.manager.stop())
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
        """The broker ends now: what has not answered in time is not waited for any more."""
        if self._leaving is not None:
            self._leaving.cancel()
