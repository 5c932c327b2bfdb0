"""One client connection: frames in and out, back-pressure, and orderly or sudden ends.

This module is longer than others, because one object has the way of each packet and every decision about a connection's end.

The connection knows no Twisted: the owner of the socket passes in a transport, and calls :meth:`ServerConnection.received` and
:meth:`ServerConnection.lost`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.server.transport.farewell import disconnect_for
from mqbroker.server.transport.handshake import Handshake
from mqbroker.server.transport.limits import COSTLY_FILTER_LENGTH, FILTER_PAUSE_SECONDS, REFUSALS_MAX, REQUESTS_MAX, REQUESTS_SECONDS
from mqbroker.server.transport.liveness import Liveness
from mqbroker.server.transport.naming import Naming
from mqbroker.server.transport.partial_frames import PartialFrame
from mqclient.errors import MalformedPacketError, MQError, ProtocolError
from mqclient.wire.frames import (
    CLUSTER_CHANNEL,
    FIRST_USER_CHANNEL,
    FRAME_SIZE_BEFORE_SESSION,
    PING_CHANNEL,
    REPLICATION_CHANNEL,
    SESSION_CHANNEL,
    FrameSplitter,
    frame,
)
from mqclient.wire.packets import (
    DisconnectConsumerKill,
    DisconnectV3,
    ExceptionResponse,
    NullResponse,
    Packet,
    PacketsConfirmed,
    Ping,
    SessionClose,
    encode_packet,
)

if TYPE_CHECKING:
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.server.transport.connection_owner import BrokerLink, ConnectionOwner
    from mqbroker.server.transport.connection_session import ConnectionSession

CONTROL_CHANNELS = frozenset((PING_CHANNEL, SESSION_CHANNEL, REPLICATION_CHANNEL, CLUSTER_CHANNEL))
"""Channels of no session."""

_OF_FORMER_SESSIONS = frozenset((PacketsConfirmed.TYPE, SessionClose.TYPE))
"""Packets that a Java client, which fails over, sends for a session before it has made it anew, also before its login.

