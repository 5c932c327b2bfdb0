"""Sends of a session: regular messages, large messages in pieces, and the credits for them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from mqbroker.messaging.delivery.arriving import has_marks, take_arrival
from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.message.memory import AddressMemory
from mqbroker.messaging.message.message import PROPERTIES_CHECKED_FROM, Message, check_properties
from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.definitions import ANYCAST
from mqbroker.messaging.turns.undecided import Undecided
from mqbroker.server.runs.send_runs import SendRuns
from mqbroker.server.session.overdrafts import Overdraft
from mqbroker.server.transport.naming import check_length, split_qualified
from mqclient.errors import (
    AddressDoesNotExistError,
    IllegalStateError,
    MalformedPacketError,
    MQError,
    ProtocolError,
)
from mqclient.wire import message as keys
from mqclient.wire import packets as wire
from mqclient.wire.hot import VERSION_CORRELATION, decode_send, send_trailer_size
from mqclient.wire.message import CoreMessage, decode_headers, scan_headers
from mqclient.wire.properties import LONG, STRING

if TYPE_CHECKING:
    from mqbroker.server.session_state import SessionState

_TRAILER_130 = struct.Struct(">Bq")


class _LargeUpload:
    """A large message whose body is still arriving.  A ``refused`` message has no body: the pieces are thrown away."""

    __slots__ = ("address", "body", "complete", "content", "refused")

    def __init__(
        self, content: CoreMessage, body: LargeBody | None, refused: MQError | None = None, address: Address | None = None
    ) -> None:
        self.address = address
        self.content = content
        self.body = body
        self.refused = refused
        self.complete = False
        """Has the last piece come?"""

    def append(self, chunk: bytes) -> None:
        if self.body is not None and chunk:
            self.body.append(chunk)

    def refuse(self, error: MQError) -> None:
        """Throw the body away; the last piece is answered with ``error``."""
        self.abandon()
        self.body = None
        self.refused = error.with_traceback(None)

    def abandon(self) -> None:
        if self.body is not None:
            self.body.release()


class SessionSends:
    """Messages from the client.  ``to_management`` takes the messages to the management address."""

    __slots__ = (
        "_credit_waiters",
        "_failed_requests",
        "_names",
        "_overdraft",
        "_server",
        "_session",
        "_to_management",
        "_upload",
        "messages_sent",
        "nameless",
        "producers",
        "runs",
        "upload_size",
    )

    def __init__(self, session: SessionState, to_management: Callable[[SessionState, Message], None]) -> None:
        self._session = session
        self._to_management = to_management
        self._server = session.server
        self.nameless = session.server.configuration.reject_empty_validated_user and not session.subject.name
        """Must messages have a validated user, and does the session have none?"""
        self._upload: _LargeUpload | None = None
        self.upload_size = 0
        """Bytes of the headers of the large message whose body is arriving."""
        self._credit_waiters: dict[Callable[[], None], AddressMemory] = {}
        self._failed_requests: set[str] | None = None
        self._overdraft: Overdraft | None = None
        self._names: dict[str, tuple[str, str | None, int | None]] = {}
        self.producers: dict[int, str | None] = {}
        self.messages_sent = 0
        self.runs = SendRuns(session, self)

    # --- regular messages

    def send(self, data: bytes) -> None:
        """A SESS_SEND frame."""
        session = self._session
        version = session.version
        if version >= VERSION_CORRELATION:
            end = len(data) - send_trailer_size(version)
            if end < 17:
                raise MalformedPacketError("SESS_SEND", "message", f"frame of {len(data)} bytes is too short")
            flag, correlation_id = _TRAILER_130.unpack_from(data, end)
            # Insert the id while copying: a long message is copied only once.
            buffer: bytes | memoryview = data[13:end] if end < PROPERTIES_CHECKED_FROM else memoryview(data)[13:end]
        else:
            buffer, flag, _, _ = decode_send(data[13:], version)
            correlation_id = None
        try:
            message = Message.received(buffer, self._server.store.next_id())
            ticket = self._route(message)
        except MalformedPacketError as error:
            raise MalformedPacketError("SESS_SEND", error.field, error.reason) from error
        except MQError as error:
            self._failed(error, bool(flag), correlation_id)
            return
        except Undecided as undecided:
            session.put_off(undecided)
            return
        if flag:
            session.reply_null(correlation_id, ticket)

    def _failed(self, error: MQError, requires_response: bool, correlation_id: int | None) -> None:
        session = self._session
        if not session.auto_commit_sends:
            session.transaction.mark_rollback_only(error)
        if requires_response:
            session.reply_error(error, correlation_id)
        else:
            session.connection.report(f"a message was not accepted: {error}")

    def _route(self, message: Message) -> int:
        """Check, route and store one message.  Returns the ticket to wait for."""
        session = self._session
        server = self._server
        name = message.address
        resolved = self._names.get(name)
        if resolved is None:
            resolved = self.resolve(name)
        address, queue, prefix_type = resolved
        self.messages_sent += 1
        self._check_permission(address, queue)
        core, permission = server.messaging.core, session.permissions.check
        try:
            if address == server.management_address:
                self._to_management(session, message)
                if message.large is not None:
                    message.large.release()
                return 0
            routing_type = prefix_type
            if routing_type is None:
                routing_type = message.routing_type
            if server.stamps_messages or message.address != address:
                self._stamp(message, address if prefix_type is not None else message.address)
            target = core.queues.get(queue or address)
            if (
                target is None
                or address not in core.addresses
                or (routing_type is not None and routing_type not in core.addresses[address].routing_types)
                or (queue is None and routing_type == ANYCAST != target.definition.routing_type)
            ):
                server.messaging.definitions.auto_create_for_send(address, routing_type, queue, permission)
            transaction = None if session.auto_commit_sends else session.transaction
            arrival = take_arrival(core, message, address, routing_type, permission) if has_marks(message) else None
            known = core.addresses.get(address)
            if known is not None and known.memory.full:
                self._overdrawn().charge(known, message.encode_size)
            return server.messaging.sending.send(
                message, address, queue, routing_type, session.context, transaction, arrival, permission, may_wait=True
            )
        except Undecided:
            self.messages_sent -= 1
            raise

    def _check_permission(self, address: str, queue: str | None) -> None:
        if not address:
            raise AddressDoesNotExistError("AMQ229203: Address Does Not Exist: the message names none")
        if self.nameless:
            raise IllegalStateError("AMQ229216: a message without a validated user is refused here; log in with a user name")
        permissions = self._session.permissions
        if address == self._server.management_address:
            permissions.check("manage", address)
        else:
            permissions.check("send", address, queue)

    def resolve(self, name: str) -> tuple[str, str | None, int | None]:
        """(address, queue, routing type of the prefix) that ``name`` from a client stands for."""
        stripped, prefix_type = self._session.connection.naming.strip(name)
        address, queue = split_qualified(stripped)
        if len(self._names) >= 1000:
            self._names.clear()
        resolved = self._names[name] = (address, queue, prefix_type)
        return resolved

    def _stamp(self, message: Message, address: str) -> None:
        """Add the broker's properties to a message: user, time of arrival, address without prefix."""
        server = self._server
        content = message.decoded()
        content.address = address
        if server.populate_validated_user:
            user = self._session.subject.name
            if user:
                content.properties[keys.KEY_VALIDATED_USER] = (STRING, user)
        if server.messaging.core.settings_of(address).enable_ingress_timestamp:
            content.properties[keys.KEY_INGRESS_TIMESTAMP] = (LONG, server.clock.wall_ms())
        message.take_content(Message.of(content, message.large))

    # --- large messages

    def _open_large(self, packet: wire.SessionSendLarge) -> None:
        self._abandon_upload()
        size = len(packet.headers)
        try:
            self._server.connection_limits.check_upload(self._session.connection, size)
            if size > PROPERTIES_CHECKED_FROM:
                check_properties(packet.headers, scan_headers(packet.headers, 0, packet.NAME).properties)
            content = decode_headers(packet.headers, 0, packet.NAME)
            address, queue, _ = self.resolve(content.address or "")
            self._check_permission(address, queue)
        except ProtocolError:
            raise
        except MQError as error:
            # This packet gets no answer: the last piece of the body gets it.  Until then no traceback keeps the headers.
            self._upload = _LargeUpload(CoreMessage(), None, error.with_traceback(None))
            return
        content.message_id = self._server.store.next_id()
        self.upload_size = size
        known = self._server.messaging.core.addresses.get(address)
        self._upload = _LargeUpload(content, self._server.store.create_large_body(content.message_id), address=known)

    def _continue_large(self, packet: wire.SessionSendContinuation) -> None:
        session = self._session
        upload = self._upload
        correlation_id = packet.correlation_id if session.version >= VERSION_CORRELATION else None
        if upload is not None and not upload.complete and upload.address is not None and upload.address.memory.full:
            self._overdrawn().charge(upload.address, len(packet.chunk))
        try:
            if upload is None:
                raise IllegalStateError("SESS_SEND_CONTINUATION without an open large message")
            if upload.body is not None and not upload.complete:
                try:
                    self._server.connection_limits.check_upload_bodies(session.connection, len(packet.chunk))
                except MQError as error:
                    upload.refuse(error)
            if not upload.complete:
                upload.append(packet.chunk)
            if packet.continues:
                if packet.requires_response:
                    session.reply_null(correlation_id)
                return
            self._upload = None
            self.upload_size = 0
            ticket = self._complete(upload, packet.message_body_size)
        except MQError as error:
            self._failed(error, packet.requires_response, correlation_id)
            return
        except Undecided as undecided:
            assert upload is not None
            upload.complete = True
            self._upload = upload
            session.put_off(undecided)
            return
        if packet.requires_response:
            session.reply_null(correlation_id, ticket)

    def _complete(self, upload: _LargeUpload, body_size: int) -> int:
        body, content = upload.body, upload.content
        if upload.refused is not None:
            raise upload.refused
        assert body is not None
        body.complete()
        # A message that becomes visible later needs an id greater than all visible ones.
        content.message_id = self._server.store.next_id()
        if body_size >= 0:
            content.properties[keys.KEY_LARGE_SIZE] = (LONG, body_size)
        message = Message.of(content, body)
        try:
            return self._route(message)
        except MQError:
            if not message.references:
                body.release()
            raise

    def _abandon_upload(self) -> None:
        if self._upload is not None:
            self._upload.abandon()
            self._upload = None
            self.upload_size = 0

    # --- credits

    @property
    def upload_body_size(self) -> int:
        """Bytes of the body of the arriving large message, so far."""
        upload = self._upload
        return 0 if upload is None or upload.body is None else upload.body.size

    @property
    def requests_waiting(self) -> int:
        """The number of requests for credits that wait for room."""
        return len(self._credit_waiters)

    def _request_credits(self, packet: wire.ProducerRequestCredits) -> None:
        session = self._session
        name, _ = session.connection.naming.strip(packet.address)
        name = split_qualified(name)[0]
        address = self._server.messaging.core.addresses.get(name)
        if address is None or address.name == self._server.management_address:
            self._overdrawn().granted(name, packet.credits)
            session.send(wire.ProducerCredits(packet.credits, packet.address))
            return

        def grant() -> None:
            self._credit_waiters.pop(grant, None)
            if self._failed_requests:
                self._failed_requests.discard(address.name)
            if not session.closed:
                self._overdrawn().granted(name, packet.credits)
                session.send(wire.ProducerCredits(packet.credits, packet.address))

        memory = address.memory
        if memory.policy == "FAIL" and self._failed_requests and address.name in self._failed_requests:
            # A repeated packet: the credits of the first try will be enough.
            session.send(wire.ProducerFailCredits(packet.credits, packet.address))
            return
        if self._credit_waiters:
            self._server.connection_limits.check_credit_requests(session.connection)
        if memory.when_free(grant):
            return
        self._credit_waiters[grant] = memory
        if memory.policy == "FAIL":
            if self._failed_requests is None:
                self._failed_requests = set()
            self._failed_requests.add(address.name)
            session.send(wire.ProducerFailCredits(packet.credits, packet.address))
        else:
            self._server.producers_blocked(address)

    def _overdrawn(self) -> Overdraft:
        """The overdraft, made when first needed: most sessions only receive, or find room."""
        overdraft = self._overdraft
        if overdraft is None:
            overdraft = self._overdraft = Overdraft(self._session)
        return overdraft

    def _create_producer(self, packet: wire.CreateProducer) -> None:
        check_length(packet.address)
        self._server.connection_limits.check_producers(self._session.connection)
        self.producers[packet.producer_id] = packet.address

    def _remove_producer(self, packet: wire.RemoveProducer) -> None:
        self.producers.pop(packet.producer_id, None)

    def close(self) -> None:
        """At the end of the session: withdraw waiting requests, and throw an unfinished large message away."""
        self._abandon_upload()
        for grant, memory in self._credit_waiters.items():
            memory.forget(grant)
        self._credit_waiters.clear()

    HANDLERS: ClassVar[Mapping[int, Callable[[Any, Any], object]]] = {
        wire.SessionSendLarge.TYPE: _open_large,
        wire.SessionSendContinuation.TYPE: _continue_large,
        wire.ProducerRequestCredits.TYPE: _request_credits,
        wire.CreateProducer.TYPE: _create_producer,
        wire.RemoveProducer.TYPE: _remove_producer,
    }
