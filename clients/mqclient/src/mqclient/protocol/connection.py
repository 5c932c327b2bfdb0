"""The client's end of a connection without its I/O: bytes in, events out, bytes to send; the time is an argument (decision 12).

Source: ``protocol-spec/``, chapters "Transport" and "Keep-alive".  Times are seconds of a monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from mqclient.errors import ConnectionTimedOutError, MalformedPacketError, MQError, ProtocolError
from mqclient.wire.frames import (
    FRAME_SIZE_BEFORE_SESSION,
    FRAME_SIZE_MAX,
    HEADER,
    HEADER_SIZE,
    PING_CHANNEL,
    PREAMBLE,
    SESSION_CHANNEL,
    FrameSplitter,
    WholeFrame,
    frame,
)
from mqclient.wire.packets import (
    VERSION_MAX,
    ClusterTopology,
    ClusterTopologyV2,
    ClusterTopologyV3,
    ClusterTopologyV4,
    CreateSessionResponse,
    Disconnect,
    DisconnectV2,
    DisconnectV3,
    Packet,
    Ping,
    ReaderBodyChunk,
    ReaderMessages,
    SubscribeTopologyV2,
    decode_packet,
    encode_packet,
)
from mqclient.wire.primitives import TransportConfiguration

VERSION_MIN_SPOKEN = 129
"""Oldest protocol version this client speaks: that of Artemis 2.0."""

PACKETS_AS_VIEWS = frozenset((ReaderMessages.TYPE, ReaderBodyChunk.TYPE))
"""Types of packets so large that they are not copied: their frames may come in a bytearray, and their decoders keep views of it."""
ROOM_MIN = 64 * 1024
"""Bytes that must be missing of such a frame for the trouble to pay."""

TopologyPacket = ClusterTopology | ClusterTopologyV2 | ClusterTopologyV3 | ClusterTopologyV4


@dataclass(slots=True)
class FrameReceived:
    """A frame of a session's channel."""

    packet_type: int
    channel: int
    frame: bytes


@dataclass(slots=True)
class ManagementReceived:
    """A packet of channel 1, on which sessions are created."""

    packet: Packet


@dataclass(slots=True)
class TopologyReceived:
    packet: TopologyPacket


@dataclass(slots=True)
class DisconnectReceived:
    """The broker is about to close the connection.  ``connector`` is set when it sends the client elsewhere."""

    node_id: str | None
    reason: int
    target_node_id: str | None
    connector: TransportConfiguration | None


@dataclass(slots=True)
class PingSent:
    """A ping was queued; confirmations that wait are sent along with it."""


@dataclass(slots=True)
class ConnectionBroken:
    """The connection cannot go on; always the last event."""

    error: MQError


Event = FrameReceived | ManagementReceived | TopologyReceived | DisconnectReceived | PingSent | ConnectionBroken

_TOPOLOGY = (ClusterTopology, ClusterTopologyV2, ClusterTopologyV3, ClusterTopologyV4)
_REASON_SHUT_DOWN = 4
_REASON_SCALE_DOWN = 2


