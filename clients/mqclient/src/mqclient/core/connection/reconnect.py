"""The choice of the connectors to try next, and of the time to stop.

Source: ``protocol-spec/``, chapters "Topology" (the members that a client keeps) and "Client failover".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqclient.core.settings import LocatorSettings
from mqclient.protocol.connection import TopologyPacket
from mqclient.protocol.retry import RetryPlan
from mqclient.protocol.topology import Topology, distinct, same_connector, same_place
from mqclient.wire.primitives import TransportConfiguration


class Attempts:
    """The attempts of one session factory.

    ``first`` gives the connectors of a round of the first connection, in order and at least one; ``own`` gives the connectors of the
    application or of discovery, which replace announced ones of the same name.  Both may give other connectors each time.
    """

    def __init__(
        self,
        settings: LocatorSettings,
        first: Callable[[], Sequence[TransportConfiguration]],
        own: Callable[[], Sequence[TransportConfiguration]],
        topology: Topology,
    ) -> None:
        self.current = first()[0]
        self.node_id: str | None = None
        self._settings = settings
        self._first = first
        self._own = own
        self._topology = topology
        self._heard: dict[str, tuple[TransportConfiguration | None, TransportConfiguration | None]] = {}
        """The announcements over the latest connection: primary and backup by node id."""
        self._backup: TransportConfiguration | None = None
        self._previous: TransportConfiguration | None = None
        self._initial = self.current
        self._redirect: TransportConfiguration | None = None
        self._target: str | None = None
        """Node id of the broker that has taken over the messages of the one that was left."""
        self._plans = [self._plan(max(settings.initial_connect_attempts, 1) if settings.initial_connect_attempts >= 0 else -1)]
        self._connected = False
        self._replacing = False
        """Is a connection being opened in the place of a lost one?"""
        self._elsewhere = False
        """Are the attempts at the own pair used up?"""

    def candidates(self) -> list[TransportConfiguration]:
        """The connectors of the round that comes now, in order and without repetition."""
        if not self._connected:
            return distinct(self._first())
        if len(self._plans) == 1 and self._elsewhere:
            return distinct(self._of_node(self._target) + self._others())
        found: list[TransportConfiguration | None] = [self._redirect, *self._of_node(self._target), self.current]
        if self._backup is not None:
            found += [self._own_named(self._backup.name), self._backup]
        # The node may live elsewhere by now, as another connection of the locator has heard.
        found += [each for each in self._of_node(self.node_id) if not any(same_place(each, known) for known in found)]
        found += [self._previous, self._initial]
        if self.node_id is not None and (self._settings.exactly_once or (self._settings.ha and self._backup is None)):
            # The node's backup may have taken over before it was announced.  Each broker is asked first whether it is this node.
            found += self._own()
        return distinct([connector for connector in found if connector is not None])

    def failed(self) -> float | None:
        """The round has failed: seconds to wait before the next, None when that was the last."""
        pause = self._plans[0].failed()
        while self._plans and self._plans[0].exhausted:
            if len(self._plans) == 1:
                return None
            self._plans.pop(0)
            self._elsewhere = True
        return pause

    def wants_reconnect(self) -> bool:
        """Do the settings ask to reconnect after a failure?  A broker that sends the client elsewhere is always followed."""
        settings = self._settings
        return bool(settings.reconnect_attempts or settings.failover_attempts or self._redirect is not None)

    def begin_reconnect(self) -> None:
        settings = self._settings
        self._elsewhere = False
        reconnect = settings.reconnect_attempts
        if reconnect == 0 and self._redirect is not None:
            reconnect = 1
        self._plans = []
        if reconnect:
            self._plans.append(self._plan(reconnect))
        if settings.failover_attempts:
            self._elsewhere = not reconnect
            self._plans.append(self._plan(settings.failover_attempts))

    def redirected(self, connector: TransportConfiguration | None) -> None:
        """The broker has sent the client to ``connector`` (None: nowhere in particular)."""
        if connector is not None:
            self._redirect = connector

    def scaled_down(self, target_node_id: str | None) -> None:
        """The broker has given its messages to another one, which is tried first now."""
        self._target = target_node_id

    def begins(self) -> None:
        """A connection is opened; what others have announced may not be so any more."""
        self._heard.clear()
        self._replacing = self._connected

    def succeeded(self, connector: TransportConfiguration) -> None:
        """The connection to ``connector`` is up.

        Its announcements say which node that is, if they have come; a broker that has taken over the node of this client is that node for
        it, and was known as another one before.
        """
        self._connected = True
        self._replacing = False
        if not same_connector(connector, self.current):
            self._previous = self.current
            self._backup = None
        self.current = connector
        if any(same_place(primary, connector) for primary, _ in self._heard.values()):
            for node_id, (primary, backup) in self._heard.items():
                self._learn(node_id, primary, backup)
            return
        for member in self._topology:
            self._learn(member.node_id, member.primary, member.backup)

    def settled(self) -> None:
        """The sessions live on the connection."""
        self._redirect = self._target = None

    def topology_received(self, packet: TopologyPacket, connector: TransportConfiguration) -> None:
        """An announcement came over the connection to ``connector``."""
        if packet.exit:
            self._heard.pop(packet.node_id, None)
            return
        primary = connector if packet.primary is None and packet.backup is None else packet.primary
        self._heard[packet.node_id] = primary, packet.backup
        if not self._connected:
            self.current = connector
        if not self._replacing:
            # Meanwhile another node may be where the lost one was: the client goes on asking for its own.
            self._learn(packet.node_id, primary, packet.backup)

    def nodes_there(self) -> list[str]:
        """The node ids that the broker of the latest connection has announced at its place: its own, and perhaps that of a former node."""
        return [node_id for node_id, (primary, _) in self._heard.items() if same_place(primary, self.current)]

    def _plan(self, attempts: int) -> RetryPlan:
        settings = self._settings
        return RetryPlan(settings.retry_interval, settings.retry_interval_multiplier, settings.max_retry_interval, attempts)

    def _learn(self, node_id: str, primary: TransportConfiguration | None, backup: TransportConfiguration | None) -> None:
        if not same_place(primary, self.current):
            return
        self.node_id = node_id
        if backup is not None and not same_place(backup, self.current):
            self._backup = backup

    def _own_named(self, name: str) -> TransportConfiguration | None:
        return next((connector for connector in self._own() if connector.name == name), None)

    def _of_node(self, node_id: str | None) -> list[TransportConfiguration]:
        member = self._topology.get(node_id) if node_id is not None else None
        return [] if member is None else member.connectors

    def _others(self) -> list[TransportConfiguration]:
        """All known brokers but the pair that was lost; where the topology does not count, the given ones from the lost one on."""
        found: list[TransportConfiguration] = []
        if not self._settings.use_topology_for_load_balancing and len(self._own()) > 1:
            return self._given_in_turn()
        pairs = self._topology.pairs() or [(connector, None) for connector in self._own()]
        for primary, backup in pairs:
            found += [connector for connector in (primary, backup) if connector is not None]
        lost = (self.current, self._backup)
        return distinct([connector for connector in found if not any(same_place(connector, entry) for entry in lost)]) or [self.current]

    def _given_in_turn(self) -> list[TransportConfiguration]:
        """All given connectors, first the one after the lost one, and that one last."""
        own = list(self._own())
        place = next((number for number, each in enumerate(own) if same_place(each, self.current)), len(own) - 1)
        return own[place + 1 :] + own[: place + 1]
