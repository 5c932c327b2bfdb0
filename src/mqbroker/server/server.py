"""The server: one broker with its connections, sessions, security and management, over the messaging core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.messaging import Messaging
from mqbroker.messaging.ports import Clock, Store
from mqbroker.server.bridge_port import BridgePort
from mqbroker.server.cluster_port import ClusterPort, ManagedBroadcastGroup
from mqbroker.server.security.security import SecurityManager
from mqbroker.server.server_state import ServerState
from mqbroker.server.session.session import ServerSession
from mqbroker.server.session.sessions import Sessions
from mqbroker.server.session.slow_consumers import SlowConsumers
from mqbroker.server.session_state import SessionState
from mqbroker.server.transport.cluster_channel import ClusterChannel, ClusterCredentials
from mqbroker.server.transport.connection_owner import EndedConnection
from mqbroker.server.transport.connections import Connections
from mqbroker.server.transport.control_channels import ControlChannels
from mqclient.protocol.topology import TopologyMember
from mqclient.wire.packets import REASON_SCALE_DOWN, DisconnectV3

log = Logger(namespace="mqbroker.server")

ManagementHandler = Callable[[SessionState, Message], None]


class Server(ServerState):
    """Everything that connections share.

    ``new_id`` gives unique texts for connections.  ``connect(transport, remote, …)`` takes a transport that was opened, as
    :meth:`Connections.connect` says.
    """

    def __init__(
        self,
        configuration: Configuration,
        store: Store,
        clock: Clock,
        messaging: Messaging,
        security: SecurityManager,
        new_id: Callable[[], str],
    ) -> None:
        super().__init__(configuration, store, clock, messaging, security)
        self.turn.failed.subscribe(self._turn_failed)
        self.sessions = Sessions(self, self.management_message)
        credentials = ClusterCredentials(configuration.cluster_user, configuration.cluster_password)
        self.cluster_channel = ClusterChannel(
            credentials if security.enabled else None, self.reasons, self.notifications.authentication_failed
        )
        self._connections = Connections(self, ControlChannels(self).handle, new_id, configuration.connection_ttl_check_interval)
        self.connect = self._connections.connect
        self.connections = self._connections.by_id
        self.slow_consumers = SlowConsumers(self)
        self.health_checks: list[Callable[[], str | None]] = []
        """Each tells in one line what is not well, or None; any line makes the broker not ready."""
        security.on_denied = self.notifications.permission_denied
        self.management: ManagementHandler | None = None
        self.cluster: ClusterPort | None = None
        """None: this broker is in no cluster."""
        self.broadcast_groups: Mapping[str, ManagedBroadcastGroup] = {}
        self.bridges: BridgePort | None = None
        """None: there were never any."""
        self.open_bridges: Callable[[], BridgePort] | None = None
        """Makes ``bridges`` when management wants the first one."""
        self.scale_down: Callable[[str | None], object] | None = None
        """Stops this broker, which then gives its messages to the broker at the connector of this name, or to one that it finds.

        Raises ValueError for a connector that is not there.
        """
        self.members: Callable[[], Iterable[TopologyMember]] | None = None
        """The members of the cluster, this broker among them, for management; None: this broker is alone."""
        self.on_empty: Callable[[], object] | None = None
        """Called when the last client has gone."""

    # --- life

    def start(self) -> None:
        """Take clients from now on."""
        self.started = True
        self.started_ms = self.clock.wall_ms()
        self.messaging.core.observers.append(self.notifications)
        self._connections.start()
        self.slow_consumers.start()

    def freeze(self, frozen: Callable[[], object]) -> None:
        """Read nothing more from anybody; ``frozen`` is called when everything that was asked before has been answered."""
        for connection in list(self.connections.values()):
            connection.freeze()
        self.turn.run(lambda: self.store.when_synced(self.store.ticket(), frozen))

    def stop(self, target_node_id: str | None = None) -> None:
        """Send every client away, and end all sessions.  ``target_node_id`` is the broker that gets the messages."""
        self.started = False
        self.slow_consumers.stop()
        self._connections.stop(DisconnectV3(self.node_id, REASON_SCALE_DOWN, target_node_id))
        self.reasons.stop()

    @staticmethod
    def _turn_failed(error: Exception) -> None:
        log.failure("a delivery or a write failed", failure=Failure(error))  # type: ignore[no-untyped-call]

    def problem(self) -> str | None:
        """What is not well, in one line; None when clients can be served."""
        if not self.started:
            return "the broker is not active"
        return next((found for check in self.health_checks if (found := check()) is not None), None)

    # --- connections

    @property
    def total_connections(self) -> int:
        return self._connections.total

    def has_clients(self) -> bool:
        """Is anybody connected but other brokers, which stay as long as they can?"""
        return any(connection.logged_in and not connection.cluster_authorized for connection in self.connections.values())

    def connection_ended(self, connection: EndedConnection) -> None:
        """The sessions of ``connection`` are closed; all else that belonged to it goes, too."""
        self.connections.pop(connection.connection_id, None)
        if self.on_empty is not None and not self.has_clients():
            self.on_empty()
        self.departing.add(connection.temporary_queues)
        connection.temporary_queues.clear()
        self.messaging.branches.abandon(connection)

    def management_message(self, session: SessionState, message: Message) -> None:
        """A message to the management address."""
        if self.management is not None:
            self.management(session, message)

    def all_sessions(self) -> Iterable[ServerSession]:
        return self.sessions.by_name.values()
