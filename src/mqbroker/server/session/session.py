"""A session: what a client does on one channel.

The session itself dispatches packets and keeps replies in order; sending, consuming, transactions and administration are objects of
their own that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.routing.grouping import Undecided
from mqbroker.messaging.turns.context import OperationContext
from mqbroker.server.security.permissions import SessionPermissions
from mqbroker.server.session import acknowledgements
from mqbroker.server.session.acknowledgements import SessionAcknowledgements
from mqbroker.server.session.control import SessionControl
from mqbroker.server.session.queue_admin import SessionAdministration
from mqbroker.server.session.readers import SessionReaders
from mqbroker.server.session.sends import SessionSends
from mqbroker.server.session.session_consumers import SessionConsumers
from mqbroker.server.session.xa import SessionBranches
from mqbroker.server.transport.limits import check_control_size
from mqclient.errors import MQError, NotImplementedByBrokerError, ProtocolError, QueueExistsError
from mqclient.protocol.window import ConfirmationWindow
from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.hot import VERSION_CORRELATION
from mqclient.wire.packets import ExceptionResponse, NullResponse, Packet, PacketsConfirmed, decode_packet, encode_packet

if TYPE_CHECKING:
    from mqbroker.server.security.security import Subject
    from mqbroker.server.transport.connection import ServerConnection

CHUNK_SIZE_MAX = 1024 * 1024
"""Bytes of a large message that are read from the disk and sent at a time, whatever chunk size the client asks for."""

_SEND = wire.SessionSend.TYPE
_ACKNOWLEDGE = wire.Acknowledge.TYPE

_Table = Mapping[int, tuple[str, Callable[[Any, Any], object]]]
"""By packet type: the attribute of a session whose object handles it, and the function."""

_FAST: _Table = {
    _SEND: ("sends", SessionSends.send),
    _ACKNOWLEDGE: ("acknowledgements", SessionAcknowledgements.acknowledge),
    wire.IndividualAcknowledge.TYPE: ("acknowledgements", SessionAcknowledgements.acknowledge_one),
    wire.FlowToken.TYPE: ("consumers", SessionConsumers.flow_token),
}
"""These take whole frames."""

_HANDLERS: _Table = {
    packet_type: (part, handler)
    for part, table in (
        ("sends", SessionSends.HANDLERS),
        ("consumers", SessionConsumers.HANDLERS),
        ("acknowledgements", acknowledgements.HANDLERS),
        ("administration", SessionAdministration.HANDLERS),
        ("branches", SessionBranches.HANDLERS),
        ("readers", SessionReaders.HANDLERS),
        ("control", SessionControl.HANDLERS),
    )
    for packet_type, handler in table.items()
}

_WITH_MESSAGE = frozenset((wire.SessionSendLarge.TYPE, wire.SessionSendContinuation.TYPE))
"""What is not among the fast packets and carries messages."""

UNCONFIRMED_MAX = 64 * 1024 * 1024
"""Bytes beside twice the confirmation window that are kept for a peer which does not confirm them."""

KEPT_MAX = 128 * 1024 * 1024
"""Bytes of unconfirmed packets that are kept for all sessions of one connection, whatever confirmation windows it has asked for.

