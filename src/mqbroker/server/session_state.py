"""A session as its parts know it: the user, the open transaction, and the answers in the order of the requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.turns.context import OperationContext
from mqbroker.server.security.permissions import SessionPermissions
from mqbroker.server.transport.connection_session import ConnectionSession
from mqclient.errors import MQError
from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.packets import ExceptionResponse, NullResponse, Packet, PacketsConfirmed, encode_packet

if TYPE_CHECKING:
    from mqbroker.messaging.queues.elsewhere import Confirmation
    from mqbroker.messaging.turns.undecided import Undecided
    from mqbroker.server.security.security import Subject
    from mqbroker.server.server_state import ServerState
    from mqbroker.server.transport.connection import ServerConnection

CHUNK_SIZE_MAX = 1024 * 1024
"""Bytes of a large message that are read from the disk and sent at a time, also if the client asks for larger chunks."""

UNCONFIRMED_MAX = 64 * 1024 * 1024
"""Bytes, in addition to twice the confirmation window, that are kept for a peer that confirms nothing; with more its connection ends."""

KEPT_MAX = 128 * 1024 * 1024
"""Bytes of unconfirmed packets that are kept for all sessions of one connection together.

A session that would need more keeps none, and cannot be reattached then.
"""

_KEPT_STEP = 64 * 1024
"""Bytes after which a session compares the sum with :data:`KEPT_MAX` again."""


class SessionState(ConnectionSession):
    """The session as its sends, consumers and other parts see it.

    ``min_large_message_size`` (bytes) is also the chunk size of large deliveries; ``transaction`` collects the work that is committed
    later.
    """

    __slots__ = (
        "_check_kept_at",
        "_counted_size",
        "_given_up",
        "_unconfirmed_max",
        "auto_commit_acks",
        "auto_commit_sends",
        "connection",
        "context",
        "min_large_message_size",
        "permissions",
        "pre_acknowledge",
        "server",
        "started",
        "transaction",
        "undecided",
        "xa",
    )

    def __init__(
        self, server: ServerState, connection: ServerConnection, request: wire.CreateSession, subject: Subject, version: int
    ) -> None:
        super().__init__(request.name, request.session_channel_id, subject, version, server.clock.wall_ms(), request.window_size)
        self.server = server
        self.connection = connection
        self.xa = request.xa
        # An XA session outside of a branch has no transaction for its work.
        self.auto_commit_sends = request.auto_commit_sends or self.xa
        self.auto_commit_acks = request.auto_commit_acks or self.xa
        self.pre_acknowledge = request.pre_acknowledge
        self.min_large_message_size = min(max(request.min_large_message_size, 1), CHUNK_SIZE_MAX)
        self.started = False
        self.context = OperationContext(server.store)
        self.transaction = Transaction()
        self.permissions = SessionPermissions(server.security, subject)
        self._unconfirmed_max = UNCONFIRMED_MAX + 2 * (0 if self.window is None else self.window.size)
        self._check_kept_at = _KEPT_STEP
        self._counted_size = 0
        self._given_up = False
        self.undecided: Undecided | None = None
        """The last request that had to wait for a decision."""

    def put_off(self, undecided: Undecided) -> None:
        """Handle the present frame again, before any other, once its decision is made (decision 31).

        Where it has waited for another decision before, and did without that, nobody is to take that later.
        """
        self._counted_size = 0
        former, self.undecided = self.undecided, undecided
        if former is not None:
            former.withdraw()
        go_on = self.connection.put_off()

        def known() -> None:
            undecided.known = True
            go_on()

        undecided.when_known(known)

    def read_on(self, name: str) -> None:
        """Let the request wait until it is known whether the queue is there; one that comes again has waited.  Raises Undecided."""
        if self.undecided is None:
            self.server.messaging.definitions.read_on(name)

    # --- replies, in the order of the requests

    def reply(self, packet: Packet, ticket: int = 0) -> None:
        """Answer the request that is being handled once the work up to ``ticket`` is durable."""
        size, self._counted_size = self._counted_size, 0
        self.context.run(ticket, self._send_reply, packet, size)

    def reply_frame(self, data: bytes) -> None:
        """As :meth:`reply`, with the whole frame of a packet that counts for the confirmation window."""
        size, self._counted_size = self._counted_size, 0
        self.context.run(0, self._send_reply_frame, data, size)

    def reply_null(self, correlation_id: int | None = -1, ticket: int = 0) -> None:
        self.reply(NullResponse(correlation_id), ticket)

    def reply_error(self, error: MQError, correlation_id: int | None = None) -> None:
        """Answer with an EXCEPTION; ``correlation_id`` is None for a request without one.

        An error may tell of what others have done: a known duplicate id says that its sender's work has taken effect.  The answer waits
        until that is durable.
        """
        self.reply(ExceptionResponse(error.code, str(error), correlation_id), self.server.store.ticket())

    def reply_confirmed(self, confirmation: Confirmation, ticket: int) -> None:
        """Answer an acknowledgement as ``confirmation`` says then, once the work up to ``ticket`` is durable."""
        size, self._counted_size = self._counted_size, 0
        self.context.run(ticket, self._send_confirmed, confirmation, size)

    def _send_confirmed(self, confirmation: Confirmation, counted_size: int) -> None:
        failure = confirmation.failure
        answer = NullResponse(-1) if failure is None else ExceptionResponse(failure.code, str(failure), None)
        self._send_reply(answer, counted_size)

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
        """End the connection of a peer that confirms nothing, and stop keeping packets beyond :data:`KEPT_MAX`."""
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

    def _confirmed(self, command_id: int) -> None:
        """The peer has received all packets up to ``command_id``."""
        if self.window is not None:
            self.window.confirmed(command_id)
            self._check_kept_at = self.window.cached_bytes + _KEPT_STEP

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
            # A confirmation is due among these frames, so count one after the other.
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
        """Confirm processed packets although the window is not full."""
        if self.window is not None:
            self._confirm(self.window.flush())
