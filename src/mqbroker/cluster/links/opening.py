"""How a connection to another broker begins, and how its end is heard."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mqclient.core.connection.connection import describe
from mqclient.errors import ClusterSecurityError, MQError
from mqclient.wire.packets import ClusterConnect, ClusterConnectReply

if TYPE_CHECKING:
    from mqbroker.server.transport.cluster_channel import ClusterCredentials
    from mqclient.core.connection.connection import Connection


async def show_password(connection: Connection, credentials: ClusterCredentials) -> None:
    """Show the cluster's password to the other broker.  Raises ClusterSecurityError when it refuses it."""
    request = ClusterConnect(credentials.user, credentials.password)
    reply: ClusterConnectReply = await connection.cluster_channel.call(request, ClusterConnectReply)
    if not reply.authorized:
        raise ClusterSecurityError(f"the broker at {describe(connection.connector)} refuses the cluster user and password")


class LossListener:
    """Calls ``lost`` with the error by which a connection ends that is not made again by its factory."""

    def __init__(self, lost: Callable[[MQError], object]) -> None:
        self._lost = lost

    def before_reconnect(self, error: MQError) -> None: ...

    def connection_failed(self, error: MQError, failed_over: bool) -> None:
        self._lost(error)