A session that would need more goes on without: it cannot be reattached then.
"""

_KEPT_STEP = 64 * 1024
"""Bytes after which a session looks at that sum again."""


class ServerSession:
    """One session of a connection.

    ``min_large_message_size`` (bytes) is also the chunk size of large deliveries; ``window`` is None without a confirmation window;
    ``reattachable`` tells whether all that a client may have missed is kept; ``transaction`` collects what is not committed at once.
    """

    __slots__ = (
        "_check_kept_at",
        "_counted_size",
        "_given_up",
        "_unconfirmed_max",
        "acknowledgements",
        "administration",
        "auto_commit_acks",
        "auto_commit_sends",
        "branches",
        "channel",
        "closed",
        "connection",
        "consumers",
        "context",
        "control",
        "created_ms",
        "metadata",
        "min_large_message_size",
        "name",
        "permissions",
        "pre_acknowledge",
        "readers",
        "reattachable",
        "sends",
        "server",
        "started",
        "subject",
        "transaction",
        "version",
        "window",
        "xa",
    )

    def __init__(self, connection: ServerConnection, request: wire.CreateSession, subject: Subject, version: int) -> None:
        self.connection = connection
        self.server = connection.server
        self.name = request.name
        self.channel = request.session_channel_id
        self.subject = subject
        self.version = version
        self.created_ms = self.server.clock.wall_ms()
        self.xa = request.xa
        # Outside of a branch an XA session has no transaction to put its work into.
        self.auto_commit_sends = request.auto_commit_sends or self.xa
        self.auto_commit_acks = request.auto_commit_acks or self.xa
        self.pre_acknowledge = request.pre_acknowledge
        self.min_large_message_size = min(max(request.min_large_message_size, 1), CHUNK_SIZE_MAX)
        self.window = ConfirmationWindow(request.window_size) if request.window_size >= 0 else None
        self.reattachable = self.window is not None
        self.started = False
        self.closed = False
        self.metadata: dict[str, str] = {}
        self.context = OperationContext(self.server.store)
        self.transaction = Transaction()
        self.permissions = SessionPermissions(self.server.security, subject)
        self.sends = SessionSends(self)
        self.consumers = SessionConsumers(self)
        self.acknowledgements = SessionAcknowledgements(self)
        self.administration = SessionAdministration(self)
        self.branches = SessionBranches(self)
        self.readers = SessionReaders(self)
        self.control = SessionControl(self)
        self._unconfirmed_max = UNCONFIRMED_MAX + 2 * (0 if self.window is None else self.window.size)
        self._check_kept_at = _KEPT_STEP
        self._counted_size = 0
        self._given_up = False

    # --- input

    def handle_some(self, packet_type: int, frames: list[bytes], index: int) -> int:
        """Handle the frame at ``index``, and those after it that are handled with it.  Returns the index of the next one."""
        if packet_type == _SEND:
            following = self.sends.runs.take(frames, index)
        elif packet_type == _ACKNOWLEDGE:
            following = self.acknowledgements.take(frames, index)
        else:
            following = index
        if following > index:
            return following
        self.handle(packet_type, frames[index])
        return index + 1

    def handle(self, packet_type: int, data: bytes) -> None:
        """Handle one frame of this session's channel.  A session that is being closed takes none any more."""
        if self.closed:
            return
        fast = _FAST.get(packet_type)
        if fast is not None:
            part, handle = fast
            if self.window is None:
                handle(getattr(self, part), data)
            else:
                self._counted_size = len(data)
                handle(getattr(self, part), data)
                self._count_handled()
            return
        if packet_type not in _WITH_MESSAGE:
            check_control_size(data)
            self.connection.request_handled()
        packet = decode_packet(packet_type, data[13:], self.version)
        if isinstance(packet, PacketsConfirmed):
            if self.window is not None:
                self.window.confirmed(packet.command_id)
                self._check_kept_at = self.window.cached_bytes + _KEPT_STEP
            return
        found = _HANDLERS.get(packet_type)
        counted = self.window is not None and (packet.requires_confirmation if isinstance(packet, wire.AddMetadataV2) else packet.COUNTED)
        if counted:
            self._counted_size = len(data)
        try:
            if found is None:
                raise NotImplementedByBrokerError(f"{packet.NAME} is not supported by this broker")
            part, handler = found
            handler(getattr(self, part), packet)
        except ProtocolError:
            raise
        except MQError as error:
            self.transaction_failed(error)
            if getattr(packet, "requires_response", True):
                self.reply_error(error)
            elif not isinstance(error, QueueExistsError):  # clients that come back make their queues again, whether they are gone or not
                self.connection.report(f"{packet.NAME} failed: {error}")
        if counted:
            self._count_handled()

    def put_off(self, undecided: Undecided) -> None:
        """Handle the frame in hand again when the group of its message is decided; what follows it stays behind it."""
        self._counted_size = 0
        undecided.when_known(self.connection.put_off())

    def transaction_failed(self, error: MQError) -> None:
        """A failed request makes an open transaction rollback-only."""
        if not self.transaction.empty:
            self.transaction.mark_rollback_only(error)

    # --- replies, in the order of the requests

    def reply(self, packet: Packet, ticket: int = 0) -> None:
        """Answer the request that is being handled once the work up to ``ticket`` is durable."""
        size, self._counted_size = self._counted_size, 0
        self.context.run(ticket, self._send_reply, packet, size)

    def reply_frame(self, data: bytes) -> None:
        """As :meth:`reply`, for an answer that is a whole frame, of a packet that counts."""
        size, self._counted_size = self._counted_size, 0
        self.context.run(0, self._send_reply_frame, data, size)

    def reply_null(self, correlation_id: int | None = -1, ticket: int = 0) -> None:
        self.reply(NullResponse(correlation_id), ticket)

    def reply_error(self, error: MQError, correlation_id: int | None = None) -> None:
        """Answer with an EXCEPTION; its correlation id is that of a request that carried one."""
        self.reply(ExceptionResponse(error.code, str(error), correlation_id))

    def send(self, packet: Packet) -> None:
        """Send a packet on this session's channel now."""
        data = frame(packet.TYPE, self.channel, encode_packet(packet, self.version))
        if self.window is not None and packet.COUNTED:
            self._remember(data)
        self.connection.send_frame(data)

    def _remember(self, data: bytes) -> None:
        """Keep a counted frame until the peer confirms it."""
        window = self.window
        assert window is not None
        if self.reattachable:
            window.sent(data)
            if window.cached_bytes >= self._check_kept_at:
                self._check_kept()

    def _check_kept(self) -> None:
        """A peer that confirms nothing is given up; one that may confirm late does not have everything kept for ever."""
        window = self.window
        assert window is not None
        self._check_kept_at = window.cached_bytes + _KEPT_STEP
        if window.cached_bytes > self._unconfirmed_max:
            if not self._given_up:
                self._given_up = True
                self.connection.pause_output()
                self.connection.fail_soon(f"{window.cached} packets of session {self.name} are not confirmed")
        elif sum(0 if each.window is None else each.window.cached_bytes for each in self.connection.sessions.values()) > KEPT_MAX:
            self.reattachable = False
            window.forget()
            self.connection.report(f"more than {KEPT_MAX} bytes are not confirmed: session {self.name} can no longer be reattached")

    def send_parts(self, parts: tuple[bytes, ...], size: int) -> None:
        """Send a counted frame that is given in parts."""
        if self.reattachable:
            data = b"".join(parts)
            self._remember(data)
            self.connection.send_frame(data)
        else:
            self.connection.send_parts(parts, size)

    def _send_reply(self, packet: Packet, counted_size: int) -> None:
        if counted_size and self.window is not None:
            refused = packet.__class__ is ExceptionResponse
            self._confirm(self.window.refused(counted_size) if refused else self.window.processed(counted_size))
        if not self.connection.closed:
            self.send(packet)

    def _send_reply_frame(self, data: bytes, counted_size: int) -> None:
        if counted_size:
            self._count(counted_size)
        if not self.connection.closed:
            if self.window is not None:
                self._remember(data)
            self.connection.send_frame(data)

    # --- confirmation window

    def _count_handled(self) -> None:
        size, self._counted_size = self._counted_size, 0
        if size:
            self.context.run(0, self._count, size)

    def _count(self, size: int) -> None:
        if self.window is not None:
            self._confirm(self.window.processed(size))

    def _confirm(self, due: int | None) -> None:
        if due is not None:
            self.connection.send(PacketsConfirmed(due), self.channel)

    def finish_run(self, answers: list[bytes | None], sizes: list[int]) -> None:
        """A run of requests is done: count their frames, given by their sizes, and send their answers (None where none is wanted)."""
        connection = self.connection
        window = self.window
        if window is not None and not window.processed_many(len(sizes), sum(sizes)):
            # A confirmation is due somewhere among them: one after the other.
            for answer, size in zip(answers, sizes, strict=True):
                self._count(size)
                if answer is not None and not connection.closed:
                    self._remember(answer)
                    connection.send_frame(answer)
            return
        wanted = [answer for answer in answers if answer is not None]
        if wanted and not connection.closed:
            size = sum(map(len, wanted))
            if window is not None and self.reattachable:
                window.sent_many(wanted, size)
                if window.cached_bytes >= self._check_kept_at:
                    self._check_kept()
            connection.send_parts(wanted, size)

    def flush_confirmations(self) -> None:
        """Confirm what was processed although the window is not full."""
        if self.window is not None:
            self._confirm(self.window.flush())

    def refuse_reattachment(self) -> None:
        """A client wants to go on, but what it may have missed is not kept: it has to begin anew, under the same name if it likes."""
        self.end(failed=True)
        self.connection.sessions.pop(self.channel, None)
        if self.connection.transport_lost and not self.connection.sessions:
            self.connection.superseded()

    def transfer(self, connection: ServerConnection, last_confirmed: int) -> int:
        """Go on with a new connection of the same client; sends again what it has not got.  Returns our own last command id."""
        assert self.window is not None
        old = self.connection
        old.sessions.pop(self.channel, None)
        self.connection = connection
        connection.sessions[self.channel] = self
        self.sends.runs.forget()
        connection.adopt_resources(old)
        connection.allow_large_frames()
        self.window.confirmed(last_confirmed)
        for data in self.window.unconfirmed():
            connection.send_frame(data)
        if not old.sessions:
            old.superseded()
        return self.window.last_confirmed_command_id

    # --- the end

    def close(self) -> None:
        """The client closes the session.  It hears of that once what it has acknowledged is durable, too."""
        self.end(failed=False)
        size, self._counted_size = self._counted_size, 0
        self.context.run(self.acknowledgements.ticket, self._close_now, size)

    def _close_now(self, counted_size: int) -> None:
        if counted_size:
            self._count(counted_size)
        self.flush_confirmations()
        self.connection.send(NullResponse(-1 if self.version >= VERSION_CORRELATION else None), self.channel)
        self.connection.sessions.pop(self.channel, None)

    def expel(self) -> None:
        """Management closes the session: its client is disconnected, since it has no other way to notice."""
        self.end(failed=True)
        self.connection.sessions.pop(self.channel, None)
        self.connection.fail("session closed by management")

    def end(self, failed: bool) -> None:
        """Give back what the session holds; ``failed`` when its connection broke.  A second call does nothing."""
        if self.closed:
            return
        self.closed = True
        self.sends.close()
        try:
            self.control.roll_back_open_work(failed)
        finally:
            try:
                self.consumers.close_all(failed)
            finally:
                self.server.sessions.ended(self)
