"""Information on all queues and their consumers for another broker that has asked for it.

A *snapshot* goes straight to the queue that the other broker listens on, in several turns, since there may be very many queues.  The
snapshot has one place in the order of notifications: later notifications are held back from all listeners until the snapshot is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mqbroker.messaging.event import Event
from mqbroker.messaging.queues.definitions import ANYCAST
from mqclient.wire.properties import BOOLEAN, INT, LONG, NULL, STRING, TypedValue

if TYPE_CHECKING:
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.messaging import Messaging
    from mqbroker.messaging.ports import Clock
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.messaging.routing.remote import RemoteBinding
    from mqbroker.messaging.turns.steps import Steps

RESET = "_AMQ_RESET_QUEUE_DATA"
RESET_COMPLETE = "_AMQ_RESET_QUEUE_DATA_COMPLETE"
QUEUE_HEADERS = ("_AMQ_Address", "_AMQ_ClusterName", "_AMQ_RoutingName", "_AMQ_Distance")


def cluster_name(queue: Queue, node_id: str) -> str:
    """The name that a queue of this broker has in the whole cluster."""
    return f"{queue.name}{node_id}"


def routing_name(queue: Queue) -> str:
    """Queues of one address and the same routing name share its messages, wherever in the cluster they are."""
    return queue.definition.address if queue.definition.routing_type == ANYCAST else queue.name


def headers_of(address: str, cluster_name: str, routing_name: str, distance: int) -> dict[str, TypedValue]:
    """The headers by which a notification names a queue.  ``distance`` is the number of brokers between, 0 for a queue of this broker."""
    values: tuple[TypedValue, ...] = ((STRING, address), (STRING, cluster_name), (STRING, routing_name), (INT, distance))
    return dict(zip(QUEUE_HEADERS, values, strict=True))


def local_headers(queue: Queue, node_id: str) -> dict[str, TypedValue]:
    return headers_of(queue.definition.address, cluster_name(queue, node_id), routing_name(queue), 0)


def remote_headers(binding: RemoteBinding) -> dict[str, TypedValue]:
    return headers_of(binding.address, binding.cluster_name, binding.routing_name, binding.distance)


class InformingServer(Protocol):
    """The server that queue information tells of."""

    clock: Clock
    messaging: Messaging

    @property
    def node_id(self) -> str: ...


class Untold(NamedTuple):
    """The first notification of a queue's coming (``added``) or going that listeners do not have yet."""

    added: bool
    headers: Mapping[str, TypedValue]


class NotificationOrder(Protocol):
    """The notifications, in whose order a snapshot has its place."""

    def hold(self) -> None:
        """Keep later notifications back from listeners.  Calls nest: one :meth:`release` each."""

    def release(self) -> None: ...

    def untold(self) -> Mapping[str, Untold]:
        """The queues, by their cluster names, that have come or gone without a word to the listeners up to now."""

    def message(self, address: str, properties: dict[str, TypedValue], time_ms: int, *, durable: bool) -> Message:
        """A message without a body, as notifications are."""

    def put(self, message: Message, queue: Queue) -> None:
        """Send a message straight to one queue, behind all earlier notifications."""


