"""The server: one broker with its connections, sessions, security and management, over the messaging core."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.event import Event
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.messaging import Messaging
from mqbroker.messaging.ports import Clock, Store
from mqbroker.server.cluster_port import ClusterPort, OtherBrokers
from mqbroker.server.security.security import SecurityManager
from mqbroker.server.server_state import ServerState
from mqbroker.server.session.session import ServerSession
from mqbroker.server.session.sessions import Sessions
from mqbroker.server.session.slow_consumers import SlowConsumers
from mqbroker.server.session_state import SessionState
from mqbroker.server.transport.cluster_channel import ClusterChannel, ClusterCredentials
from mqbroker.server.transport.connection import ServerConnection
from mqbroker.server.transport.connections import Connections
from mqbroker.server.transport.control_channels import ControlChannels
from mqclient.wire.packets import REASON_SCALE_DOWN, DisconnectV3

log = Logger(namespace="mqbroker.server")

ManagementHandler = Callable[[SessionState, Message], None]


class Server(ServerState):
    """One broker, as its connections and management see it.

    ``new_id`` gives unique texts for connections, and ``manage`` takes the messages to the management address.  ``connect(transport,
    remote, …)`` takes an open transport (see :meth:`Connections.connect`).
    """

    def __init__(
        self,
        configuration: Configuration,
        store: Store,
        clock: Clock,
        messaging: Messaging,
        security: SecurityManager,
        new_id: Callable[[], str],
        others: OtherBrokers,
        manage: ManagementHandler,
    ) -> None:
        super().__init__(configuration, store, clock, messaging, security)
        self.turn.failed.subscribe(self._turn_failed)
        self.sessions = Sessions(self, manage)
        credentials = ClusterCredentials(configuration.cluster_user, configuration.cluster_password)
        self.cluster_channel = ClusterChannel(
            credentials if security.enabled else None, self.reasons, self.notifications.authentication_failed
        )
        self._connections = Connections(self, ControlChannels(self).handle, new_id, configuration.connection_ttl_check_interval)
        self.connect = self._connections.connect
        self.connections = self._connections.by_id
        self.slow_consumers = SlowConsumers(self)
        self.others = others
        self.emptied: Event[()] = Event()
        """The last client has left."""
        security.denied.subscribe(self.notifications.permission_denied)

    # --- life

    def start(self) -> None:
        """Take clients from now on."""
        self.started = True
        self.started_ms = self.clock.wall_ms()
        self.messaging.core.observers.append(self.notifications)
        self._connections.start()
        self.slow_consumers.start()

    def freeze(self, frozen: Callable[[], object]) -> None:
        """Read nothing more from any peer; ``frozen`` is called when all earlier requests are answered."""
        for connection in list(self.connections.values()):
            connection.freeze()
        self.turn.run(lambda: self.store.when_synced(self.store.ticket(), frozen))

    def stop(self, target_node_id: str | None = None) -> None:
        """Disconnect all clients and end all sessions.  ``target_node_id``: the broker that gets the messages, None without scale-down."""
        self.started = False
        self.slow_consumers.stop()
        self._connections.stop(DisconnectV3(self.node_id, REASON_SCALE_DOWN, target_node_id))
        self.reasons.stop()

    @staticmethod
    def _turn_failed(error: Exception) -> None:
        log.failure("a delivery or a write failed", failure=Failure(error))  # type: ignore[no-untyped-call]

    def problem(self) -> str | None:
        """A problem in one line; None when clients can be served."""
        if not self.started:
            return "the broker is not active"
        return self.admission.reason or self.others.problem()

    # --- connections

    @property
    def total_connections(self) -> int:
        return self._connections.total

    def has_clients(self) -> bool:
        """Is a client connected, other brokers not counted?"""
        return any(connection.logged_in and not connection.cluster_authorized for connection in self.connections.values())

    def connection_ended(self, connection: ServerConnection) -> None:
        """The sessions of ``connection`` are closed: remove its temporary queues, branches and subscriptions."""
        self.connections.pop(connection.connection_id, None)
        if self.cluster is not None:
            self.cluster.ended(connection)
        if not self.has_clients():
            self.emptied()
        self.departing.add(connection.temporary_queues)
        connection.temporary_queues.clear()
        self.messaging.branches.abandon(connection)

    @property
    def cluster(self) -> ClusterPort | None:
        """None for a broker in no cluster."""
        return self.others.cluster

    def connection_writable(self, connection: ServerConnection) -> None:
        if self.cluster is not None:
            self.cluster.writable(connection)

    def all_sessions(self) -> Iterable[ServerSession]:
        return self.sessions.by_name.values()
