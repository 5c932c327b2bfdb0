"""Discovery groups, and the announcements of brokers in them.

Source: ``protocol-spec/``, chapter "Discovery"; the Artemis manual, chapter "Clusters", section "Server discovery".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address

from mqclient.errors import MalformedPacketError
from mqclient.wire.primitives import Decoder, Encoder, TransportConfiguration

REFRESH_TIMEOUT_MS = 10000
INITIAL_WAIT_TIMEOUT_MS = 10000

ANNOUNCEMENT_SIZE_MAX = 65507
"""Bytes of an announcement of a broker: the greatest datagram that IPv4 carries."""

ANNOUNCED_CONNECTORS_MAX = 64
"""Connectors in one announcement."""

NODE_ID_LENGTH_MAX = 256
"""Characters of a node id or unique id in an announcement; ids have 36."""

DISCOVERED_MAX = 1000
"""Brokers that one listener keeps: any sender can invent ids."""

_FORMER_MAX = 8

_CONNECTOR_SIZE_MIN = 12  # bytes: two empty strings and no parameters
_RESERVED_GROUP = IPv4Address("224.0.0.0")


@dataclass(frozen=True, slots=True)
class UdpEndpoint:
    """A multicast group.

    ``local_bind_address`` chooses the network interface (None: the system does); ``local_bind_port`` is the port to send from, -1 = any.
    """

    group_address: str
    group_port: int
    local_bind_address: str | None = None
    local_bind_port: int = -1


@dataclass(frozen=True, slots=True)
class JGroupsEndpoint:
    """A JGroups channel; ``file`` is the name of the file that describes the protocol stack."""

    channel: str
    file: str


Endpoint = UdpEndpoint | JGroupsEndpoint


@dataclass(frozen=True, slots=True)
class DiscoveryGroupConfiguration:
    """The way a client finds its brokers: the content of a URL with ``udp://`` or ``jgroups://``.

    A broker that was not heard of for ``refresh_timeout`` ms is forgotten; the first connection waits at most ``initial_wait_timeout`` ms
    for the first announcement.
    """

    endpoint: Endpoint
    refresh_timeout: int = REFRESH_TIMEOUT_MS
    initial_wait_timeout: int = INITIAL_WAIT_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class Announcement:
    """The announcement of one broker.

    ``unique_id`` is another one each time a broker starts.  Peers keep only the last of ``connectors``; so the one that all must
    understand stands last.
    """

    node_id: str
    unique_id: str
    connectors: tuple[TransportConfiguration, ...]


def check_endpoint(endpoint: Endpoint) -> None:
    """Raise ValueError, with the reason, for an endpoint that cannot be used."""
    if isinstance(endpoint, JGroupsEndpoint):
        if not endpoint.channel:
            raise ValueError("a JGroups channel needs a name")
        if not endpoint.file:
            raise ValueError(f"the JGroups channel {endpoint.channel} needs the name of its stack file (jgroups-file, in a URL file=)")
        return
    try:
        group = IPv4Address(endpoint.group_address)
    except AddressValueError:
        raise ValueError(f"group address {endpoint.group_address!r}: expected a multicast address such as 231.7.7.7") from None
    if not group.is_multicast:
        raise ValueError(f"group address {group}: expected a multicast address, 224.0.0.1 to 239.255.255.255")
    if group == _RESERVED_GROUP:
        raise ValueError(f"group address {group} is reserved: choose one from 224.0.0.1 to 239.255.255.255")
    if not 0 < endpoint.group_port <= 65535:
        raise ValueError(f"group port {endpoint.group_port}: expected 1 to 65535")
    if endpoint.local_bind_port != -1 and not 0 <= endpoint.local_bind_port <= 65535:
        raise ValueError(f"local bind port {endpoint.local_bind_port}: expected 0 to 65535, or -1 for any")
    if endpoint.local_bind_port > 0 and not endpoint.local_bind_address:
        raise ValueError(f"local bind port {endpoint.local_bind_port}: it is specified together with a local bind address only")


def encode_announcement(node_id: str, unique_id: str, connectors: Sequence[TransportConfiguration]) -> bytes:
    """The payload that announces a broker by ``connectors``, the most important first.

    Raises ValueError when there are more than :data:`ANNOUNCED_CONNECTORS_MAX`, or the payload would not fit into a datagram.
    """
    if len(connectors) > ANNOUNCED_CONNECTORS_MAX:
        raise ValueError(f"{len(connectors)} connectors cannot be announced together: expected at most {ANNOUNCED_CONNECTORS_MAX}")
    encoder = Encoder()
    encoder.string(node_id)
    encoder.string(unique_id)
    encoder.i32(len(connectors))
    for connector in reversed(connectors):
        encoder.transport(with_texts(connector))
    if len(encoder.data) > ANNOUNCEMENT_SIZE_MAX:
        raise ValueError(f"an announcement of {len(encoder.data)} bytes does not fit into a datagram ({ANNOUNCEMENT_SIZE_MAX} bytes)")
    return bytes(encoder.data)


def decode_announcement(data: bytes) -> Announcement:
    """Read a payload; bytes after the connectors are ignored.  Raises :class:`MalformedPacketError`."""
    decoder = Decoder(data, "announcement")
    try:
        decoder.field = "node id"
        node_id = decoder.string()
        if not 0 < len(node_id) <= NODE_ID_LENGTH_MAX:
            raise decoder.fail(f"{len(node_id)} characters, expected 1 to {NODE_ID_LENGTH_MAX}")
        decoder.field = "unique id"
        unique_id = decoder.string()
        if len(unique_id) > NODE_ID_LENGTH_MAX:
            raise decoder.fail(f"{len(unique_id)} characters, expected at most {NODE_ID_LENGTH_MAX}")
        decoder.field = "connectors"
        count = decoder.count(_CONNECTOR_SIZE_MIN)
        if count > ANNOUNCED_CONNECTORS_MAX:
            raise decoder.fail(f"{count} connectors, expected at most {ANNOUNCED_CONNECTORS_MAX}")
        return Announcement(node_id, unique_id, tuple(decoder.transport() for _ in range(count)))
    except UnicodeDecodeError as error:
        raise MalformedPacketError("announcement", decoder.field, str(error)) from error


def with_texts(connector: TransportConfiguration) -> TransportConfiguration:
    """The same connector with all parameters as texts: Java peers hold a port that is a number for another place."""
    texts = tuple((key, str(value).lower() if isinstance(value, bool) else str(value)) for key, value in connector.parameters)
    return TransportConfiguration(connector.name, connector.factory_class_name, texts)


@dataclass(slots=True)
class DiscoveredBroker:
    """A broker that announces itself: ``last_seen`` in seconds of a monotonic clock, ``source`` the address it was heard from."""

    node_id: str
    unique_id: str
    connectors: tuple[TransportConfiguration, ...]
    last_seen: float
    source: str

    @property
    def connector(self) -> TransportConfiguration:
        """The one that all peers take."""
        return self.connectors[-1]


@dataclass(slots=True)
class _Identity:
    """The unique ids with which a node id was announced.  An id that comes back after another one belongs to a second broker."""

    current: str
    former: list[str] = field(default_factory=list)
    contested_at: float | None = None


class Discovered:
    """The brokers that announce themselves, on a clock that the caller brings.

    A broker that was not heard of for ``refresh_timeout_ms`` is dropped by :meth:`expire`, to be called at :meth:`next_expiry`.
    Announcements of ``own_node_id`` are not listed; with another unique id than ``own_unique_id`` they come from a second broker with the
    same node id.  ``warn`` gets sentences for the log.
    """

    def __init__(
        self, refresh_timeout_ms: int, warn: Callable[[str], None], own_node_id: str | None = None, own_unique_id: str | None = None
    ) -> None:
        self.datagrams = 0
        self.damaged = 0
        self.refused = 0
        """Announcements of brokers beyond :data:`DISCOVERED_MAX`."""
        self._refresh_timeout = refresh_timeout_ms / 1000
        self._warn = warn
        self._own_node_id = own_node_id
        self._own_unique_id = own_unique_id
        self._brokers: dict[str, DiscoveredBroker] = {}
        self._identities: dict[str, _Identity] = {}
        if own_node_id is not None and own_unique_id is not None:
            self._identities[own_node_id] = _Identity(own_unique_id)
        self.listeners: list[Callable[[], object]] = []
        """Called when a broker appeared, left or changed its connectors, and when :attr:`contested` changed."""
        self.rival_listeners: list[Callable[[TransportConfiguration], object]] = []
        """Called with the connector of a second broker with the own node id, at each of its announcements."""

    @property
    def brokers(self) -> tuple[DiscoveredBroker, ...]:
        """In the order in which they were first heard of."""
        return tuple(self._brokers.values())

    @property
    def contested(self) -> tuple[str, ...]:
        """Node ids that two brokers announce at the same time."""
        return tuple(node_id for node_id, identity in self._identities.items() if identity.contested_at is not None)

    def connectors(self) -> list[TransportConfiguration]:
        """One connector for each broker."""
        return [broker.connector for broker in self._brokers.values()]

    def received(self, data: bytes, source: str, now: float) -> bool:
        """A datagram has come; a damaged one is counted and dropped.  Returns whether it announced another broker than this one."""
        self.datagrams += 1
        try:
            said = decode_announcement(data)
        except MalformedPacketError:
            self.damaged += 1
            return False
        known = self._brokers.get(said.node_id)
        own = said.node_id == self._own_node_id
        if not own and known is None and len(self._brokers) >= DISCOVERED_MAX:
            self.refused += 1
            return False
        changed = self._identify(said, source, now)
        if not own and said.connectors:
            changed |= known is None or known.connectors != said.connectors
            self._brokers[said.node_id] = DiscoveredBroker(said.node_id, said.unique_id, said.connectors, now, source)
        if changed:
            self._tell()
        if own and said.connectors and self._own_unique_id not in (None, said.unique_id):
            for listener in list(self.rival_listeners):
                listener(said.connectors[-1])
        return not own and bool(said.connectors)

    def expire(self, now: float) -> None:
        """Drop brokers that have been silent for too long."""
        if self._drop_old(now):
            self._tell()

    def next_expiry(self) -> float | None:
        """When :meth:`expire` may have something to do; None while nothing is known."""
        due = [broker.last_seen for broker in self._brokers.values()]
        due += [identity.contested_at for identity in self._identities.values() if identity.contested_at is not None]
        return min(due) + self._refresh_timeout if due else None

    def clear(self) -> None:
        """Forget all brokers, without telling the listeners."""
        self._brokers.clear()
        for node_id in list(self._identities):
            if node_id != self._own_node_id:
                del self._identities[node_id]

    # --- inside ---

    def _identify(self, said: Announcement, source: str, now: float) -> bool:
        identity = self._identities.get(said.node_id)
        if identity is None:
            if said.connectors or said.node_id == self._own_node_id:
                self._identities[said.node_id] = _Identity(said.unique_id)
            return False
        not_ours = said.node_id == self._own_node_id and self._own_unique_id is not None and said.unique_id != self._own_unique_id
        if said.unique_id == identity.current:
            if not_ours:
                identity.contested_at = now
            return False
        second = not_ours or said.unique_id in identity.former
        self._warn(
            f"node id {said.node_id} is announced with unique id {said.unique_id} from {source}, before with {identity.current}: "
            + ("two brokers have the same node id; was a data folder copied?" if second else "the broker has started again")
        )
        identity.former = [each for each in identity.former if each not in (identity.current, said.unique_id)][1 - _FORMER_MAX :]
        identity.former.append(identity.current)
        identity.current = said.unique_id
        began = second and identity.contested_at is None
        if second:
            identity.contested_at = now
        return began

    def _drop_old(self, now: float) -> bool:
        changed = False
        for broker in self.brokers:
            if broker.last_seen + self._refresh_timeout <= now:
                del self._brokers[broker.node_id]
                self._identities.pop(broker.node_id, None)
                changed = True
        for node_id, identity in self._identities.items():
            if identity.contested_at is not None and identity.contested_at + self._refresh_timeout <= now:
                identity.contested_at = None
                identity.former.clear()
                if node_id == self._own_node_id and self._own_unique_id is not None:
                    identity.current = self._own_unique_id
                changed = True
        return changed

    def _tell(self) -> None:
        for listener in list(self.listeners):
            listener()
