"""A session: the requests of a client on one channel.

The session itself dispatches packets; sending, consuming, transactions and administration are objects of their own that it holds, and
:mod:`mqbroker.server.session_state` keeps its answers in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from mqbroker.messaging.turns.undecided import Undecided
from mqbroker.server.session import acknowledgements
from mqbroker.server.session.acknowledgements import SessionAcknowledgements
from mqbroker.server.session.control import SessionControl
from mqbroker.server.session.queue_admin import SessionAdministration
from mqbroker.server.session.readers import SessionReaders
from mqbroker.server.session.sends import SessionSends
from mqbroker.server.session.session_consumers import SessionConsumers
from mqbroker.server.session.xa import SessionBranches
from mqbroker.server.session_state import SessionState
from mqbroker.server.transport.limits import check_control_size
from mqclient.errors import MQError, NotImplementedByBrokerError, ProtocolError, QueueExistsError
from mqclient.wire import packets as wire
from mqclient.wire.packets import NullResponse, PacketsConfirmed, decode_packet

if TYPE_CHECKING:
    from mqbroker.messaging.filters.filter import Filter
    from mqbroker.messaging.message.message import Message
    from mqbroker.server.security.security import Subject
    from mqbroker.server.server_state import ServerState
    from mqbroker.server.transport.connection import ServerConnection
    from mqbroker.server.transport.connection_session import SendLoad

_SEND = wire.SessionSend.TYPE
_ACKNOWLEDGE = wire.Acknowledge.TYPE

_Table = Mapping[int, tuple[str, Callable[[Any, Any], object]]]
"""By packet type: the name of the session's part, and the function to call with that part."""

_FAST: _Table = {
    _SEND: ("sends", SessionSends.send),
    _ACKNOWLEDGE: ("acknowledgements", SessionAcknowledgements.acknowledge),
    wire.IndividualAcknowledge.TYPE: ("acknowledgements", SessionAcknowledgements.acknowledge_one),
    wire.FlowToken.TYPE: ("consumers", SessionConsumers.flow_token),
}
"""Handlers that take whole frames."""

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
"""Packets with messages that are not in :data:`_FAST`."""


class SessionOwner(Protocol):
    """All sessions of the broker, as one session sees them."""

    def claim_metadata(self, session: SessionState, key: str, data: str) -> bool:
        """May ``session`` have this metadata, which no other session of the broker may have?"""

    def end_former_link(self, session: SessionState) -> None:
        """``session`` is that of a new home link: an earlier link of the same member has ended there, and ends here, too."""

    def ended(self, session: SessionState) -> None:
        """The session is closed."""


