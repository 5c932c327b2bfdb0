"""The connections of one broker to the other members of a cluster: their settings, the cluster's login, the announcement of this broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.cluster.links.opening import LINK_SETTINGS, show_password
from mqclient.core.connection.connection import describe
from mqclient.core.factories.locator import Locator
from mqclient.errors import ClusterSecurityError
from mqclient.wire.packets import NodeAnnounce

if TYPE_CHECKING:
    from mqbroker.cluster.membership.topology import ClusterTopology
    from mqbroker.config.model.cluster import ClusterConnectionConfiguration
    from mqbroker.server.transport.cluster_channel import ClusterCredentials
    from mqclient.core.connection.connection import Connection
    from mqclient.core.factories.factory import SessionFactory
    from mqclient.core.runtime import Runtime
    from mqclient.core.session.session import Session
    from mqclient.core.settings import LocatorSettings
    from mqclient.wire.primitives import TransportConfiguration

REFUSERS_MAX = 100
"""Brokers that refuse the cluster password and are named in the log."""

log = Logger(namespace="mqbroker.cluster")


class MemberLocators:
    """Opens the connections of one cluster connection.  None of them reconnects by itself.

    This broker is announced at the beginning of those of :meth:`announcing` and :meth:`greet`, and again on each that is still there when
    its event id in ``topology`` is raised.
    """

    def __init__(
        self,
        configuration: ClusterConnectionConfiguration,
        runtime: Runtime,
        credentials: ClusterCredentials,
        topology: ClusterTopology,
        own_connector: TransportConfiguration,
    ) -> None:
        self.credentials = credentials
        self.topology = topology
        self._configuration = configuration
        self._runtime = runtime
        self._own_connector = own_connector
        self._refused_by: set[str] = set()
        self._announced_on: list[Connection] = []
        topology.raised.subscribe(self._announce_again)

    def settings(self) -> LocatorSettings:
        """The settings of every connection to another member."""
        configuration = self._configuration
        return replace(
            LINK_SETTINGS,
            call_timeout=configuration.call_timeout,
            call_failover_timeout=configuration.call_failover_timeout,
            client_failure_check_period=configuration.check_period,
            connection_ttl=configuration.connection_ttl,
            min_large_message_size=configuration.min_large_message_size,
            confirmation_window_size=configuration.confirmation_window_size,
            producer_window_size=configuration.producer_window_size,
            block_on_durable_send=True,
            block_on_non_durable_send=True,
        )

    def announcing(self, places: Sequence[TransportConfiguration]) -> Locator:
        """A locator whose connections feed the topology and announce this broker."""
        return Locator(
            self._runtime, places, self.settings(), topology=self.topology, greet=self.greet, cluster_connection=True, follow=False
        )

    def silent(self, places: Sequence[TransportConfiguration]) -> Locator:
        """A locator whose connections feed the topology and do not announce this broker."""
        return Locator(self._runtime, places, self.settings(), topology=self.topology, greet=self._log_in, follow=False)

    def separate(self, places: Sequence[TransportConfiguration]) -> Locator:
        """A locator with a topology of its own, which does not announce this broker."""
        return Locator(self._runtime, places, self.settings(), greet=self._log_in, follow=False)

    async def open_session(self, factory: SessionFactory) -> Session:
        """A session of the cluster user."""
        user, password = self.credentials.user, self.credentials.password
        return await factory.create_session(user, password, pre_acknowledge=True, client_id=self._configuration.client_id)

    async def greet(self, connection: Connection) -> None:
        """Show the cluster's password, and announce this broker.  Raises ClusterSecurityError when the peer refuses the password."""
        await self._log_in(connection)
        self._announced_on = [*self._still_there(), connection]
        self._announce(connection)

    def _announce(self, connection: Connection) -> None:
        own = self.topology.get(self.topology.node_id)
        if own is not None:
            connection.cluster_channel.send(
                NodeAnnounce(
                    own.node_id,
                    own.backup_group_name,
                    False,
                    own.unique_event_id,
                    self._own_connector,
                    own.backup,
                    own.scale_down_group_name,
                )
            )

    def _announce_again(self) -> None:
        # Members without a link to this broker hear of its changes in no other way.
        self._announced_on = self._still_there()
        for connection in self._announced_on:
            self._announce(connection)

    def _still_there(self) -> list[Connection]:
        return [connection for connection in self._announced_on if connection.error is None]

    async def _log_in(self, connection: Connection) -> None:
        """Show the cluster's password.  A broker that refuses it is in another cluster, and its topology must not be learned."""
        try:
            await show_password(connection, self.credentials)
        except ClusterSecurityError:
            place = describe(connection.connector)
            if place not in self._refused_by and len(self._refused_by) < REFUSERS_MAX:
                self._refused_by.add(place)
                log.error(
                    "cluster connection {name}: the broker at {place} refuses the cluster user and password; "
                    "they must be the same everywhere",
                    name=self._configuration.name,
                    place=place,
                )
            raise
