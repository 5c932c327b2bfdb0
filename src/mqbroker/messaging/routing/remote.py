"""Queues of other brokers, as they are known here (Artemis manual, chapter "Clusters")."""

from __future__ import annotations

import struct
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Protocol

from mqbroker.messaging.filters.filter import Filter, parse_filter
from mqclient.errors import InvalidFilterExpressionError
from mqclient.wire.message import KEY_ROUTE_TO

if TYPE_CHECKING:
    from mqbroker.messaging.message.message import Message
    from mqbroker.messaging.queues.queue import Queue

REMOTE_ID_BASE = 1 << 62
"""Ids of queues of other brokers begin here; ids of the store never come so far."""
NODE_ID_LENGTH = 36
"""Characters of a node id, which ends the cluster name of each of the node's queues."""


class LoadBalancing(StrEnum):
    """The values of ``message-load-balancing``.

    With OFF and OFF_WITH_REDISTRIBUTION sent messages are not routed to other brokers; with the latter, messages that wait here without a
    consumer are moved there.
    """

    OFF = "OFF"
    STRICT = "STRICT"
    ON_DEMAND = "ON_DEMAND"
    OFF_WITH_REDISTRIBUTION = "OFF_WITH_REDISTRIBUTION"

    @property
    def routes(self) -> bool:
        """Do remote queues take part in the choice for each message?"""
        return self in (LoadBalancing.STRICT, LoadBalancing.ON_DEMAND)

    @property
    def redistributes(self) -> bool:
        return self in (LoadBalancing.ON_DEMAND, LoadBalancing.OFF_WITH_REDISTRIBUTION)


class Attention(Enum):
    """The messages that the consumers of a queue take together; SOME_MESSAGES when all consumers have filters."""

    NO_MESSAGE = 0
    SOME_MESSAGES = 1
    EVERY_MESSAGE = 2


def attention_of(queue: Queue) -> Attention:
    """The Attention of a queue of this broker."""
    attention = Attention.NO_MESSAGE
    for consumer in queue.consumers():
        if consumer.filter is None:
            return Attention.EVERY_MESSAGE
        attention = Attention.SOME_MESSAGES
    return attention


class BindingOwner(Protocol):
    """The routing table, as the remote bindings see it."""

    def remote_changed(self, binding: RemoteBinding) -> None:
        """The choice between ``binding`` and other queues may have changed."""

    def remote_connected(self, binding: RemoteBinding) -> None:
        """The link for the messages of ``binding`` is up again."""


