"""The bridge that takes the messages waiting for a member to that member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mqbroker.cluster.links.bridge import Bridge
from mqbroker.cluster.links.forwarder import Forwarder, ForwardingSettings
from mqbroker.cluster.links.outgoing import StoreAndForward, link_id
from mqbroker.config.model.cluster import BridgeConfiguration, ClusterConnectionConfiguration

if TYPE_CHECKING:
    from mqbroker.cluster.membership.locators import MemberLocators
    from mqbroker.cluster.membership.member import Member
    from mqbroker.server.server import Server
    from mqclient.core.runtime import Runtime


class BridgeOwner(Protocol):
    """The part of a cluster connection that the bridge to a member needs."""

    configuration: ClusterConnectionConfiguration
    server: Server
    runtime: Runtime
    locators: MemberLocators


def store_and_forward_bridge(connection: BridgeOwner, member: Member) -> Bridge:
    """The bridge of ``member``'s store-and-forward queue, named like the queue; its events go to ``member``."""
    configuration, server, queue = connection.configuration, connection.server, member.store_and_forward
    locators = connection.locators
    connections = server.configuration.cluster_connections
    node_id = link_id(server.node_id, queue.name, connections) if configuration.use_duplicate_detection else None
    outgoing = StoreAndForward(queue.name, node_id, configuration.min_large_message_size)
    settings = BridgeConfiguration(
        name=queue.name,
        queue_name=queue.name,
        user=locators.credentials.user,
        password=locators.credentials.password,
        client_id=configuration.client_id,
        ha=True,
        min_large_message_size=configuration.min_large_message_size,
        check_period=configuration.check_period,
        connection_ttl=configuration.connection_ttl,
        call_timeout=configuration.call_timeout,
        retry_interval=configuration.retry_interval,
        retry_interval_multiplier=configuration.retry_interval_multiplier,
        max_retry_interval=configuration.max_retry_interval,
        initial_connect_attempts=configuration.initial_connect_attempts,
        reconnect_attempts=configuration.reconnect_attempts,
        reconnect_attempts_same_node=0,  # all connectors of the member are of one node
        confirmation_window_size=configuration.confirmation_window_size,
        producer_window_size=configuration.producer_window_size,
    )
    return Bridge(
        queue.name,
        connection.runtime,
        member.connectors,
        settings,
        Forwarder(server, queue, ForwardingSettings(), outgoing),
        member,
        topology=locators.topology,
        greet=locators.greet,
    )
