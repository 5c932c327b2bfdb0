"""The groups by which brokers find each other: broadcast groups, and the discovery groups that this broker uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mqbroker.cluster.membership.broadcast import BroadcastGroup
from mqbroker.cluster.membership.discovery import DiscoveryGroup, endpoint_in
from mqbroker.config.model.configuration import Configuration
from mqbroker.server.server import Server
from mqclient.core.runtime import Runtime, new_uuid
from mqclient.text import nearest_name
from mqclient.wire.primitives import TransportConfiguration


def connector_of(connectors: Mapping[str, TransportConfiguration], name: str, owner: str) -> TransportConfiguration:
    """The connector that ``owner`` names.  Raises ValueError when there is none."""
    connector = connectors.get(name)
    if connector is None:
        expected = nearest_name(name, connectors) or ", ".join(connectors) or "one that is configured"
        raise ValueError(f"{owner}: there is no connector {name}; expected: {expected}")
    return connector


class Groups:
    """The broadcast and discovery groups of one broker.

    ``etc`` is the folder of the stack files of JGroups.  Raises ValueError for an unknown connector.
    """

    def __init__(self, server: Server, runtime: Runtime, etc: Path, connectors: Mapping[str, TransportConfiguration]) -> None:
        self._server = server
        self._runtime = runtime
        self._etc = str(etc)
        self._unique_id = new_uuid(runtime)
        self._hiding: list[Callable[[], None]] = []
        """Functions that remove the gauges of the groups."""
        configuration = server.configuration
        self.discovery = {name: self._discovery(name) for name in configuration.discovery_groups if name in _wanted(configuration)}
        self.broadcast: dict[str, BroadcastGroup] = {}
        for group in configuration.broadcast_groups:
            own = [connector_of(connectors, name, f"broadcast-group {group.name}") for name in group.connectors]
            located = replace(group, endpoint=endpoint_in(group.endpoint, self._etc))
            self.broadcast[group.name] = BroadcastGroup(located, own, runtime, server.node_id, self._unique_id, server.notifications.send)

    def _discovery(self, name: str) -> DiscoveryGroup:
        server, group = self._server, self._server.configuration.discovery_groups[name]
        located = replace(group, endpoint=endpoint_in(group.endpoint, self._etc))
        return DiscoveryGroup(name, located, self._runtime, server.node_id, self._unique_id, server.notifications.send)

    def discovered(self, name: str) -> Callable[[], Sequence[TransportConfiguration]] | None:
        """A function that gives the connectors found by a discovery group, which begins to listen; None for an unknown group."""
        if name not in self._server.configuration.discovery_groups:
            return None
        if name not in self.discovery:
            self.discovery[name] = self._discovery(name)
            self._start(self.discovery[name])
        return self.discovery[name].connectors

    def problem(self) -> str | None:
        """One line if another broker has the node id of this broker, else None."""
        return next(filter(None, (group.problem() for group in self.discovery.values())), None)

    def listen(self) -> None:
        for group in self.discovery.values():
            self._start(group)

    def announce(self) -> None:
        for group in self.broadcast.values():
            self._start(group)

    def _start(self, group: DiscoveryGroup | BroadcastGroup) -> None:
        group.start()
        self._hiding.append(group.register(self._server.gauges))

    def stop(self) -> None:
        while self._hiding:
            self._hiding.pop()()
        for broadcast in self.broadcast.values():
            broadcast.stop()
        for discovery in self.discovery.values():
            discovery.stop()


def _wanted(configuration: Configuration) -> set[str | None]:
    """The discovery groups that cluster connections, bridges and scale-down use."""
    scale_down = configuration.scale_down
    wanted = {each.discovery_group for each in configuration.cluster_connections}
    wanted |= {each.discovery_group for each in configuration.bridges}
    return wanted if scale_down is None or not scale_down.enabled else wanted | {scale_down.discovery_group}
