"""The resources that management reaches.  Imported with the first request to management, since many brokers never get one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqbroker.server.management.address_control import AddressControl
from mqbroker.server.management.bridge_control import find_bridge
from mqbroker.server.management.broker_control import BrokerControl
from mqbroker.server.management.cluster_control import find_broadcast_group, find_cluster_connection
from mqbroker.server.management.divert_control import DivertControl
from mqbroker.server.management.queue_control import QueueControl
from mqbroker.server.management.registry import Registry
from mqbroker.server.server import Server
from mqbroker.server.transport.acceptor import Acceptor


def register_controls(
    registry: Registry, server: Server, version: str, disk_usage: Callable[[], float], acceptors: Callable[[], Sequence[Acceptor]]
) -> None:
    """Register the resource ``broker``, and the functions that find all other resources by name.  ``disk_usage`` gives 0 to 1."""
    core, diverts = server.messaging.core, server.messaging.diverts
    registry.register("broker", BrokerControl(server, version, disk_usage, acceptors, server.security.users()))
    registry.find_by("divert", lambda name: None if (divert := diverts.find(name)) is None else DivertControl(divert))
    registry.find_by("queue", lambda name: QueueControl(server, core.queues[name]) if name in core.queues else None)
    registry.find_by("address", lambda name: AddressControl(server, core.addresses[name]) if name in core.addresses else None)
    registry.find_by("bridge", lambda name: find_bridge(server, name))
    registry.find_by("clusterconnection", lambda name: find_cluster_connection(server, name))
    registry.find_by("broadcastgroup", lambda name: find_broadcast_group(server, name))
