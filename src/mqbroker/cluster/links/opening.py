"""The beginning of a connection to another broker, and the listener for its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mqclient.core.connection.connection import describe
from mqclient.core.settings import LocatorSettings
from mqclient.errors import ClusterSecurityError, MQError
from mqclient.protocol.retry import POLICY_PACKAGE, POLICY_SUFFIX
from mqclient.wire.packets import ClusterConnect, ClusterConnectReply

if TYPE_CHECKING:
    from mqbroker.server.transport.cluster_channel import ClusterCredentials
    from mqclient.core.connection.connection import Connection

LINK_SETTINGS = LocatorSettings(
    ha=True,
    use_topology_for_load_balancing=False,
    connection_load_balancing_policy_class_name=f"{POLICY_PACKAGE}FirstElement{POLICY_SUFFIX}",
    pre_acknowledge=True,
)
"""The common settings of connections between brokers, which are tried once and end when they fail: their owners try again."""


async def show_password(connection: Connection, credentials: ClusterCredentials) -> None:
    """Show the cluster's password to the other broker.  Raises ClusterSecurityError when it refuses it."""
    await _connect(connection, ClusterConnect(credentials.user, credentials.password))


async def ask_product(connection: Connection, credentials: ClusterCredentials, own: str) -> str | None:
    """As :func:`show_password`, and tell the ``own`` product.  Returns that of the other broker, None from one that says nothing of it."""
    reply = await _connect(connection, ClusterConnect(credentials.user, credentials.password, own, 1))
    return reply.product


async def _connect(connection: Connection, request: ClusterConnect) -> ClusterConnectReply:
    reply: ClusterConnectReply = await connection.cluster_channel.call(request, ClusterConnectReply)
    if not reply.authorized:
        raise ClusterSecurityError(f"the broker at {describe(connection.connector)} refuses the cluster user and password")
    return reply


class LossListener:
    """Calls ``lost`` with the error that ends a connection without reconnection."""

    def __init__(self, lost: Callable[[MQError], object]) -> None:
        self._lost = lost

    def before_reconnect(self, error: MQError) -> None: ...

    def connection_failed(self, error: MQError, failed_over: bool) -> None:
        self._lost(error)