class RemoteBinding:
    """A queue of another broker.  Messages for it go to ``store_and_forward``, with its ``remote_id`` in a property.

    ``binding_id`` is the id that this broker gives it; ``cluster_name`` the name of the queue followed by the id of its node.
    """

    __slots__ = (
        "_connected",
        "_filter",
        "_filters",
        "_owner",
        "address",
        "appeared",
        "binding_id",
        "cluster_name",
        "consumer_count",
        "consumer_filters",
        "consumers_told",
        "distance",
        "load_balancing",
        "remote_id",
        "route_key",
        "route_value",
        "routing_name",
        "store_and_forward",
        "withdrawn",
    )

    def __init__(
        self,
        address: str,
        routing_name: str,
        cluster_name: str,
        binding_id: int,
        remote_id: int,
        distance: int,
        load_balancing: LoadBalancing,
        store_and_forward: Queue,
        owner: BindingOwner,
        filter: Filter | None = None,
    ) -> None:
        self.address = address
        self.routing_name = routing_name
        self.cluster_name = cluster_name
        self.binding_id = binding_id
        self.remote_id = remote_id
        self.distance = distance
        self.load_balancing = load_balancing
        self.store_and_forward = store_and_forward
        self._owner = owner
        self._filter = filter
        self._connected = True
        self.withdrawn = False
        """Is it about to be removed?  Then no message goes there."""
        self.appeared = 0
        self.consumer_count = 0
        self.consumer_filters: dict[str, int] = {}
        """Number of consumers by the text of their filter, without consumers that have no filter."""
        self.consumers_told: dict[str | None, int] = {}
        """Consumers by filter (None: without), as announced to members further away; kept by :meth:`reset_consumers`."""
        self._filters: dict[str, Filter | None] = {}
        """The parsed filters; None for a text that cannot be parsed here, which matches nothing."""
        self.route_key = f"{KEY_ROUTE_TO}{store_and_forward.name}".encode("utf-16-le")
        self.route_value = struct.pack(">q", remote_id)

    @property
    def queue_name(self) -> str:
        """The name of the queue on its own broker."""
        return self.cluster_name[:-NODE_ID_LENGTH]

    @property
    def node_id(self) -> str:
        """The id of the broker that has the queue."""
        return self.cluster_name[-NODE_ID_LENGTH:]

    @property
    def filter(self) -> Filter | None:
        """The filter of the queue itself."""
        return self._filter

    @filter.setter
    def filter(self, filter: Filter | None) -> None:
        self._filter = filter
        self._owner.remote_changed(self)

    @property
    def connected(self) -> bool:
        """Is there a link to where its messages go?"""
        return self._connected

    @connected.setter
    def connected(self, connected: bool) -> None:
        if connected != self._connected:
            self._connected = connected
            if connected:
                self._owner.remote_connected(self)
            else:
                self._owner.remote_changed(self)

    def withdraw(self) -> None:
        """Mark the binding for a later removal.  As with :meth:`lose_link` the caller tells the routing table."""
        self.withdrawn = True
        self._connected = False

    def lose_link(self) -> None:
        """The link is lost.  The caller tells the routing table, once for many bindings."""
        self._connected = False

    # --- consumers there

    def consumer_added(self, filter_string: str | None) -> None:
        """A consumer came, with this filter; None and a blank text are none."""
        before = self.attention
        self.consumer_count += 1
        text = (filter_string or "").strip()
        if text:
            self.consumer_filters[text] = self.consumer_filters.get(text, 0) + 1
            if text not in self._filters:
                try:
                    self._filters[text] = parse_filter(text)
                except InvalidFilterExpressionError:
                    self._filters[text] = None
        self._tell(before)

    def consumer_removed(self, filter_string: str | None) -> None:
        """A consumer went; one that was not known is not missed."""
        before = self.attention
        text = (filter_string or "").strip()
        if text:
            left = self.consumer_filters.get(text, 0) - 1
            if left < 0:
                return
            if left:
                self.consumer_filters[text] = left
            else:
                del self.consumer_filters[text], self._filters[text]
            self.consumer_count -= 1
        elif self.attention is Attention.EVERY_MESSAGE:
            self.consumer_count -= 1
        self._tell(before)

    def reset_consumers(self) -> None:
        """Forget all consumers: the other broker is about to tell of them anew."""
        before = self.attention
        self.consumer_count = 0
        self.consumer_filters.clear()
        self._filters.clear()
        self._tell(before)

    def consumers_with(self, filter_string: str | None) -> int:
        """How many consumers have this filter; None: how many have none."""
        if filter_string is None:
            return self.consumer_count - sum(self.consumer_filters.values())
        return self.consumer_filters.get(filter_string, 0)

    @property
    def attention(self) -> Attention:
        """The messages that the consumers there take together."""
        if not self.consumer_count:
            return Attention.NO_MESSAGE
        if not self._filters or self.consumer_count > sum(self.consumer_filters.values()):
            return Attention.EVERY_MESSAGE
        return Attention.SOME_MESSAGES

    def _tell(self, before: Attention) -> None:
        if self.attention is not before:
            self._owner.remote_changed(self)

    def has_matching_consumer(self, message: Message) -> bool:
        """Is there a consumer that would take ``message``?"""
        attention = self.attention
        if attention is not Attention.SOME_MESSAGES:
            return attention is Attention.EVERY_MESSAGE
        return any(filter is not None and filter.matches(message) for filter in self._filters.values())

    # --- the choice

    def matches(self, message: Message) -> bool:
        """Would the queue itself take ``message``?"""
        return self._filter is None or self._filter.matches(message)

    def high_priority(self, message: Message) -> bool:
        """Is there a consumer that would take ``message`` at once?"""
        return self.load_balancing is not LoadBalancing.OFF and self.has_matching_consumer(message)

    def __repr__(self) -> str:
        return f"RemoteBinding({self.cluster_name!r} by {self.store_and_forward.name!r})"
