"""The server: one broker with its connections, sessions, security and management, over the messaging core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.messaging import Messaging
from mqbroker.messaging.ports import Cancellable, Clock, Store
from mqbroker.server.bridge_port import BridgePort
from mqbroker.server.cluster_port import ClusterPort, ManagedBroadcastGroup
from mqbroker.server.security.security import SecurityManager
from mqbroker.server.server_state import ServerState
from mqbroker.server.session.session import ServerSession
from mqbroker.server.session.sessions import Sessions
from mqbroker.server.session.slow_consumers import SlowConsumers
from mqbroker.server.session_state import SessionState
from mqbroker.server.transport.connection import ConnectionTransport, ServerConnection
from mqbroker.server.transport.connection_owner import EndedConnection
from mqbroker.server.transport.control_channels import ControlChannels
from mqbroker.server.transport.handshake import HANDSHAKE_TIMEOUT_SECONDS
from mqbroker.server.transport.naming import Naming
from mqclient.protocol.topology import TopologyMember
from mqclient.wire.frames import CLUSTER_CHANNEL
from mqclient.wire.packets import REASON_SCALE_DOWN, ClusterConnect, ClusterConnectReply, DisconnectV3, Packet

log = Logger(namespace="mqbroker.server")

ManagementHandler = Callable[[SessionState, Message], None]


class Server(ServerState):
    """Everything that connections share.

    ``new_id`` gives unique texts for connections.
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
        self.turn.on_failure = self._turn_failed
        self.connections: dict[str, ServerConnection] = {}
        self.total_connections = 0
        self.sessions = Sessions(self, self.management_message)
        self._control = ControlChannels(self)
        self.slow_consumers = SlowConsumers(self)
        self.health_checks: list[Callable[[], str | None]] = []
        """Each tells in one line what is not well, or None; any line makes the broker not ready."""
        messaging.readers.tell = lambda text: log.info("{text}", text=text)
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
        self._new_id = new_id
        self._checker: Cancellable | None = None

    # --- life

    def start(self) -> None:
        """Take clients from now on."""
        self.started = True
        self.started_ms = self.clock.wall_ms()
        self.messaging.core.observers.append(self.notifications)
        self._schedule_check()
        self.slow_consumers.start()

    def freeze(self, frozen: Callable[[], object]) -> None:
        """Read nothing more from anybody; ``frozen`` is called when everything that was asked before has been answered."""
        for connection in list(self.connections.values()):
            connection.freeze()
        self.turn.run(lambda: self.store.when_synced(self.store.ticket(), frozen))

    def stop(self, target_node_id: str | None = None) -> None:
        """Send every client away, and end all sessions.  ``target_node_id`` is the broker that gets the messages."""
        self.started = False
        if self._checker is not None:
            self._checker.cancel()
            self._checker = None
        self.slow_consumers.stop()
        notice = DisconnectV3(self.node_id, REASON_SCALE_DOWN, target_node_id)
        for connection in list(self.connections.values()):
            try:
                self.turn.run(connection.disconnect, notice)
            except Exception:
                log.failure("connection {id} could not be disconnected in order", id=connection.connection_id)
        self.reasons.stop()

    def _schedule_check(self) -> None:
        period = self.configuration.connection_ttl_check_interval
        if period > 0:
            self._checker = self.clock.call_later(period / 1000, self._check)

    def _check(self) -> None:
        now = self.clock.monotonic()
        for connection in list(self.connections.values()):
            try:
                self.turn.run(connection.check_alive, now)
            except Exception:
                log.failure("the check of connection {id} failed", id=connection.connection_id)
        self._schedule_check()

    @staticmethod
    def _turn_failed(error: Exception) -> None:
        log.failure("a delivery or a write failed", failure=Failure(error))  # type: ignore[no-untyped-call]

    def problem(self) -> str | None:
        """What is not well, in one line; None when clients can be served."""
        if not self.started:
            return "the broker is not active"
        return next((found for check in self.health_checks if (found := check()) is not None), None)

    # --- connections

    def connect(
        self,
        transport: ConnectionTransport,
        remote: str,
        naming: Naming | None = None,
        certificate: object = None,
        *,
        handshake_timeout_seconds: float = HANDSHAKE_TIMEOUT_SECONDS,
        security_domain: str | None = None,
        cluster_connection: str | None = None,
    ) -> ServerConnection:
        """A transport was opened.  0 seconds: the peer may take any time to begin."""
        connection = ServerConnection(
            self,
            self._control.handle,
            transport,
            self._new_id(),
            remote,
            naming or Naming(),
            certificate,
            handshake_timeout_seconds,
            security_domain,
            cluster_connection,
        )
        self.connections[connection.connection_id] = connection
        self.total_connections += 1
        return connection

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

    def cluster_channel(self, connection: ServerConnection, packet: Packet) -> None:
        """Packets of other brokers.  A broker in no cluster answers only where nobody is asked who he is."""
        if self.cluster is not None:
            self.cluster.handle(connection, packet)
        elif isinstance(packet, ClusterConnect) and not self.security.enabled:
            connection.send(ClusterConnectReply(True), CLUSTER_CHANNEL)
        else:
            log.debug("connection {id}: {name} on the cluster channel is ignored", id=connection.connection_id, name=packet.NAME)

    def management_message(self, session: SessionState, message: Message) -> None:
        """A message to the management address."""
        if self.management is not None:
            self.management(session, message)

    def all_sessions(self) -> Iterable[ServerSession]:
        return self.sessions.by_name.values()
