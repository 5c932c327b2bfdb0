"""One link to a broker in use: feeds the protocol, hands frames to the sessions, runs the timers, opens sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any, Protocol

from mqclient.core.connection.channel import Channel
from mqclient.core.connection.cluster_channel import ClusterChannel
from mqclient.core.connection.http_link import HttpLink, link_handler
from mqclient.core.runtime import DirectLink, Link, Runtime, Timer, wait_at_most
from mqclient.core.settings import LocatorSettings
from mqclient.errors import (
    ConnectionTimedOutError,
    DisconnectedError,
    IncompatibleVersionsError,
    MalformedPacketError,
    MQError,
    NotConnectedError,
)
from mqclient.protocol.channel import SessionChannel
from mqclient.protocol.connection import (
    VERSION_MIN_SPOKEN,
    ConnectionBroken,
    CoreConnection,
    DisconnectReceived,
    Event,
    FrameReceived,
    ManagementReceived,
    PingSent,
    TopologyPacket,
    TopologyReceived,
)
from mqclient.wire.frames import CLUSTER_CHANNEL, FIRST_USER_CHANNEL, SESSION_CHANNEL
from mqclient.wire.packets import (
    VERSION_MAX,
    CheckForFailover,
    CheckForFailoverReply,
    CreateSession,
    CreateSessionResponse,
    CreateSessionV2,
    DisconnectConsumerKill,
    Packet,
    ReattachSession,
    ReattachSessionResponse,
)
from mqclient.wire.primitives import TransportConfiguration

_LINGER_SECONDS = 5.0
"""Time that closing waits for the peer to read the bytes that were written."""
_VERSION_CLIENT_ID = 131
"""From here on CREATESESSION_V2 is understood."""


class FrameHandler(Protocol):
    """A session, as its connection sees it."""

    def frame_received(self, packet_type: int, frame: bytes) -> None:
        """May raise ``MalformedPacketError``."""

    def flush_confirmations(self) -> None: ...

    def link_paused(self) -> None: ...

    def link_resumed(self) -> None: ...


class ConnectionOwner(Protocol):
    def topology_received(self, connection: Connection, packet: TopologyPacket) -> None: ...

    def connection_lost(self, connection: Connection, error: MQError, disconnect: DisconnectReceived | None) -> None:
        """Called once, after the last frame."""


class Connection:
    """``carried`` is the connection that this one replaces: version and channel numbers go on from it.

    ``greet`` and ``cluster_connection``: see :class:`mqclient.core.factories.locator.Locator`.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: LocatorSettings,
        connector: TransportConfiguration,
        owner: ConnectionOwner,
        carried: Connection | None = None,
        *,
        greet: Callable[[Connection], Awaitable[None]] | None = None,
        cluster_connection: bool = False,
    ) -> None:
        self.runtime = runtime
        self.settings = settings
        self.connector = connector
        self.protocol: CoreConnection = CoreConnection(
            settings.connection_ttl, settings.client_failure_check_period, carried.protocol.version if carried is not None else 0
        )
        self.next_channel: int = carried.next_channel if carried is not None else FIRST_USER_CHANNEL
        self.node_id: str | None = None
        self.error: MQError | None = None
        """Why the connection is over; None while it is not."""
        self.paused = False
        """Does the peer not read just now?"""
        self._owner = owner
        self._greet = greet
        self._cluster_connection = cluster_connection
        self._cluster_channel: ClusterChannel | None = None
        self._handlers: dict[int, FrameHandler] = {}
        self._link: Link | None = None
        self._direct: DirectLink | None = None
        self._connecting: Any = None
        self._timer: Timer | None = None
        self._linger: Timer | None = None
        self._topology_complete: Any = None
        self._disconnect: DisconnectReceived | None = None
        self._management = Channel(
            runtime, SessionChannel(SESSION_CHANNEL, -1, VERSION_MAX), settings.call_timeout, settings.call_failover_timeout, self.fail
        )

    # --- opening ---

    async def open(self, check_node_id: str | None, wait_for_topology: bool) -> None:
        """Connect and shake hands.

        ``check_node_id``: ask the broker first whether that node is active there; False raises ``NotConnectedError``.  Raises
        ``NotConnectedError``, ``ConnectionTimedOutError``.
        """
        timeout = self.settings.call_timeout / 1000
        # The limit on connecting is the transport's own (connect-timeout-millis); this is its default.
        connect_timeout = self.settings.connection_ttl / 1000 if self.settings.connection_ttl > 0 else timeout
        handler = link_handler(self.runtime, self.connector, self)
        self._connecting = self.runtime.connect(self.connector, handler, connect_timeout)
        link: Link = await self._connecting
        self._connecting = None
        if self.error is not None:
            link.abort()
            raise self.error
        if isinstance(handler, HttpLink):
            link = handler.over(link)
        self._link = link
        self._direct = link if isinstance(link, DirectLink) else None
        self.protocol.opened(self.runtime.now())
        self._management.attach(self.write_frame)
        self._management.unlock()
        self._set_timer()
        self.flush()
        if check_node_id is not None:
            reply: CheckForFailoverReply = await self._management.call(CheckForFailover(check_node_id), CheckForFailoverReply)
            if not reply.ok_to_failover:
                error = NotConnectedError(f"{link.peer} is not ready to take over node {check_node_id}")
                self.fail(error)
                raise error
        if self._greet is not None:
            try:
                await self._greet(self)
            except MQError as error:
                self.fail(error)
                raise
        self.protocol.subscribe_topology(self._cluster_connection)
        if wait_for_topology:
            self._topology_complete = self.runtime.create_future()
            self.flush()
            late = ConnectionTimedOutError(f"AMQ219013: {link.peer} did not send its topology within {timeout:g} s")
            try:
                await wait_at_most(self.runtime, self._topology_complete, timeout, late)
            except ConnectionTimedOutError as error:
                self.fail(error)
                raise
        else:
            self.flush()
        if self.error is not None:
            raise self.error

    @property
    def cluster_channel(self) -> ClusterChannel:
        """The channel of packets between brokers; used from the moment when the connection is greeted."""
        if self._cluster_channel is None:
            self._cluster_channel = self._handlers[CLUSTER_CHANNEL] = ClusterChannel(
                self.runtime, self.settings, self.fail, self.write_frame
            )
            if self.error is not None:
                self._cluster_channel.close(self.error)
        return self._cluster_channel

    def open_channel(self, channel: int, handler: FrameHandler) -> None:
        """Let ``handler`` have the frames of a channel of no session, by which two brokers speak."""
        self._handlers[channel] = handler

    # --- sessions ---

    async def create_session(self, request: CreateSession, handler: FrameHandler, *, recreate: bool) -> int:
        """CREATESESSION, with the version agreed on going down from the highest both know; returns the version in use.

        The channel is taken from ``request`` when a session is recreated, else a new one is used for each attempt.  Raises the error that
        the broker answers, and ``IncompatibleVersionsError`` when no version suits.
        """
        version = self.protocol.version or VERSION_MAX
        while True:
            if not recreate:
                request.session_channel_id = self.next_channel
                self.next_channel += 1
            request.version = version
            packet: Packet = request
            if not recreate and self.protocol.version >= _VERSION_CLIENT_ID:
                packet = _with_client_id(request)
            self._handlers[request.session_channel_id] = handler
            try:
                await self._management.call(packet, CreateSessionResponse)
            except IncompatibleVersionsError as error:
                self._handlers.pop(request.session_channel_id, None)
                if version <= VERSION_MIN_SPOKEN:
                    raise IncompatibleVersionsError(
                        f"the broker knows none of the protocol versions {VERSION_MIN_SPOKEN} to {VERSION_MAX}: {error}"
                    ) from error
                version -= 1
            except BaseException:
                self._handlers.pop(request.session_channel_id, None)
                raise
            else:
                return self.protocol.version

    async def reattach_session(self, name: str, channel_id: int, last_confirmed: int, handler: FrameHandler) -> ReattachSessionResponse:
        """Ask the broker to go on with a session of the connection before."""
        self._handlers[channel_id] = handler
        self.protocol.allow_large_frames()
        try:
            answer: ReattachSessionResponse = await self._management.call(ReattachSession(name, last_confirmed), ReattachSessionResponse)
        except BaseException:
            self._handlers.pop(channel_id, None)
            raise
        return answer

    def remove_session(self, channel_id: int) -> None:
        self._handlers.pop(channel_id, None)

    # --- sending ---

    def write_frame(self, data: bytes) -> None:
        link = self._link
        if link is not None and self.error is None:
            link.write(data)

    def write_frame_at_once(self, data: bytes) -> None:
        """As :meth:`write_frame`, for a short frame that the peer waits for."""
        if self._direct is not None and self.error is None:
            self._direct.write_at_once(data)
        else:
            self.write_frame(data)

    def flush(self) -> None:
        """Write the output that the protocol has queued."""
        data = self.protocol.data_to_send()
        if data:
            self.write_frame(data)

    # --- link ---

    def data_received(self, data: bytes) -> None:
        if self.error is not None:
            return
        self._handle_all(self.protocol.receive_data(data, self.runtime.now()))

    def room(self) -> memoryview | None:
        return self.protocol.room() if self.error is None else None

    def room_filled(self, size: int) -> None:
        self._handle_all(self.protocol.room_filled(size, self.runtime.now()))

    def link_lost(self, reason: str) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self.fail(NotConnectedError(f"the connection to {self._peer()} was lost: {reason}"))

    def link_paused(self) -> None:
        self.paused = True
        for handler in list(self._handlers.values()):
            handler.link_paused()

    def link_resumed(self) -> None:
        self.paused = False
        for handler in list(self._handlers.values()):
            handler.link_resumed()

    # --- end ---

    def fail(self, error: MQError) -> None:
        """The connection cannot be used any more."""
        if self.error is not None:
            return
        self._end(error)
        if self._link is not None:
            self._link.abort()
        self._owner.connection_lost(self, error, self._disconnect)

    def close(self) -> None:
        """Close in an orderly way; the owner is not told."""
        if self.error is None:
            self._end(DisconnectedError("the connection was closed"))
            if self._link is not None:
                # A peer that reads nothing more would keep the socket open for many minutes.
                self._linger = self.runtime.call_later(_LINGER_SECONDS, self._stop_lingering)
                self._link.close()

    def give_up(self) -> None:
        """Stop opening the connection: waiting callers fail."""
        connecting, self._connecting = self._connecting, None
        if self._link is not None:
            self.fail(DisconnectedError("the connection was closed while it was opened"))
        elif connecting is not None:
            connecting.cancel()

    def _stop_lingering(self) -> None:
        self._linger = None
        if self._link is not None:
            self._link.abort()

    def _end(self, error: MQError) -> None:
        self.error = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._management.close(error, error)
        if self._cluster_channel is not None:
            self._cluster_channel.close(error)
        if self._topology_complete is not None:
            self.runtime.reject(self._topology_complete, error)

    # --- inside ---

    def _handle_all(self, events: list[Event]) -> None:
        try:
            for event in events:
                if self.error is None:
                    self._handle(event)
        except MalformedPacketError as error:
            self.fail(error)
        self.flush()

    def _handle(self, event: object) -> None:
        if isinstance(event, FrameReceived):
            handler = self._handlers.get(event.channel)
            if handler is not None:
                handler.frame_received(event.packet_type, event.frame)
        elif isinstance(event, ManagementReceived):
            if isinstance(event.packet, DisconnectConsumerKill):
                self.runtime.log_warning(f"{self._peer()} ends this connection because a consumer is too slow (slow-consumer-policy KILL)")
            else:
                self._management.answered(event.packet)
        elif isinstance(event, TopologyReceived):
            self._owner.topology_received(self, event.packet)
            if event.packet.last and self._topology_complete is not None:
                self.runtime.resolve(self._topology_complete, None)
        elif isinstance(event, PingSent):
            for session in list(self._handlers.values()):
                session.flush_confirmations()
        elif isinstance(event, DisconnectReceived):
            self._disconnect = event
            self.fail(DisconnectedError(f"{self._peer()} has disconnected this client (reason {event.reason}: {_reason(event)})"))
        elif isinstance(event, ConnectionBroken):
            self.fail(event.error)

    def _set_timer(self) -> None:
        due = self.protocol.next_timer()
        self._timer = None
        if due is not None:
            self._timer = self.runtime.call_later(max(due - self.runtime.now(), 0.0), self._timer_due)

    def _timer_due(self) -> None:
        # A process that stood still has the peer's answers in its socket: they are read before the peer counts as silent.
        self._timer = self.runtime.call_later(0, self._check_peer)

    def _check_peer(self) -> None:
        self._timer = None
        for event in self.protocol.timer_due(self.runtime.now()):
            self._handle(event)
        if self.error is None:
            self.flush()
            self._set_timer()

    def _peer(self) -> str:
        return self._link.peer if self._link is not None else describe(self.connector)


def _with_client_id(request: CreateSession) -> CreateSessionV2:
    return CreateSessionV2(*(getattr(request, entry.name) for entry in fields(CreateSession)))


def _reason(event: DisconnectReceived) -> str:
    names = {0: "sent elsewhere", 2: "scaled down or stopped", 4: "stopped"}
    return names.get(event.reason & ~1, "not given") if event.reason >= 0 else "not given"


def describe(connector: TransportConfiguration) -> str:
    """Host and port of a connector, for messages; of one within the process its URL."""
    values = dict(connector.parameters)
    if "serverId" in values:
        return f"vm://{values['serverId']}"
    return f"{values.get('host', 'localhost')}:{values.get('port', 61616)}"