class ServerSession(SessionState):
    """One session of a connection.  ``to_management`` takes messages to the management address."""

    __slots__ = ("_owner", "acknowledgements", "administration", "branches", "consumers", "control", "readers", "sends")

    def __init__(
        self,
        server: ServerState,
        owner: SessionOwner,
        to_management: Callable[[SessionState, Message], None],
        connection: ServerConnection,
        request: wire.CreateSession,
        subject: Subject,
        version: int,
    ) -> None:
        super().__init__(server, connection, request, subject, version)
        self._owner = owner
        self.sends = SessionSends(self, to_management)
        self.administration = SessionAdministration(self)
        self.consumers = SessionConsumers(self, self.administration.describe_queue)
        self.acknowledgements = SessionAcknowledgements(self, self.consumers)
        self.branches = SessionBranches(self, self.consumers)
        self.readers = SessionReaders(self)
        self.control = SessionControl(self, self.consumers, self.branches, owner.claim_metadata, owner.end_former_link, self.close)

    # --- input

    def handle_some(self, packet_type: int, frames: list[bytes], index: int) -> int:
        """Handle the frame at ``index``, and following frames of the same run.  Returns the index of the next frame."""
        if self.undecided is not None:
            following = index  # a request that has waited comes again: its wait has to be ended
        elif packet_type == _SEND:
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
        """Handle one frame of this session's channel; a closed session ignores it."""
        if self.closed:
            return
        undecided = self.undecided
        fast = _FAST.get(packet_type)
        if fast is not None:
            part, handle = fast
            if self.window is None:
                handle(getattr(self, part), data)
            else:
                self._counted_size = len(data)
                handle(getattr(self, part), data)
                self._count_handled()
            if undecided is not None:
                self._end_wait(undecided)
            return
        if packet_type not in _WITH_MESSAGE:
            check_control_size(data)
            self.connection.request_handled()
        packet = decode_packet(packet_type, data[13:], self.version)
        if isinstance(packet, PacketsConfirmed):
            self._confirmed(packet.command_id)
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
        except Undecided as put_off:
            self.put_off(put_off)
            return
        except MQError as error:
            if not self.transaction.empty:
                self.transaction.mark_rollback_only(error)
            if getattr(packet, "requires_response", True):
                self.reply_error(error)
            elif not isinstance(error, QueueExistsError):  # a reconnected client creates its queues again, whether they still exist or not
                self.connection.report(f"{packet.NAME} failed: {error}")
        if undecided is not None:
            self._end_wait(undecided)
        if counted:
            self._count_handled()

    def _end_wait(self, undecided: Undecided) -> None:
        """A request was carried out that had waited.

        It may have ended without the decision, which must not be taken for that of the same request later.
        """
        if undecided is self.undecided:
            undecided.withdraw()
            self.undecided = None

    # --- its connection

    def writable_changed(self) -> None:
        self.consumers.writable_changed()

    def send_load(self) -> SendLoad:
        return self.sends

    def consumer_filters(self) -> list[Filter | None]:
        return [consumer.filter for consumer in self.consumers.by_id.values()]

    def refuse_reattachment(self) -> None:
        self.end(failed=True)
        self.connection.sessions.pop(self.channel, None)
        if not self.connection.sessions:
            self.connection.superseded()

    def transfer(self, connection: ServerConnection, last_confirmed: int) -> int:
        """Go on with a new connection of the same client, and send unconfirmed packets again.  Returns the last command id received."""
        assert self.window is not None
        old = self.connection
        old.sessions.pop(self.channel, None)
        if self.undecided is not None and not self.undecided.known:
            # The client sends the request again: that has not waited, and asks anew.
            self.undecided.withdraw()
            self.undecided = None
        self.connection = connection
        connection.sessions[self.channel] = self
        self.sends.runs.forget()
        connection.adopt_resources(old)
        self.server.messaging.branches.adopt(old, connection)
        connection.allow_large_frames()
        self.window.confirmed(last_confirmed)
        for data in self.window.unconfirmed():
            connection.send_frame(data)
        old.left()
        return self.window.last_confirmed_command_id

    # --- the end

    def close(self) -> None:
        """The client closes the session.  The answer comes once its acknowledgements are durable."""
        self.end(failed=False)
        size, self._counted_size = self._counted_size, 0
        self.context.run(self.acknowledgements.ticket, self._close_now, size)

    def _close_now(self, counted_size: int) -> None:
        if counted_size:
            self._count(counted_size)
        self.flush_confirmations()
        self.connection.send(NullResponse(-1), self.channel)
        self.connection.sessions.pop(self.channel, None)

    def expel(self) -> None:
        """Management closes the session and disconnects its client, which could not notice the end of a session."""
        self.end(failed=True)
        self.connection.sessions.pop(self.channel, None)
        self.connection.fail("session closed by management")

    def end(self, failed: bool) -> None:
        if self.closed:
            return
        self.closed = True
        if self.undecided is not None:
            self.undecided.withdraw()
        self.control.release_names()
        self.sends.close()
        try:
            self.control.roll_back_open_work()
        finally:
            try:
                self.consumers.close_all(failed)
            finally:
                self._owner.ended(self)