A timer of the client confirms what the session has received.  Were the connection to end then, the client would wait for every session as
long as its call-timeout.
"""

FLUSH_BYTES = 256 * 1024
"""Bytes of output that are gathered in one turn; with more the output goes to the transport at once, so that its back-pressure is felt."""

_TYPE_CHANNEL = struct.Struct(">bq")

log = Logger(namespace="mqbroker.server")


class ConnectionTransport(Protocol):
    """The socket of a connection."""

    def writeSequence(self, data: list[bytes]) -> None: ...

    def loseConnection(self) -> None: ...

    def abortConnection(self) -> None: ...

    def pauseProducing(self) -> None: ...

    def resumeProducing(self) -> None: ...


class ServerConnection:
    """A connection of a client or of another broker.

    ``version`` is the protocol version that the peer declared (0 = not yet), ``security_domain`` the entry of login.config for this peer
    (None = the broker's own), ``logged_in`` whether it has ever had a session.  ``cluster_connection`` names the cluster connection whose
    topology the peer gets (None = the default one), and ``cluster_authorized`` says whether the peer has shown the cluster's password.
    ``product`` is what a broker has said it is, and ``link`` how it uses the channel of replication (None = it does not).
    ``control`` handles a frame of one of :data:`CONTROL_CHANNELS`, given with its type and channel; ``not_heard`` is told when the peer is
    held back.
    """

    __slots__ = (
        "_again",
        "_control",
        "_handshake",
        "_not_heard",
        "_out",
        "_out_bytes",
        "_partial",
        "_pauses",
        "_reading",
        "_requests",
        "_requests_until",
        "_splitter",
        "_transport",
        "_waiting_frames",
        "certificate",
        "client_id",
        "closed",
        "cluster_authorized",
        "cluster_connection",
        "connection_id",
        "created_ms",
        "flush_due",
        "frozen",
        "held_back",
        "link",
        "liveness",
        "logged_in",
        "naming",
        "product",
        "refusals",
        "remote",
        "security_domain",
        "server",
        "sessions",
        "temporary_queues",
        "transport_lost",
        "version",
        "writable",
    )

    def __init__(
        self,
        server: ConnectionOwner,
        control: Callable[[ServerConnection, int, int, bytes], None],
        not_heard: Callable[[ServerConnection], None],
        transport: ConnectionTransport,
        connection_id: str,
        remote: str,
        naming: Naming,
        certificate: object,
        handshake_timeout_seconds: float,
        security_domain: str | None,
        cluster_connection: str | None = None,
    ) -> None:
        self.server = server
        self._control = control
        self._not_heard = not_heard
        self.connection_id = connection_id
        self.remote = remote
        self.naming = naming
        self.certificate = certificate
        self.security_domain = security_domain
        self.cluster_connection = cluster_connection
        self.cluster_authorized = False
        self.product: str | None = None
        self.link: BrokerLink | None = None
        self.frozen = False
        self.version = 0
        self.client_id: str | None = None
        self.created_ms = server.clock.wall_ms()
        self.liveness = Liveness(self, server.default_ttl_ms, server.clock.monotonic())
        self.writable = True
        self.logged_in = False
        self.refusals = self.held_back = 0
        self.closed = self.transport_lost = False
        self.sessions: dict[int, ConnectionSession] = {}
        self.temporary_queues: dict[Queue, None] = {}
        self.flush_due = False
        self._transport = transport
        self._splitter = FrameSplitter(FRAME_SIZE_BEFORE_SESSION)
        self._partial = PartialFrame(server.partial_frames, self._splitter)
        self._handshake: Handshake | None = Handshake(server.clock, self.fail, handshake_timeout_seconds)
        self._waiting_frames: list[bytes] = []
        self._pauses, self._again, self._reading = 0, False, True
        self._requests, self._requests_until = 0, 0.0
        self._out: list[bytes] = []
        self._out_bytes = 0

    def wrap_transport(self, wrap: Callable[[ConnectionTransport], ConnectionTransport]) -> None:
        """Replace the transport by ``wrap(transport)``; allowed before the first byte is received or sent."""
        self._transport = wrap(self._transport)

    # --- input

    def received(self, data: bytes) -> None:
        """Bytes from the peer."""
        self.server.turn.run(self._received, data)

    def _received(self, data: bytes) -> None:
        if self.closed:
            return
        if self._handshake is not None:
            rest = self._handshake.feed(data)
            if rest is None:
                return
            self._end_handshake()
            data = rest
        splitter = self._splitter
        try:
            frames = splitter.feed(data)
            if splitter.buffered > FRAME_SIZE_BEFORE_SESSION or self._partial.held:
                self._partial.account(self.sessions)
        except ProtocolError as error:
            self.fail(f"AMQ222067: {error}")
            return
        if frames:
            self.liveness.seen = True
        else:
            self.liveness.unframed(len(data))
        if self._pauses or not self.writable or self.held_back:
            self._waiting_frames.extend(frames)
        else:
            self._handle_frames(frames)
        if splitter.error is not None and not self.closed:
            self.fail(f"AMQ222067: {splitter.error}")

    def _handle_frames(self, frames: list[bytes]) -> None:
        sessions = self.sessions
        self._requests = 0
        index = 0
        while index < len(frames):
            data = frames[index]
            head: tuple[int, int] = _TYPE_CHANNEL.unpack_from(data, 4)
            packet_type, channel = head
            try:
                session = sessions.get(channel)
                if session is not None:
                    index = session.handle_some(packet_type, frames, index) - 1
                elif channel in CONTROL_CHANNELS:
                    self._control(self, packet_type, channel, data)
                    self.request_handled()
                elif channel < FIRST_USER_CHANNEL or not (self.logged_in or packet_type in _OF_FORMER_SESSIONS):
                    raise MalformedPacketError("frame", "channel", f"{channel} is not a channel of a session")
                elif packet_type == SessionClose.TYPE:
                    # A Java client does not make a session anew that it closes while it fails over, but waits for this answer.
                    self.send(NullResponse(-1), channel)
                    self.request_handled()
            except ProtocolError as error:
                self.fail(f"AMQ222067: {error}")
            except Exception:
                self._log_failure(packet_type)
                self.fail("internal error")
            if self.closed:
                return
            if self._pauses or not self.writable or self.held_back:
                following = index if self._again else index + 1
                self._again = False
                self._waiting_frames = [*frames[following:], *self._waiting_frames]
                return
            index += 1

    def _end_handshake(self) -> None:
        handshake, self._handshake = self._handshake, None
        if handshake is not None:
            handshake.end()

    def _log_failure(self, packet_type: int) -> None:
        text = "connection {id} from {remote}: unexpected failure in packet {type}"
        failure = Failure()  # type: ignore[no-untyped-call]
        self.server.reasons.failure(
            self.remote,
            f"unexpected failure: {failure.type}",
            lambda: log.failure(text, failure, id=self.connection_id, remote=self.remote, type=packet_type),
        )

    # --- the protocol

    def declare_version(self, version: int) -> None:
        """The peer speaks this protocol version; the first declaration holds."""
        if not self.version:
            self.version = min(version, self.server.version)

    def admit(self, product: str | None) -> None:
        """The peer is a broker of the cluster."""
        self.cluster_authorized, self.product = True, product

    def allow_large_frames(self) -> None:
        """A session exists: frames may now have the full size."""
        self.logged_in = True
        self._splitter.limit = self.server.frame_size_max

    def pause_frames(self) -> Callable[[], None]:
        """Stop handling packets, to wait for an answer, until the returned function is called.

        Calls nest: packets are handled again once every returned function was called.
        """
        self._pauses += 1
        self._update_reading()

        def resume() -> None:
            self.server.turn.run(self._resume_frames)

        return resume

    def _resume_frames(self) -> None:
        self._pauses -= 1
        self._handle_waiting()

    def _handle_waiting(self) -> None:
        """Handle the frames that had to wait."""
        if self.closed:
            return
        if self._waiting_frames and self.writable and not self._pauses and not self.held_back:
            frames, self._waiting_frames = self._waiting_frames, []
            self._handle_frames(frames)
        self._update_reading()

    def hold_back(self) -> None:
        """Stop reading without counting the peer as silent (TTL).  Calls nest: one :meth:`hear_again` each."""
        self.held_back += 1
        if self.held_back == 1:
            self._not_heard(self)
        self._update_reading()

    def hear_again(self) -> None:
        self.held_back -= 1
        self.server.turn.run(self._handle_waiting)

    def put_off(self) -> Callable[[], None]:
        """Handle the current frame again, before any other, once the returned function is called.  Until then the peer counts as alive."""
        self._again = True
        self.hold_back()
        return self.hear_again

    def yield_turn(self, seconds: float = 0.0) -> None:
        """After a costly request: serve other peers before this peer's next request, which waits for ``seconds`` at least."""
        self.hold_back()
        self.server.clock.call_later(seconds, self.hear_again)

    def filter_read(self, text: str | None) -> None:
        """After a request with a filter: a pause that grows with its length, so that one peer cannot use more than a share of the loop."""
        if text is not None and len(text) > COSTLY_FILTER_LENGTH:
            self.yield_turn(len(text) * FILTER_PAUSE_SECONDS)

    def request_handled(self) -> None:
        """After a request other than a send or an acknowledgement: pause when there were many in one turn."""
        now = self.server.clock.monotonic()
        if not self._requests:
            self._requests_until = now + REQUESTS_SECONDS
        self._requests += 1
        if self._requests == REQUESTS_MAX or now > self._requests_until:
            self.yield_turn()

    # --- output

    def send(self, packet: Packet, channel: int) -> bytes:
        """Send a packet; returns its frame."""
        data = frame(packet.TYPE, channel, encode_packet(packet, self.version or self.server.version))
        self.send_frame(data)
        return data

    def send_frame(self, data: bytes) -> None:
        """Send a complete frame at the end of the turn."""
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes >= FLUSH_BYTES:
            self.flush()
        elif not self.flush_due:
            self.server.turn.mark_output(self)

    def send_parts(self, parts: Sequence[bytes], size: int) -> None:
        """Send whole frames that are given in parts."""
        self._out.extend(parts)
        self._out_bytes += size
        if self._out_bytes >= FLUSH_BYTES:
            self.flush()
        elif not self.flush_due:
            self.server.turn.mark_output(self)

    def flush(self) -> None:
        """Hand the gathered output to the transport."""
        if self._out:
            out, self._out = self._out, []
            self._out_bytes = 0
            if not self.transport_lost:
                self._transport.writeSequence(out)

    # --- back-pressure: the transport tells when its buffer is full and when it has room again

    def use_for(self, link: BrokerLink) -> None:
        """The peer is a broker that gets the frames of ``link``, which bounds them itself.  :meth:`Connections.stop` leaves it."""
        self.link = link

    def pause_output(self) -> None:
        """The peer does not read fast enough: deliver no messages, and handle no requests, as their answers would wait."""
        if self.link is not None:
            return
        self.writable = False
        for session in list(self.sessions.values()):
            session.writable_changed()
        self._update_reading()

    def resume_output(self) -> None:
        self.server.turn.run(self._resume_output)

    def _resume_output(self) -> None:
        self.writable = True
        for session in list(self.sessions.values()):
            session.writable_changed()
        self.server.connection_writable(self)
        self._handle_waiting()

    def _update_reading(self) -> None:
        wanted = self.writable and not self.frozen and not self._pauses and not self.held_back and not self._waiting_frames
        if wanted != self._reading and not self.transport_lost:
            self._reading = wanted
            if wanted:
                self._transport.resumeProducing()
            else:
                self._transport.pauseProducing()

    def freeze(self) -> None:
        """Read nothing more; frames that were read already are handled."""
        self.frozen = True
        self._update_reading()

    # --- liveness

    def check_alive(self, now: float) -> None:
        """Called every ``connection-ttl-check-interval``; ``now`` is the monotonic clock in seconds."""
        if self.held_back and not self.transport_lost:
            self.liveness.seen = True
        reason = self.liveness.check(now)
        if reason is not None:
            self.fail(reason)
            return
        for session in list(self.sessions.values()):
            session.flush_confirmations()

    def show_life(self) -> None:
        """The peer's pings wait behind its other frames, so they cannot be answered: send a sign of life instead."""
        self.send(Ping(self.liveness.ttl_ms), PING_CHANNEL)

    @property
    def buffered(self) -> int:
        """Bytes of a frame that is not complete."""
        return self._splitter.incomplete

    # --- the end

    def lost(self, reason: str) -> None:
        """The socket is gone.  Sessions that can be reattached wait for their client until the TTL has passed."""
        self.server.turn.run(self._lost, reason)

    def _lost(self, reason: str) -> None:
        self.transport_lost = True
        if self.closed:
            return
        self._partial.drop()
        self._end_handshake()
        if any(session.reattachable for session in self.sessions.values()):
            self.pause_output()
            for session in list(self.sessions.values()):
                if not session.reattachable:
                    session.refuse_reattachment()
            return
        self._end(
            f"AMQ222061: Client connection failed, clearing up resources for sessions of {self.remote}: {reason}" if self.sessions else ""
        )

    def fail(self, reason: str) -> None:
        """Give the connection up: sessions end as after a failure, and the socket is closed without notice."""
        if self.closed:
            return
        self._end(f"{reason} (connection {self.connection_id} from {self.remote})")
        self.flush()
        if not self.transport_lost:
            self._transport.abortConnection()

    def refuse(self, error: MQError) -> MQError:
        """Count a request beyond a limit of the connection; after :data:`REFUSALS_MAX` of them the connection ends.  Returns ``error``."""
        self.refusals += 1
        if self.refusals == REFUSALS_MAX:
            self.fail_soon(f"a limit of the connection is exceeded again and again: {error}")
        return error

    def report(self, reason: str) -> None:
        """Log a request that failed and that the peer does not wait for."""
        self.server.reasons.info(self.remote, f"{reason} (connection {self.connection_id} from {self.remote})")

    def fail_soon(self, reason: str, seconds: float = 0.0) -> None:
        """Give the connection up once the present work is done, or after ``seconds``."""
        self.server.clock.call_later(seconds, self.server.turn.run, self.fail, reason)

    def end_slow_consumer(self, reason: str) -> None:
        """Say that a consumer is too slow (``slow-consumer-policy`` KILL), and give the connection up."""
        if self.closed:
            return
        if self.version >= DisconnectConsumerKill.SINCE:
            self.send(DisconnectConsumerKill(self.server.node_id), SESSION_CHANNEL)
        self.fail_soon(reason)  # not at once: the notice would not be sent

    def disconnect(self, packet: DisconnectV3) -> None:
        """Say goodbye and close; the client may reconnect elsewhere."""
        if self.closed:
            return
        for session in self.sessions.values():
            session.flush_confirmations()
        self.send(disconnect_for(self.version, packet), PING_CHANNEL)
        self.flush()
        self._end("")
        if not self.transport_lost:
            self._transport.loseConnection()

    def superseded(self) -> None:
        """The client has reconnected; the new connection has all sessions now."""
        self._end("")
        if not self.transport_lost:
            self._transport.abortConnection()

    def left(self) -> None:
        """The client has reconnected, and asks for its sessions: all that cannot be reattached end, in one turn, and the others wait."""
        if not any(session.reattachable for session in self.sessions.values()):
            self.superseded()
            return
        if not self.transport_lost:
            self._transport.abortConnection()
        self._lost("")

    def adopt_resources(self, other: ServerConnection) -> None:
        """Take over the temporary queues and client id of ``other``, the former connection of this client."""
        self.temporary_queues |= other.temporary_queues
        other.temporary_queues = {}
        if self.client_id is None:
            self.client_id = other.client_id

    def _end(self, reason: str) -> None:
        self.closed = True
        self._partial.drop()
        self._end_handshake()
        if reason:
            self.server.reasons.warn(self.remote, reason)
        for session in list(self.sessions.values()):
            try:
                session.end(failed=True)
            except Exception:
                log.failure("closing session {name} failed", name=session.name)
        self.sessions.clear()
        self._waiting_frames.clear()
        if self.link is not None:
            self.link.ended(reason)
        self.server.connection_ended(self)

    def reject(self, error: MQError, channel: int) -> None:
        """Answer a request of channel 1 with an error; the connection stays open."""
        self.send(ExceptionResponse(error.code, str(error)), channel)
