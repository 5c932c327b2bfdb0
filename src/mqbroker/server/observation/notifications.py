"""Notifications: messages by which the broker tells what happens (Artemis manual, "Management notifications").

Parts of the broker get them as *observers*, clients as *listeners* on the notification address.  All notifications have one order, for
observers and for listeners, and queue information that another broker has asked for (:mod:`.queue_info`) has its place in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from twisted.logger import Logger

from mqbroker.messaging.delivery.arriving import Arrival, straight_to
from mqbroker.messaging.event import Event
from mqbroker.messaging.filters.filter import Filter
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.address import Address
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.diverts import Divert
from mqbroker.messaging.routing.remote import RemoteBinding
from mqbroker.messaging.turns.context import OperationContext
from mqbroker.server.observation.queue_info import InformingServer, QueueInfo, Untold, headers_of, local_headers, remote_headers
from mqbroker.server.transport.naming import QUALIFIER
from mqclient.errors import MQError
from mqclient.wire.message import CoreMessage
from mqclient.wire.properties import INT, LONG, NULL, STRING, TypedValue

if TYPE_CHECKING:
    from mqbroker.config.model.configuration import Configuration
    from mqbroker.messaging.ports import Store
    from mqbroker.server.security.security import Subject
    from mqbroker.server.transport.connection import ServerConnection

log = Logger(namespace="mqbroker.server")

BINDING_TYPE_LOCAL_QUEUE = 0
BINDING_TYPE_REMOTE_QUEUE = 1
BINDING_TYPE_DIVERT = 2
PROTOCOL_NAME = "CORE"
REPEATED_WARNING_SECONDS = 10.0
"""A kind of warning is written at most once in this time; the next line tells the number of warnings left out."""


class NotifyingServer(InformingServer, Protocol):
    """The server, as far as notifications need it."""

    configuration: Configuration
    store: Store
    started: bool


class NotifiedSession(Protocol):
    """A session that notifications tell of."""

    @property
    def name(self) -> str: ...

    @property
    def subject(self) -> Subject: ...

    @property
    def connection(self) -> ServerConnection: ...


class NotifiedConsumer(Protocol):
    """A consumer that notifications tell of."""

    @property
    def consumer_id(self) -> int: ...

    @property
    def session(self) -> NotifiedSession: ...

    @property
    def queue(self) -> Queue: ...

    @property
    def filter(self) -> Filter | None: ...


class _Notification(NamedTuple):
    kind: str
    headers: Mapping[str, TypedValue]
    time_ms: int
    ticket: int
    """The work that listeners may hear of only once it is durable; 0 = none."""


class Notifications:
    """Sends notification messages, and writes log lines about lost messages.

    Observers subscribe to ``told``, and get each notification before the listeners on the address.  A notification that an observer sends
    comes after the notification that the observer is handling.
    """

    def __init__(self, server: NotifyingServer) -> None:
        self.told: Event[str, Mapping[str, TypedValue]] = Event()
        self.queue_info = QueueInfo(server, self)
        self._server = server
        self._context = OperationContext(server.store)
        self._arrived: deque[_Notification] = deque()
        self._telling = False
        self._held: deque[_Notification] = deque()
        self._holds = 0
        self._warned: dict[str, tuple[float, int]] = {}

    # --- messaging core

    def address_added(self, address: Address) -> None:
        """Only a log line, no notification: Artemis sends notifications of addresses only with a plugin."""
        log.debug("address {name} added", name=address.name)

    def address_removed(self, address: Address) -> None:
        log.debug("address {name} removed", name=address.name)

    def queue_added(self, queue: Queue) -> None:
        """Listeners are told of a durable queue once it is on the disk: what other members of a cluster send to it from then on would be
        lost with a queue that a crash forgets."""
        log.debug("queue {name} added to address {address}", name=queue.name, address=queue.definition.address)
        filter = _filter(queue.definition.filter_string)
        headers = {"_AMQ_Binding_Type": (INT, BINDING_TYPE_LOCAL_QUEUE), **self._binding(queue), **filter}
        self.send("BINDING_ADDED", headers, self._server.store.ticket() if queue.definition.durable else 0)

    def queue_removed(self, queue: Queue) -> None:
        self.send("BINDING_REMOVED", {**self._binding(queue), **_filter_or_null(queue.definition.filter_string)})

    def queue_filter_changed(self, queue: Queue) -> None:
        binding = self._binding(queue)
        kept = {name: binding[name] for name in ("_AMQ_ClusterName", "_AMQ_Distance", "_AMQ_Address")}
        self.send("BINDING_UPDATED", {**kept, **_filter(queue.definition.filter_string)})

    def remote_binding_added(self, binding: RemoteBinding) -> None:
        kind: dict[str, TypedValue] = {"_AMQ_Binding_Type": (INT, BINDING_TYPE_REMOTE_QUEUE)}
        self.send("BINDING_ADDED", {**kind, **_remote(binding), **_filter(_text_of(binding.filter))})

    def remote_binding_removed(self, binding: RemoteBinding) -> None:
        self.send("BINDING_REMOVED", {**_remote(binding), **_filter_or_null(_text_of(binding.filter))})

    def divert_added(self, divert: Divert) -> None:
        headers: dict[str, TypedValue] = {
            "_AMQ_Binding_Type": (INT, BINDING_TYPE_DIVERT),
            "_AMQ_Binding_ID": (LONG, divert.binding_id),
            **headers_of(divert.address, f"{divert.name}{self._server.node_id}", divert.routing_name, 0),
        }
        self.send("BINDING_ADDED", {**headers, **_filter(_text_of(divert.filter))})

    def divert_removed(self, divert: Divert) -> None:
        log.debug("divert {name} removed from address {address}", name=divert.name, address=divert.address)

    def messages_redistributed(self, queue: Queue, binding: RemoteBinding, count: int) -> None:
        log.info(
            "{count} messages of queue {queue} went to node {node}, because it has consumers for them and this node has none",
            count=count,
            queue=queue.name,
            node=binding.node_id,
        )

    def message_dropped(self, code: str, text: str) -> None:
        """Log a message that was dropped or moved aside; see :data:`REPEATED_WARNING_SECONDS`.  ``code`` is the kind of warning."""
        now = self._server.clock.monotonic()
        last, left_out = self._warned.get(code, (-REPEATED_WARNING_SECONDS, 0))
        if now - last < REPEATED_WARNING_SECONDS:
            self._warned[code] = (last, left_out + 1)
            return
        self._warned[code] = (now, 0)
        more = f" ({left_out} more since the last such line)" if left_out else ""
        log.warn("{code}: {text}{more}", code=code, text=text, more=more)

    # --- sessions and consumers

    def session_created(self, session: NotifiedSession) -> None:
        if not self._server.configuration.suppress_session_notifications:
            self.send("SESSION_CREATED", self._session(session))

    def session_closed(self, session: NotifiedSession) -> None:
        if not self._server.configuration.suppress_session_notifications:
            self.send("SESSION_CLOSED", self._session(session))

    def consumer_created(self, consumer: NotifiedConsumer, name: str) -> None:
        """``name`` is the name of the queue in the client's request, perhaps fully qualified."""
        user = consumer.session.subject.name
        headers = {**self._consumer(consumer), **_filter(_text_of(consumer.filter))}
        if QUALIFIER in name:
            headers["_AMQ_Address"] = (STRING, name)
        headers["_AMQ_CertSubjectDN"] = (STRING, "unavailable")
        if user:
            headers["_AMQ_ValidatedUser"] = (STRING, user)
        self.send("CONSUMER_CREATED", headers)

    def consumer_closed(self, consumer: NotifiedConsumer) -> None:
        self.send("CONSUMER_CLOSED", {**self._consumer(consumer), **_filter_or_null(_text_of(consumer.filter))})

    def consumer_slow(self, consumer: NotifiedConsumer) -> None:
        session, queue = consumer.session, consumer.queue
        self.send(
            "CONSUMER_SLOW",
            {
                "_AMQ_Address": (STRING, queue.definition.address),
                "_AMQ_ConsumerCount": (INT, queue.consumer_count),
                "_AMQ_RemoteAddress": (STRING, session.connection.remote),
                "_AMQ_ConnectionName": (STRING, session.connection.connection_id),
                "_AMQ_ConsumerName": (LONG, consumer.consumer_id),
                "_AMQ_SessionName": (STRING, session.name),
            },
        )

    def authentication_failed(self, user: str | None, remote: str) -> None:
        self.send(
            "SECURITY_AUTHENTICATION_VIOLATION",
            {"_AMQ_User": (STRING, user or "null"), "_AMQ_CertSubjectDN": (STRING, "unavailable"), "_AMQ_RemoteAddress": (STRING, remote)},
        )

    def permission_denied(self, address: str, permission: str, user: str | None) -> None:
        self.send(
            "SECURITY_PERMISSION_VIOLATION",
            {"_AMQ_Address": (STRING, address), "_AMQ_CheckType": (STRING, permission), "_AMQ_User": (STRING, user or "null")},
        )

    # --- parts of the messages

    def _binding(self, queue: Queue) -> dict[str, TypedValue]:
        return {"_AMQ_Binding_ID": (LONG, queue.queue_id), **local_headers(queue, self._server.node_id)}

    def _consumer(self, consumer: NotifiedConsumer) -> dict[str, TypedValue]:
        session, queue = consumer.session, consumer.queue
        headers: dict[str, TypedValue] = {
            **local_headers(queue, self._server.node_id),
            "_AMQ_ConsumerCount": (INT, queue.consumer_count),
            "_AMQ_User": (STRING, session.subject.name or "null"),
            "_AMQ_RemoteAddress": (STRING, session.connection.remote),
            "_AMQ_SessionName": (STRING, session.name),
            "_AMQ_ConsumerName": (LONG, consumer.consumer_id),
        }
        if session.connection.client_id:
            headers["_AMQ_Client_ID"] = (STRING, session.connection.client_id)
        return headers

    def _session(self, session: NotifiedSession) -> dict[str, TypedValue]:
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

    # --- the way of a notification

    def send(self, kind: str, headers: Mapping[str, TypedValue], ticket: int = 0) -> None:
        """Send a notification of this kind; a broker that has not started sends none.

        Listeners get it, and all later ones, once the work up to ``ticket`` is durable.
        """
        if not self._server.started:
            return
        self._arrived.append(_Notification(kind, headers, self._server.clock.wall_ms(), ticket))
        if self._telling:
            return
        self._telling = True
        try:
            while self._arrived:
                self._tell(self._arrived.popleft())
        finally:
            self._telling = False

    def part_changed(self, kind: str, name: str) -> None:
        """A named part of the broker was started or stopped: ``BRIDGE_STARTED``, ``CLUSTER_CONNECTION_STOPPED`` and their like."""
        self.send(kind, {"name": (STRING, name)})

    def _tell(self, notification: _Notification) -> None:
        for observer in list(self.told.listeners):
            try:
                observer(notification.kind, notification.headers)
            except Exception:
                log.failure("an observer of the notification {kind} failed", kind=notification.kind)
        store = self._server.store
        if notification.ticket > store.synced:
            self._held.append(notification)
            store.when_synced(notification.ticket, self._go_on)
        elif self._holds or self._held:
            self._held.append(notification)
        else:
            self._publish(notification)

    def hold(self) -> None:
        """See :class:`.queue_info.NotificationOrder`."""
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        self._go_on()

    def _go_on(self) -> None:
        """Give listeners what waits for nothing any more."""
        store, held = self._server.store, self._held
        while held and not self._holds and held[0].ticket <= store.synced:
            self._publish(held.popleft())

    def untold(self) -> dict[str, Untold]:
        """See :class:`.queue_info.NotificationOrder`."""
        first: dict[str, Untold] = {}
        for kind, headers, _, _ in self._held:
            if kind in ("BINDING_ADDED", "BINDING_REMOVED"):
                first.setdefault(str(headers["_AMQ_ClusterName"][1]), Untold(kind == "BINDING_ADDED", headers))
        return first

    def _publish(self, notification: _Notification) -> None:
        server = self._server
        kind, headers, time_ms, _ = notification
        self.queue_info.learn(kind, headers)
        target = server.configuration.management_notification_address
        if server.started and server.messaging.core.routing.bound(target):
            properties: dict[str, TypedValue] = {"_AMQ_NotifType": (STRING, kind), "_AMQ_NotifTimestamp": (LONG, time_ms), **headers}
            self._send(self.message(target, properties, time_ms, durable=True), target, None)

    def message(self, address: str, properties: dict[str, TypedValue], time_ms: int, *, durable: bool) -> Message:
        """See :class:`.queue_info.NotificationOrder`."""
        return Message.of(
            CoreMessage(
                message_id=self._server.store.next_id(),
                address=address,
                durable=durable,
                timestamp=time_ms,
                priority=0,
                properties=properties,
                body=bytes(4),
            )
        )

    def put(self, message: Message, queue: Queue) -> None:
        """See :class:`.queue_info.NotificationOrder`."""
        self._send(message, queue.definition.address, straight_to(queue))

    def _send(self, message: Message, address: str, arrival: Arrival | None) -> None:
        try:
            self._server.messaging.sending.send(message, address, None, None, self._context, arrival=arrival)
        except MQError as error:
            self.message_dropped("AMQ222039", f"a notification was not sent: {error}")


def _remote(binding: RemoteBinding) -> dict[str, TypedValue]:
    return {"_AMQ_Binding_ID": (LONG, binding.binding_id), **remote_headers(binding)}


def _text_of(filter: Filter | None) -> str | None:
    return None if filter is None else filter.text


def _filter(text: str | None) -> dict[str, TypedValue]:
    return {} if text is None else {"_AMQ_FilterString": (STRING, text)}


def _filter_or_null(text: str | None) -> dict[str, TypedValue]:
    return {"_AMQ_FilterString": (NULL, None) if text is None else (STRING, text)}
