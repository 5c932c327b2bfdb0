"""The server locator: connectors, settings, the topology, and the factories that were made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from mqclient.core.closing import Closing
from mqclient.core.connection.channel import closed_error
from mqclient.core.connection.connection import Connection
from mqclient.core.connection.reconnect import Attempts
from mqclient.core.discovery.discovery import DiscoveryListener
from mqclient.core.factories.factory import PAUSE_MIN, SessionFactory
from mqclient.core.readers import ask_id_cache
from mqclient.core.runtime import Runtime, Timer, sleep, starts
from mqclient.core.session.session import Session
from mqclient.core.settings import LocatorSettings, check_settings, in_force
from mqclient.errors import ConnectionTimedOutError, MQError, NotConnectedError
from mqclient.protocol.connection import TopologyPacket
from mqclient.protocol.discovery import DiscoveryGroupConfiguration, check_endpoint
from mqclient.protocol.retry import load_balancing_policy
from mqclient.protocol.topology import Topology, TopologyListener, TopologyMember
from mqclient.wire.packets import IdCacheState
from mqclient.wire.primitives import TransportConfiguration

CONFIRMATION_SECONDS = 10.0
"""Time for which a member is kept after a new connection whose broker does not announce it.

A broker that has just started needs a while to find the others.
"""


class Locator(Closing):
    """Knows the connectors, keeps the topology that brokers announce, and opens connections.

    Instead of connectors a discovery group may be given; it listens from the first connection until the locator is closed.

    Links between brokers give ``topology``, into which announcements are merged; ``greet``, which is run on each connection between the
    preamble and the subscription to the topology, and fails it by raising an MQError; ``cluster_connection``, which is told to the broker;
    and ``follow`` false: the owner itself deals with a broker that sends its clients elsewhere.

    Shells give ``id_cache``, the question for the duplicate ids that a broker keeps of an address.

    Raises ValueError when ``connectors`` is empty, or a setting is of the wrong type or out of its range.
    """

    def __init__(
        self,
        runtime: Runtime,
        connectors: Sequence[TransportConfiguration] | DiscoveryGroupConfiguration,
        settings: LocatorSettings | None = None,
        *,
        topology: Topology | None = None,
        greet: Callable[[Connection], Awaitable[None]] | None = None,
        cluster_connection: bool = False,
        follow: bool = True,
        id_cache: Callable[[Session, str], Awaitable[IdCacheState]] = ask_id_cache,
    ) -> None:
        self._discovery: DiscoveryListener | None = None
        if isinstance(connectors, DiscoveryGroupConfiguration):
            check_endpoint(connectors.endpoint)
            self._discovery = DiscoveryListener(runtime, connectors)
            self._initial_wait = connectors.initial_wait_timeout
            connectors = ()
        elif not connectors:
            raise ValueError("a locator needs at least one connector")
        self.runtime = runtime
        self._settings = settings if settings is not None else LocatorSettings()
        check_settings(self._settings)
        self._settings = in_force(self._settings)
        self.id_cache = id_cache
        self._connectors = tuple(connectors)
        self._topology = Topology() if topology is None else topology
        self._follows_one_broker = topology is None
        self._unconfirmed: set[str] = set()
        self._confirmation: Timer | None = None
        self.greet = greet
        self.cluster_connection = cluster_connection
        self.follow = follow
        self._topology_complete = False
        self._policy = load_balancing_policy(self._settings.connection_load_balancing_policy_class_name, runtime.random_below)
        self._factories: list[SessionFactory] = []
        self._topology_listeners: list[tuple[TopologyListener, TopologyListener]] = []
        self._closed = False

    @property
    def settings(self) -> LocatorSettings:
        return self._settings

    @property
    def connectors(self) -> Sequence[TransportConfiguration]:
        """The connectors that were given, in their order, or one for each broker that was discovered."""
        return self._connectors if self._discovery is None else self._discovery.discovered.connectors()

    @property
    def topology(self) -> Topology:
        """The members that brokers have announced so far."""
        return self._topology

    def add_topology_listener(self, listener: TopologyListener) -> None:
        """Call ``listener(member, True)`` for every present member, and whenever one appears or changes; with False when one leaves.

        The listener is called in the thread of the reactor or loop.
        """

        def guarded(member: TopologyMember, up: bool) -> None:
            try:
                listener(member, up)
            except Exception as error:  # it is the application's, and must not cost the connection that brings the news
                self.runtime.log_failure("a topology listener failed", error)

        self._topology_listeners.append((listener, guarded))
        self._topology.add_listener(guarded)

    def remove_topology_listener(self, listener: TopologyListener) -> None:
        """Raises ValueError when it was not added."""
        found = next((pair for pair in self._topology_listeners if pair[0] == listener), None)
        if found is None:
            raise ValueError("this listener was not added")
        self._topology_listeners.remove(found)
        self._topology.remove_listener(found[1])

    @starts
    async def create_session_factory(self, node_id: str | None = None) -> SessionFactory:
        """Connect: to the member ``node_id`` of the topology, or to the broker that the load-balancing policy picks.

        Makes ``initial_connect_attempts`` rounds.  Raises ``NotConnectedError`` when no broker can be reached, ``ConnectionTimedOutError``
        when one does not answer, or none announces itself within the initial wait timeout of a discovery group.
        """
        if self._closed:
            raise closed_error("server locator")
        if node_id is None:
            if self._discovery is not None and not self._pairs():
                await self._discover(self._discovery)
            chosen = self._first_round()

            def first() -> Sequence[TransportConfiguration]:
                return chosen if self._discovery is None else [*chosen, *self.connectors]
        else:
            member = self._topology.get(node_id)
            known = [] if member is None else member.connectors
            if not known:
                raise NotConnectedError(f"the topology has no connector for node {node_id}")

            def first() -> Sequence[TransportConfiguration]:
                return known

        factory = SessionFactory(self, Attempts(self._settings, first, lambda: self.connectors, self._topology))
        self._factories.append(factory)
        opened = False
        try:
            await factory.open()
            opened = True
        finally:
            if not opened:
                factory.abandon()  # cancelled: the caller could not close it
        return factory

    @starts
    async def close(self) -> None:
        """Close every session factory that was made, and listen for brokers no more."""
        self._closed = True
        try:
            for factory in list(self._factories):
                await factory.close()
        finally:  # also when the call is cancelled
            for factory in list(self._factories):
                factory.abandon()
            if self._discovery is not None:
                self._discovery.stop()

    def leave(self) -> None:
        """Close all factories without waiting for the broker, also factories being opened (for links between brokers)."""
        self._closed = True
        for factory in list(self._factories):
            factory.leave()

    # --- for the factories ---

    def topology_begins(self) -> None:
        """A connection is about to announce the members, also the changes missed without a connection.

        Departed members are not announced: a member is dropped when no connection has announced it for :data:`CONFIRMATION_SECONDS`.
        """
        if not self._follows_one_broker or not self._settings.ha:
            return
        self._topology.forget_departures()
        self._unconfirmed = {member.node_id for member in self._topology}
        self._stop_confirmation()
        if self._unconfirmed:
            self._confirmation = self.runtime.call_later(CONFIRMATION_SECONDS, self._drop_unconfirmed)

    def _drop_unconfirmed(self) -> None:
        self._confirmation = None
        for node_id in self._unconfirmed:
            self._topology.drop(node_id)
        self._unconfirmed = set()

    def _stop_confirmation(self) -> None:
        if self._confirmation is not None:
            self._confirmation.cancel()
            self._confirmation = None

    def topology_received(self, packet: TopologyPacket, connector: TransportConfiguration) -> None:
        """An announcement came over a connection to ``connector``."""
        event_id = packet.unique_event_id or self.runtime.wall_clock_ms()
        if packet.exit:
            if self._settings.ha:
                self._topology.down(packet.node_id, event_id)
        else:
            self._unconfirmed.discard(packet.node_id)
            nothing_said = packet.primary is None and packet.backup is None
            self._topology.up(
                TopologyMember(
                    packet.node_id,
                    event_id,
                    connector if nothing_said else packet.primary,
                    packet.backup,
                    packet.backup_group_name,
                    packet.scale_down_group_name,
                    packet.server_version,
                )
            )
        if packet.last:
            self._topology_complete = True
        if not self._topology:
            self._topology_complete = False

    def node_left(self, node_id: str | None) -> None:
        """A broker has said goodbye."""
        if node_id is not None and self._settings.ha:
            self._topology.down(node_id, self.runtime.wall_clock_ms())

    def factory_closed(self, factory: SessionFactory) -> None:
        if factory in self._factories:
            self._factories.remove(factory)
        if not self._factories:
            self._topology_complete = False
            self._stop_confirmation()

    async def _discover(self, discovery: DiscoveryListener) -> None:
        """Wait until a broker has announced itself: ``initial_wait_timeout`` for each of the initial connect attempts."""
        attempts = self._settings.initial_connect_attempts
        left = max(attempts, 1) if attempts >= 0 else -1
        while True:
            left -= 1
            try:
                discovery.start()
                if await discovery.wait(self._initial_wait / 1000):
                    return
                error: MQError = ConnectionTimedOutError(f"AMQ219012: no broker has announced itself within {self._initial_wait} ms")
            except NotConnectedError as refusal:
                error = refusal
                if left:
                    await sleep(self.runtime, max(self._settings.retry_interval / 1000, PAUSE_MIN))
            if self._closed:
                raise closed_error("server locator")
            if left == 0:
                raise error

    def _pairs(self) -> list[tuple[TransportConfiguration, TransportConfiguration | None]]:
        """The connectors that the topology offers for new connections."""
        return self._topology.pairs() if self._settings.use_topology_for_load_balancing and self._topology_complete else []

    def _first_round(self) -> list[TransportConfiguration]:
        """The connectors to try for a new connection: the policy's choice, then the others."""
        given = list(self.connectors)
        pairs = self._pairs()
        if not pairs:
            start = self._policy.select(len(given))
            return given[start:] + given[:start]
        start = self._policy.select(len(pairs))
        found: list[TransportConfiguration] = []
        for primary, backup in pairs[start:] + pairs[:start]:
            found.append(primary)
            if backup is not None:
                found.append(backup)
        return found + given
