"""The resources ``clusterconnection.NAME`` and ``broadcastgroup.NAME`` (Artemis manual, "Management").

Artemis has no ``LinksAsJSON``, ``Links`` (by node id) and ``listRemoteBindings``: they show the links to other members, and their queues.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mqbroker.server.management import views
from mqbroker.server.management.registry import Operation, Resource, without_result
from mqclient.protocol.discovery import JGroupsEndpoint, UdpEndpoint
from mqclient.wire.primitives import TransportConfiguration

if TYPE_CHECKING:
    from mqbroker.server.cluster_port import ManagedBroadcastGroup, ManagedClusterConnection
    from mqbroker.server.server import Server


class ClusterConnectionControl(Resource):
    """One cluster connection.  Stopping it ends its links; messages for other members wait until it is started again."""

    def __init__(self, connection: ManagedClusterConnection) -> None:
        self.connection = connection

    def nodes(self) -> dict[str, str]:
        """The other members, by node id, with the place of their primary."""
        own = self.connection.node_id
        return {
            member.node_id: place(member.primary)
            for member in self.connection.topology
            if member.node_id != own and member.primary is not None
        }

    def topology(self) -> str:
        """All members, this broker among them, in one line."""
        members = [
            f"{member.node_id} (primary={place(member.primary)}, backup={place(member.backup)})" for member in self.connection.topology
        ]
        return f"topology of {self.connection.name} [{len(members)} members: {', '.join(members)}]"

    def metrics(self) -> dict[str, int]:
        return _metrics(self.connection.links())

    def metrics_of(self, node_id: Any) -> dict[str, int] | None:
        """The counters of the link to one member; null without such a link."""
        links = [link for link in self.connection.links() if link["nodeID"] == str(node_id)]
        return _metrics(links) if links else None


def _metrics(links: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    counters = (("messagesPendingAcknowledgement", "messagesPending"), ("messagesAcknowledged", "messagesAcknowledged"))
    return {name: sum(int(link[key]) for link in links) for name, key in counters}


def place(connector: TransportConfiguration | None) -> str:
    """``host:port`` of a connector; empty when there is none."""
    if connector is None:
        return ""
    parameters = dict(connector.parameters)
    return f"{parameters.get('host', 'localhost')}:{parameters.get('port', 61616)}"


def _configured(field: str) -> Any:
    return lambda control: getattr(control.connection.configuration, field)


def _static(control: ClusterConnectionControl) -> list[str] | None:
    names = control.connection.configuration.static_connectors
    return None if names is None else list(names)


ClusterConnectionControl.ATTRIBUTES = {
    "Name": lambda control: control.connection.name,
    "Address": _configured("address"),
    "NodeID": lambda control: control.connection.node_id,
    "Started": lambda control: control.connection.running,
    "Topology": ClusterConnectionControl.topology,
    "Nodes": ClusterConnectionControl.nodes,
    "MaxHops": _configured("max_hops"),
    "StaticConnectors": _static,
    "StaticConnectorsAsJSON": lambda control: json.dumps(_static(control)),
    "DiscoveryGroupName": _configured("discovery_group"),
    "MessageLoadBalancingType": _configured("message_load_balancing"),
    "DuplicateDetection": _configured("use_duplicate_detection"),
    "RetryInterval": _configured("retry_interval"),
    "ProducerWindowSize": _configured("producer_window_size"),
    "MessagesPendingAcknowledgement": lambda control: control.metrics()["messagesPendingAcknowledgement"],
    "MessagesAcknowledged": lambda control: control.metrics()["messagesAcknowledged"],
    "Metrics": ClusterConnectionControl.metrics,
    "ContestedBy": lambda control: list(control.connection.contested_by),
    "Links": lambda control: {link["nodeID"]: link for link in control.connection.links()},
    "LinksAsJSON": lambda control: json.dumps(control.connection.links(), ensure_ascii=False),
}
ClusterConnectionControl.OPERATIONS = {
    "start": Operation(lambda control: control.connection.start()),
    "stop": without_result(lambda control: control.connection.stop()),
    "getBridgeMetrics": Operation(ClusterConnectionControl.metrics_of, 1),
    "listRemoteBindings": Operation(
        lambda control, options, number, size: views.page(control.connection.remote_bindings(), options, number, size), 3
    ),
}


class BroadcastGroupControl(Resource):
    """One broadcast group."""

    def __init__(self, group: ManagedBroadcastGroup) -> None:
        self.group = group


def _of_endpoint(kind: type[UdpEndpoint | JGroupsEndpoint], field: str) -> Any:
    def read(control: BroadcastGroupControl) -> Any:
        endpoint = control.group.configuration.endpoint
        return getattr(endpoint, field) if isinstance(endpoint, kind) else None

    return read


BroadcastGroupControl.ATTRIBUTES = {
    "Name": lambda control: control.group.name,
    "Started": lambda control: control.group.started,
    "LocalBindPort": _of_endpoint(UdpEndpoint, "local_bind_port"),
    "GroupAddress": _of_endpoint(UdpEndpoint, "group_address"),
    "GroupPort": _of_endpoint(UdpEndpoint, "group_port"),
    "ChannelName": _of_endpoint(JGroupsEndpoint, "channel"),
    "File": _of_endpoint(JGroupsEndpoint, "file"),
    "BroadcastPeriod": lambda control: control.group.configuration.broadcast_period,
    "ConnectorPairs": lambda control: list(control.group.configuration.connectors),
    "ConnectorPairsAsJSON": lambda control: json.dumps(list(control.group.configuration.connectors)),
    "AnnouncementsSent": lambda control: control.group.sent,
}
BroadcastGroupControl.OPERATIONS = {
    "start": Operation(lambda control: control.group.start()),
    "stop": Operation(lambda control: control.group.stop()),
}


def cluster_connection_names(server: Server) -> list[str]:
    return [] if server.cluster is None else list(server.cluster.connections)


def find_cluster_connection(server: Server, name: str) -> ClusterConnectionControl | None:
    """The resource ``clusterconnection.NAME``."""
    found = None if server.cluster is None else server.cluster.connections.get(name)
    return None if found is None else ClusterConnectionControl(found)


def find_broadcast_group(server: Server, name: str) -> BroadcastGroupControl | None:
    """The resource ``broadcastgroup.NAME``."""
    found = server.others.broadcast_groups.get(name)
    return None if found is None else BroadcastGroupControl(found)
