"""The server of a broker that is not active: other brokers are answered on the cluster channel, and clients are sent away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.messaging.turns.turn import Turn
from mqbroker.server.transport.cluster_channel import ClusterChannel, ClusterCredentials
from mqbroker.server.transport.connections import Connections
from mqbroker.server.transport.control_channels import SUBSCRIBER_SECONDS, ControlChannels
from mqbroker.server.transport.liveness import CONNECTION_TTL_MS
from mqbroker.server.transport.partial_frames import PartialFrames
from mqbroker.server.transport.reasons import ReasonLog
from mqclient.wire.frames import CLUSTER_CHANNEL, FRAME_SIZE_MAX
from mqclient.wire.packets import REASON_SCALE_DOWN, VERSION_MAX, CreateSession, DisconnectV3, ReattachSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqbroker.config.model.configuration import Configuration
    from mqbroker.messaging.ports import Cancellable, Clock, Store
    from mqbroker.server.transport.connection import ServerConnection


class WaitingServer:
    """Takes connections before the activation, for the handlers on its ``cluster_channel``.

    ``store`` is opened, and need not be loaded; ``new_id`` gives unique texts for connections.  ``node_id`` is for a store that does not
    know its own yet.
    """

    started = False
    cluster = None
    version = VERSION_MAX
    frame_size_max = FRAME_SIZE_MAX
    default_ttl_ms = CONNECTION_TTL_MS

    def __init__(
        self, configuration: Configuration, store: Store, clock: Clock, new_id: Callable[[], str], node_id: str | None = None
    ) -> None:
        self.clock = clock
        self.turn = Turn(clock)
        self.reasons = ReasonLog(clock)
        self.partial_frames = PartialFrames(store)
        self.node_id = store.node_id if node_id is None else node_id
        self.ttl_override_ms = configuration.connection_ttl_override
        self.sessions = self
        credentials = ClusterCredentials(configuration.cluster_user, configuration.cluster_password)
        self.cluster_channel = ClusterChannel(credentials if configuration.security_enabled else None, self.reasons, _nobody_else)
        self._control = ControlChannels(self)
        self._connections = Connections(self, self._handle, new_id, configuration.connection_ttl_check_interval)
        self._retired: Cancellable | None = None
        """Until the last peers of a broker that has become active are disconnected."""
        self.connect = self._connections.connect
        self._connections.start()

    def _handle(self, connection: ServerConnection, packet_type: int, channel: int, data: bytes) -> None:
        if channel == CLUSTER_CHANNEL and self._retired is not None:
            connection.fail_soon("the broker has become active: other brokers are to ask it anew")
        else:
            self._control.handle(connection, packet_type, channel, data)

    def create(self, connection: ServerConnection, request: CreateSession) -> None:
        """End the connection: its client is to look for the active broker, and to try again."""
        connection.fail_soon("the broker is not active")

    def reattach(self, connection: ServerConnection, request: ReattachSession) -> None:
        """As :meth:`create`."""
        connection.fail_soon("the broker is not active")

    def connection_writable(self, connection: ServerConnection) -> None:
        """No output to hold back: peers get answers only."""

    def connection_ended(self, connection: ServerConnection) -> None:
        del self._connections.by_id[connection.connection_id]

    def retire(self) -> None:
        """The broker has become active: disconnect other brokers now, and clients after :data:`SUBSCRIBER_SECONDS`.

        A Java client that connects again asks first whether it may go on here.  The question may have come while the journal was read, and
        without the answer that client waits for its call-timeout, even when its connection has ended.
        """
        self._retired = self.clock.call_later(SUBSCRIBER_SECONDS, self.turn.run, self._retirement_over)
        self._connections.send_away(self._goodbye, lambda connection: connection.cluster_authorized)

    def _retirement_over(self) -> None:
        self._retired = None
        self.stop()

    def stop(self) -> None:
        """Disconnect all peers: the broker seeks no more, or ends.  Safe to call twice."""
        if self._retired is not None:
            self._retired.cancel()
            self._retired = None
        self._connections.stop(self._goodbye)
        self.reasons.stop()

    @property
    def _goodbye(self) -> DisconnectV3:
        return DisconnectV3(self.node_id, REASON_SCALE_DOWN, None)


def _nobody_else(user: str, remote: str) -> None:
    """A wrong password causes no notification: a broker sends none before the activation."""
