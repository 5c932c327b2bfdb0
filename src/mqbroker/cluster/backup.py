"""A broker that waits to be active: it announces itself in a cluster as the backup of a node, and takes no part otherwise.

Source: the Artemis manual, chapter on high availability; ``protocol-spec/``, chapter "Cluster packets".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.cluster.links.contact import Contact
from mqbroker.cluster.links.opening import show_password
from mqclient.core.connection.connection import describe
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import Runtime
from mqclient.core.settings import LocatorSettings
from mqclient.protocol.retry import RetryPlan
from mqclient.wire.packets import NodeAnnounce
from mqclient.wire.primitives import TransportConfiguration

if TYPE_CHECKING:
    from mqbroker.config.model.cluster import ClusterConnectionConfiguration
    from mqbroker.server.transport.cluster_channel import ClusterCredentials
    from mqclient.core.connection.connection import Connection
    from mqclient.core.factories.factory import SessionFactory

log = Logger(namespace="mqbroker.cluster")


class AnnouncedBackup:
    """Announces this broker to the cluster as a backup.  ``own`` is the connector for its clients; ``places`` gives the connectors at which
    members of the cluster may be."""

    def __init__(
        self,
        runtime: Runtime,
        configuration: ClusterConnectionConfiguration,
        credentials: ClusterCredentials,
        node_id: str,
        own: TransportConfiguration,
        places: Callable[[], Sequence[TransportConfiguration]],
    ) -> None:
        self._runtime = runtime
        self._configuration = configuration
        self._credentials = credentials
        self._node_id = node_id
        self._own = own
        pauses = RetryPlan(
            configuration.retry_interval, configuration.retry_interval_multiplier, configuration.max_retry_interval, attempts=-1
        )
        self.contact = Contact(runtime, places, self._open_locator, pauses, self._announced)
        self.start = self.contact.start
        self.stop = self.contact.stop

    def _open_locator(self, places: Sequence[TransportConfiguration]) -> Locator:
        configuration = self._configuration
        settings = LocatorSettings(
            use_topology_for_load_balancing=False,
            call_timeout=configuration.call_timeout,
            client_failure_check_period=configuration.check_period,
            connection_ttl=configuration.connection_ttl,
        )
        return Locator(self._runtime, places, settings, greet=self._greet, follow=False)

    async def _greet(self, connection: Connection) -> None:
        await show_password(connection, self._credentials)
        connection.cluster_channel.send(NodeAnnounce(self._node_id, None, True, self._runtime.wall_clock_ms(), self._own, None, None))

    def _announced(self, factory: SessionFactory) -> None:
        log.info("AMQ221031: backup announced for the node {node}, at {place}", node=self._node_id, place=describe(factory.connector))