class CoreConnection:
    """One TCP connection to a broker.

    ``connection_ttl_ms`` (-1: never) is sent to the broker, and is the time that a peer may be silent; ``check_period_ms`` (-1: no checks)
    is the time between pings.  ``version`` is the protocol version known from an earlier connection to the same broker, 0 when unknown.
    """

    __slots__ = (
        "_awaiting_since",
        "_next_ping",
        "_outbound",
        "_period",
        "_received",
        "_splitter",
        "_ttl",
        "_ttl_ms",
        "_whole",
        "broken",
        "version",
    )

    def __init__(self, connection_ttl_ms: int, check_period_ms: int, version: int = 0) -> None:
        self.version = version
        """Version in use, 0 before the broker has told its own."""
        self.broken = False
        self._ttl_ms = connection_ttl_ms
        self._ttl: float | None = connection_ttl_ms / 1000 if connection_ttl_ms >= 0 else None
        self._period: float | None = check_period_ms / 1000 if check_period_ms > 0 else None
        self._splitter = FrameSplitter(FRAME_SIZE_BEFORE_SESSION)
        self._outbound: list[bytes] = []
        self._next_ping: float | None = None
        self._awaiting_since: float | None = None
        self._received = 0.0
        self._whole: WholeFrame | None = None

    def opened(self, now: float) -> None:
        """The link is up: queues the preamble and the first ping."""
        self._received = now
        self._outbound.append(PREAMBLE)
        self._ping(now)

    def subscribe_topology(self, cluster_connection: bool = False) -> None:
        """Ask for the topology; also tells the broker the highest version spoken here.

        ``cluster_connection``: this is the connection of a cluster connection.
        """
        self.send_packet(PING_CHANNEL, SubscribeTopologyV2(cluster_connection, VERSION_MAX))

    def allow_large_frames(self) -> None:
        """Frames may have the full size, as they may with the answer to the first session.

        A broker that reattaches a session first sends again what was not confirmed, and then its answer.
        """
        self._splitter.limit = FRAME_SIZE_MAX

    def send_packet(self, channel: int, packet: Packet) -> None:
        self._outbound.append(frame(packet.TYPE, channel, encode_packet(packet, self.version or VERSION_MAX)))

    def send_frame(self, data: bytes) -> None:
        self._outbound.append(data)

    def data_to_send(self) -> bytes:
        """The bytes queued since the last call."""
        outbound = self._outbound
        if not outbound:
            return b""
        data = outbound[0] if len(outbound) == 1 else b"".join(outbound)
        outbound.clear()
        return data

    def server_version_known(self, server_version: int) -> None:
        """The broker told its highest version."""
        self.version = min(server_version, VERSION_MAX)

    def receive_data(self, data: bytes, now: float) -> list[Event]:
        """The events in ``data``.  After :class:`ConnectionBroken` nothing more is read."""
        events: list[Event] = []
        if self.broken:
            return events
        self._received = now
        self._awaiting_since = None
        self._whole = None  # if there was one, it is finished with this data, or goes on without being asked for room
        unpack = HEADER.unpack_from
        for received in self._splitter.feed(data):
            _, packet_type, channel = unpack(received)
            if channel > SESSION_CHANNEL:
                events.append(FrameReceived(packet_type, channel, received))
            else:
                try:
                    self._connection_packet(packet_type, channel, received, events)
                except MalformedPacketError as error:
                    return self._break(events, error)
        if self._splitter.error is not None:
            return self._break(events, self._splitter.error)
        return events

    def room(self) -> memoryview | None:
        """Memory for the next bytes, instead of giving them to :meth:`receive_data`; None: use :meth:`receive_data`.

        Only for the rest of a large frame of a kind that is handed on as a view.  Follow it by :meth:`room_filled`.
        """
        if self._whole is None:
            splitter = self._splitter
            if splitter.buffered < HEADER_SIZE:
                return None
            size, packet_type, _ = splitter.announced()
            if packet_type not in PACKETS_AS_VIEWS or size - splitter.buffered < ROOM_MIN:
                return None
            self._whole = WholeFrame(size)
            splitter.continue_in(self._whole)
        return self._whole.room

    def room_filled(self, size: int, now: float) -> list[Event]:
        """So many bytes were put into the room."""
        self._received = now
        self._awaiting_since = None
        received = self._splitter.fill(size)
        if received is None:
            return []
        self._whole = None
        _, packet_type, channel = HEADER.unpack_from(received)
        return [FrameReceived(packet_type, channel, cast(bytes, received))]

    def next_timer(self) -> float | None:
        """The time at which :meth:`timer_due` must be called; None: never."""
        deadline = self._silence_deadline()
        if deadline is None:
            return self._next_ping
        return deadline if self._next_ping is None else min(deadline, self._next_ping)

    def timer_due(self, now: float) -> list[Event]:
        """Checks the peer and pings it, as far as it is time."""
        events: list[Event] = []
        if self.broken:
            return events
        deadline = self._silence_deadline()
        if deadline is not None and now >= deadline:
            silent = now - self._received
            error = ConnectionTimedOutError(f"nothing was received for {silent:.1f} s; connectionTTL is {self._ttl_ms} ms")
            return self._break(events, error)
        if self._next_ping is not None and now >= self._next_ping:
            self._ping(now)
            events.append(PingSent())
        return events

    def _ping(self, now: float) -> None:
        self.send_packet(PING_CHANNEL, Ping(self._ttl_ms))
        if self._awaiting_since is None:
            self._awaiting_since = now
        self._next_ping = None if self._period is None else now + self._period

    def _silence_deadline(self) -> float | None:
        # A ping must have been unanswered for a while, too: with a TTL below the check period nothing need arrive in between.
        if self._ttl is None or self._period is None or self._awaiting_since is None:
            return None
        return max(self._received + self._ttl, self._awaiting_since + min(self._ttl, self._period))

    def _connection_packet(self, packet_type: int, channel: int, received: bytes, events: list[Event]) -> None:
        packet = decode_packet(packet_type, received[HEADER_SIZE:], self.version or VERSION_MAX)
        if isinstance(packet, Ping):
            return
        if isinstance(packet, _TOPOLOGY):
            if isinstance(packet, ClusterTopologyV4):
                self.server_version_known(packet.server_version)
            events.append(TopologyReceived(packet))
        elif isinstance(packet, DisconnectV3):
            events.append(DisconnectReceived(packet.node_id, packet.reason, packet.target_node_id, packet.connector))
        elif isinstance(packet, DisconnectV2):
            events.append(DisconnectReceived(packet.node_id, _REASON_SCALE_DOWN, packet.scale_down_node_id, None))
        elif isinstance(packet, Disconnect):
            events.append(DisconnectReceived(packet.node_id, _REASON_SHUT_DOWN, None, None))
        elif channel == SESSION_CHANNEL:
            if isinstance(packet, CreateSessionResponse):
                self.server_version_known(packet.server_version)
                self.allow_large_frames()
            events.append(ManagementReceived(packet))

    def _break(self, events: list[Event], error: MQError | ProtocolError) -> list[Event]:
        self.broken = True
        self._next_ping = self._awaiting_since = None
        events.append(ConnectionBroken(error))
        return events