class QueueInfo:
    """Sends snapshots.  The consumers in a snapshot are counted from the notifications about them, so that a snapshot and later
    notifications never disagree."""

    def __init__(self, server: InformingServer, notifications: NotificationOrder) -> None:
        self._server = server
        self._notifications = notifications
        self._consumers: dict[str, dict[str | None, int]] = {}
        """Numbers of consumers by queue (its cluster name) and filter (None = without)."""
        self.sent: Event[()] = Event()
        """A snapshot was sent, to a broker that may have missed earlier notifications."""

    def learn(self, kind: str, headers: Mapping[str, TypedValue]) -> None:
        """Count the consumers in a notification that goes to its listeners now."""
        if kind not in ("CONSUMER_CREATED", "CONSUMER_CLOSED", "BINDING_REMOVED"):
            return
        name = _text(headers, "_AMQ_ClusterName")
        if name is None:
            return
        if kind == "BINDING_REMOVED":
            self._consumers.pop(name, None)
            return
        filter = _text(headers, "_AMQ_FilterString") or None
        consumers = self._consumers.setdefault(name, {})
        left = consumers[filter] = consumers.get(filter, 0) + (1 if kind == "CONSUMER_CREATED" else -1)
        if left <= 0:
            del consumers[filter]
            if not consumers:
                del self._consumers[name]

    def consumers_of(self, name: str) -> Mapping[str | None, int]:
        """Consumers by filter (None = without) of the queue with this cluster name, as listeners know them by now."""
        return self._consumers.get(name, {})

    def send_to(self, queue: Queue) -> Steps[None]:
        """Put a snapshot into ``queue``: a marker, each binding that the filter of ``queue`` lets through with its consumers, and a
        marker."""
        notifications = self._notifications
        notifications.hold()
        try:
            self._mark(queue, RESET)
            core, node_id = self._server.messaging.core, self._server.node_id
            local, remote, untold = list(core.queues.values()), list(core.routing.remote_bindings()), notifications.untold()
            for binding in local:
                if queue.deleted:
                    return
                name = cluster_name(binding, node_id)
                if name not in untold:
                    headers, filter = local_headers(binding, node_id), binding.definition.filter_string
                    yield self._tell(queue, name, headers, (LONG, binding.queue_id), _filter(filter))
            for other in remote:
                if queue.deleted:
                    return
                if other.cluster_name not in untold:
                    filter = None if other.filter is None else other.filter.text
                    yield self._tell(queue, other.cluster_name, remote_headers(other), (LONG, other.binding_id), _filter(filter))
            for name, (added, gone) in untold.items():
                if queue.deleted:
                    return
                if not added:
                    headers = {header: gone[header] for header in QUEUE_HEADERS}
                    yield self._tell(queue, name, headers, gone["_AMQ_Binding_ID"], gone["_AMQ_FilterString"])
            self._mark(queue, RESET_COMPLETE)
        finally:
            notifications.release()
        self.sent()

    def _mark(self, queue: Queue, marker: str) -> None:
        notifications = self._notifications
        notifications.put(notifications.message(queue.name, {marker: (BOOLEAN, True)}, 0, durable=False), queue)

    def _tell(self, queue: Queue, name: str, headers: dict[str, TypedValue], binding_id: TypedValue, filter: TypedValue) -> int:
        """Send a queue and its consumers.  Returns the number of messages that were offered to ``queue``."""
        self._put(queue, "BINDING_ADDED", {**headers, "_AMQ_Binding_ID": binding_id, "_AMQ_FilterString": filter})
        count = 1
        for consumer in self._consumers_in_order(name):
            self._put(queue, "CONSUMER_CREATED", {**headers, **consumer})
            count += 1
        return count

    def _consumers_in_order(self, name: str) -> Iterator[dict[str, TypedValue]]:
        """The filter headers of the consumers of a queue; consumers without a filter come first."""
        consumers = dict(self.consumers_of(name))
        for _ in range(consumers.pop(None, 0)):
            yield {}
        for filter, count in consumers.items():
            for _ in range(count):
                yield {"_AMQ_FilterString": (STRING, filter)}

    def _put(self, queue: Queue, kind: str, headers: dict[str, TypedValue]) -> None:
        now = self._server.clock.wall_ms()
        properties: dict[str, TypedValue] = {"_AMQ_NotifType": (STRING, kind), "_AMQ_NotifTimestamp": (LONG, now), **headers}
        message = self._notifications.message(queue.name, properties, now, durable=False)
        if queue.filter is None or queue.filter.matches(message):
            self._notifications.put(message, queue)


def _filter(text: str | None) -> TypedValue:
    return (NULL, None) if text is None else (STRING, text)


def _text(headers: Mapping[str, TypedValue], name: str) -> str | None:
    value = headers.get(name, (NULL, None))[1]
    return value if isinstance(value, str) else None
