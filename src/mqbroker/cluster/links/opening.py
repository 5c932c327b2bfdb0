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


async def show_password(connection: Connection, credentials: ClusterCredentials, product: str | None = None) -> str | None:
    """Show the cluster's password to the other broker.  Raises ClusterSecurityError when it refuses it.

    Returns the product of the other broker if ``product``, that of this one, is told, and the other one knows the question.
    """
    request = ClusterConnect(credentials.user, credentials.password, product, int(product is not None))
    reply: ClusterConnectReply = await connection.cluster_channel.call(request, ClusterConnectReply)
    if not reply.authorized:
        raise ClusterSecurityError(f"the broker at {describe(connection.connector)} refuses the cluster user and password")
    return reply.product


class LossListener:
    """Calls ``lost`` with the error that ends a connection without reconnection."""

    def __init__(self, lost: Callable[[MQError], object]) -> None:
        self._lost = lost

    def before_reconnect(self, error: MQError) -> None: ...

    def connection_failed(self, error: MQError, failed_over: bool) -> None:
        self._lost(error)
