"""The things that all sessions of a broker share: configuration, store, clock, messaging, security, limits, notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.server.observation.gauges import Gauges
from mqbroker.server.observation.notifications import Notifications
from mqbroker.server.security.admission import Admission
from mqbroker.server.transport.departing import DepartingQueues
from mqbroker.server.transport.limits import ConnectionLimits, ResourceLimits
from mqbroker.server.transport.liveness import CONNECTION_TTL_MS
from mqbroker.server.transport.partial_frames import PartialFrames
from mqbroker.server.transport.reasons import ReasonLog
from mqclient.wire.frames import FRAME_SIZE_MAX
from mqclient.wire.packets import VERSION_MAX

if TYPE_CHECKING:
    from mqbroker.config.model.configuration import Configuration
    from mqbroker.messaging.messaging import Messaging
    from mqbroker.messaging.ports import Clock, Store
    from mqbroker.messaging.queues.address import Address
    from mqbroker.server.security.security import SecurityManager
    from mqbroker.server.transport.connection import ServerConnection

log = Logger(namespace="mqbroker.server")


class ServerState:
    """The server, as its sessions see it.  ``frame_size_max`` is in bytes; ``version`` is the newest protocol version of the server."""

    connections: dict[str, ServerConnection]
    """The open connections by their ids."""

    def __init__(
        self,
        configuration: Configuration,
        store: Store,
        clock: Clock,
        messaging: Messaging,
        security: SecurityManager,
    ) -> None:
        self.configuration = configuration
        self.store = store
        self.clock = clock
        self.messaging = messaging
        self.security = security
        self.admission = Admission(security, configuration.management_address)
        self.version = VERSION_MAX
        self.turn = messaging.core.turn
        self.frame_size_max = FRAME_SIZE_MAX
        self.connection_limits = ConnectionLimits()
        self.ttl_override_ms = configuration.connection_ttl_override
        self.default_ttl_ms = self.ttl_override_ms if self.ttl_override_ms >= 0 else CONNECTION_TTL_MS
        self.management_address = configuration.management_address
        self.populate_validated_user = configuration.populate_validated_user
        self.persists_delivery_count = configuration.persist_delivery_count_before_delivery
        self.started = False
        self.started_ms = clock.wall_ms()
        self.partial_frames = PartialFrames(store)
        self.departing = DepartingQueues(messaging, clock)
        self.limits = ResourceLimits(configuration.resource_limits, self.departing.others)
        self.notifications = Notifications(self)
        self.reasons = ReasonLog(clock)
        self.gauges = Gauges()
        """Metrics of parts that come and go, such as links to other brokers."""
        self._blocked_addresses: set[str] = set()

    @property
    def node_id(self) -> str:
        return self.store.node_id

    @property
    def stamps_messages(self) -> bool:
        """Does the broker add properties to arriving messages?"""
        return self.populate_validated_user or self.messaging.core.stamps_arrival

    def producers_blocked(self, address: Address) -> None:
        """Log that producers of a full address have to wait, once for each address."""
        if address.name not in self._blocked_addresses:
            self._blocked_addresses.add(address.name)
            log.warn(
                "AMQ222183: Blocking message production on address '{address}'; size is {size} bytes",
                address=address.name,
                size=address.memory.size,
            )
