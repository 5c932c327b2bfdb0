"""Notifications: messages by which the broker tells what happens (Artemis manual, "Management notifications")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.messaging.address import Address
from mqbroker.messaging.context import OperationContext
from mqbroker.messaging.diverts import Divert
from mqbroker.messaging.message import Message
from mqbroker.messaging.queue import Queue
from mqbroker.messaging.remote import RemoteBinding
from mqclient.errors import MQError
from mqclient.wire.message import CoreMessage
from mqclient.wire.properties import INT, LONG, NULL, STRING, TypedValue

if TYPE_CHECKING:
    from mqbroker.server.consumers import ServerConsumer
    from mqbroker.server.server import Server
    from mqbroker.server.session import ServerSession

log = Logger(namespace="mqbroker.server")

BINDING_TYPE_LOCAL_QUEUE = 0
PROTOCOL_NAME = "CORE"
REPEATED_WARNING_SECONDS = 10.0
"""The same kind of warning is written at most once in this time; the number of those left out is told with the next."""


class Notifications:
    """Sends notification messages, and writes the log lines that go with message losses."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._context = OperationContext(server.store)
        self._warned: dict[str, tuple[float, int]] = {}

    # --- messaging core

    def address_added(self, address: Address) -> None:
        """Told only where a plugin asks for it in Artemis; logged here."""
        log.debug("address {name} added", name=address.name)

    def address_removed(self, address: Address) -> None:
        log.debug("address {name} removed", name=address.name)

    def queue_added(self, queue: Queue) -> None:
        log.debug("queue {name} added to address {address}", name=queue.name, address=queue.definition.address)
        self._send("BINDING_ADDED", {**self._binding(queue), **self._filter(queue)})

    def queue_removed(self, queue: Queue) -> None:
        headers = {"_AMQ_FilterString": (NULL, None), **self._binding(queue), **self._filter(queue)}
        del headers["_AMQ_Binding_Type"]
        self._send("BINDING_REMOVED", headers)

    def divert_added(self, divert: Divert) -> None:
        log.debug("divert {name} added to address {address}", name=divert.name, address=divert.address)

    def divert_removed(self, divert: Divert) -> None:
        log.debug("divert {name} removed from address {address}", name=divert.name, address=divert.address)

    def remote_binding_added(self, binding: RemoteBinding) -> None:
        log.debug("the remote queue {name} is known", name=binding.cluster_name)

    def remote_binding_removed(self, binding: RemoteBinding) -> None:
        log.debug("the remote queue {name} is forgotten", name=binding.cluster_name)

    def messages_redistributed(self, queue: Queue, binding: RemoteBinding, count: int) -> None:
        log.info(
            "{count} messages of queue {queue} went to node {node}: it has consumers for them, and there are none here",
            count=count,
            queue=queue.name,
            node=binding.node_id,
        )

    def message_dropped(self, code: str, text: str) -> None:
        """A message was dropped or moved aside.  Floods of one kind are thinned."""
        now = self._server.clock.monotonic()
        last, left_out = self._warned.get(code, (-REPEATED_WARNING_SECONDS, 0))
        if now - last < REPEATED_WARNING_SECONDS:
            self._warned[code] = (last, left_out + 1)
            return
        self._warned[code] = (now, 0)
        more = f" ({left_out} more since the last such line)" if left_out else ""
        log.warn("{code}: {text}{more}", code=code, text=text, more=more)

    # --- sessions and consumers

    def session_created(self, session: ServerSession) -> None:
        if not self._server.configuration.suppress_session_notifications:
            self._send("SESSION_CREATED", self._session(session))

    def session_closed(self, session: ServerSession) -> None:
        if not self._server.configuration.suppress_session_notifications:
            self._send("SESSION_CLOSED", self._session(session))

    def consumer_created(self, consumer: ServerConsumer) -> None:
        user = consumer.session.subject.name
        headers = self._consumer(consumer)
        headers["_AMQ_CertSubjectDN"] = (STRING, "unavailable")
        if user:
            headers["_AMQ_ValidatedUser"] = (STRING, user)
        self._send("CONSUMER_CREATED", headers)

    def consumer_closed(self, consumer: ServerConsumer) -> None:
        self._send("CONSUMER_CLOSED", self._consumer(consumer))

    def authentication_failed(self, user: str | None, remote: str) -> None:
        self._send(
            "SECURITY_AUTHENTICATION_VIOLATION",
            {"_AMQ_User": (STRING, user or "null"), "_AMQ_CertSubjectDN": (STRING, "unavailable"), "_AMQ_RemoteAddress": (STRING, remote)},
        )

    def permission_denied(self, address: str, permission: str, user: str | None) -> None:
        self._send(
            "SECURITY_PERMISSION_VIOLATION",
            {"_AMQ_Address": (STRING, address), "_AMQ_CheckType": (STRING, permission), "_AMQ_User": (STRING, user or "null")},
        )

    # --- parts of the messages

    def _binding(self, queue: Queue) -> dict[str, TypedValue]:
        return {
            "_AMQ_Binding_Type": (INT, BINDING_TYPE_LOCAL_QUEUE),
            "_AMQ_Binding_ID": (LONG, queue.queue_id),
            "_AMQ_Address": (STRING, queue.definition.address),
            "_AMQ_ClusterName": (STRING, self._cluster_name(queue)),
            "_AMQ_RoutingName": (STRING, queue.name),
            "_AMQ_Distance": (INT, 0),
        }

    @staticmethod
    def _filter(queue: Queue) -> dict[str, TypedValue]:
        text = queue.definition.filter_string
        return {} if text is None else {"_AMQ_FilterString": (STRING, text)}

    def _consumer(self, consumer: ServerConsumer) -> dict[str, TypedValue]:
        session, queue = consumer.session, consumer.queue
        headers: dict[str, TypedValue] = {
            "_AMQ_Address": (STRING, queue.definition.address),
            "_AMQ_ClusterName": (STRING, self._cluster_name(queue)),
            "_AMQ_RoutingName": (STRING, queue.name),
            "_AMQ_Distance": (INT, 0),
            "_AMQ_ConsumerCount": (INT, queue.consumer_count),
            "_AMQ_User": (STRING, session.subject.name or "null"),
            "_AMQ_RemoteAddress": (STRING, session.connection.remote),
            "_AMQ_SessionName": (STRING, session.name),
            "_AMQ_ConsumerName": (LONG, consumer.consumer_id),
        }
        if consumer.filter is not None:
            headers["_AMQ_FilterString"] = (STRING, consumer.filter.text)
        if session.connection.client_id:
            headers["_AMQ_Client_ID"] = (STRING, session.connection.client_id)
        return headers

    def _cluster_name(self, queue: Queue) -> str:
        return f"{queue.name}{self._server.node_id}"

    def _session(self, session: ServerSession) -> dict[str, TypedValue]:
        connection = session.connection
        headers: dict[str, TypedValue] = {
            "_AMQ_ConnectionName": (STRING, connection.connection_id),
            "_AMQ_User": (STRING, session.subject.name or "null"),
            "_AMQ_SessionName": (STRING, session.name),
            "_AMQ_Protocol_Name": (STRING, PROTOCOL_NAME),
            "_AMQ_Address": (STRING, self._server.configuration.management_notification_address),
            "_AMQ_Distance": (INT, 0),
        }
        headers["_AMQ_Client_ID"] = (STRING, connection.client_id) if connection.client_id else (NULL, None)
        return headers

    def _send(self, kind: str, headers: dict[str, TypedValue]) -> None:
        server = self._server
        target = server.configuration.management_notification_address
        core = server.messaging.core
        if not server.started or not core.routing.bound(target):
            return
        now = server.clock.wall_ms()
        content = CoreMessage(
            message_id=server.store.next_id(),
            address=target,
            durable=True,
            timestamp=now,
            priority=0,
            properties={"_AMQ_NotifType": (STRING, kind), "_AMQ_NotifTimestamp": (LONG, now), **headers},
            body=bytes(4),
        )
        try:
            server.messaging.sending.send(Message.of(content), target, None, None, self._context)
        except MQError as error:
            self.message_dropped("AMQ222039", f"the notification {kind} was not sent: {error}")
