"""Consumers of home links: another broker consumes for its own clients.

Source: ``protocol-spec/``, chapter "Home brokers".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mqbroker.messaging.filters.filter import Filter
from mqbroker.messaging.queues.definitions import MULTICAST
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference
from mqbroker.server.session.consumers import ServerConsumer
from mqclient.wire.packets import HOME_LINK_KEY, ReceiveHeld, ReturnMessages

if TYPE_CHECKING:
    from mqbroker.server.session_state import SessionState

AFTER_LOCAL_ONES = -(1 << 31)
"""The priority of consumers of home links where local ones are preferred."""


def of_home_link(session: SessionState) -> bool:
    """Do the consumers of this session belong to another broker?"""
    return HOME_LINK_KEY in session.metadata and (session.subject.is_cluster_user or not session.server.security.enabled)


class LinkConsumer(ServerConsumer):
    """A consumer whose credits are messages.

    ``beside(consumer)`` gives the other consumers of its session for queues of the same address.
    """

    __slots__ = ("_beside", "allowed")

    def __init__(
        self,
        session: SessionState,
        consumer_id: int,
        queue: Queue,
        filter: Filter | None,
        priority: int,
        beside: Callable[[LinkConsumer], Iterable[LinkConsumer]],
    ) -> None:
        if queue.address.settings.local_delivery_preferred:
            priority = AFTER_LOCAL_ONES
        super().__init__(session, consumer_id, queue, filter, priority)
        self.unlimited = True  # in bytes
        self.allowed = 0
        """Messages that may be sent now."""
        self._beside = beside

    def update_ready(self) -> None:
        if self.large is not None and self._may_send():
            self.large.advance()
        was_ready, self.ready = self.ready, self.large is None and self.allowed > 0 and self._may_send() and self.session.started
        if self.ready and not was_ready:
            self._became_ready()

    def grant(self, credits: int) -> None:
        self.allowed = self.allowed + credits if credits > 0 else 0
        self.update_ready()

    def handle(self, reference: Reference) -> None:
        self._spend()
        if reference.message.large is None and self.queue.definition.routing_type == MULTICAST and self._is_held(reference):
            self.messages_delivered += 1
            self.unacknowledged[reference.message.message_id] = reference
            self.bytes_in_transit += reference.message.memory
            packet = ReceiveHeld(self.consumer_id, reference.message.message_id, reference.delivery_count)
            self.session.send(packet)
        else:
            super().handle(reference)

    def _is_held(self, reference: Reference) -> bool:
        """Does the other broker have the message already?"""
        message_id = reference.message.message_id
        return any(message_id in other.unacknowledged for other in self._beside(self))

    def handle_first(self, reference: Reference, key: str) -> None:
        self._spend()
        super().handle_first(reference, key)

    def _spend(self) -> None:
        self.allowed -= 1
        if self.allowed <= 0:
            self.ready = False


class LinkConsumers:
    """The consumers of one session of a home link, by the address of their queues."""

    __slots__ = ("_by_address",)

    def __init__(self) -> None:
        self._by_address: dict[str, dict[LinkConsumer, None]] = {}

    def open(self, session: SessionState, consumer_id: int, queue: Queue, filter: Filter | None, priority: int) -> LinkConsumer:
        consumer = LinkConsumer(session, consumer_id, queue, filter, priority, self._beside)
        self._by_address.setdefault(queue.definition.address, {})[consumer] = None
        return consumer

    def _beside(self, consumer: LinkConsumer) -> Iterable[LinkConsumer]:
        consumers = self._by_address[consumer.queue.definition.address]
        for each in [each for each in consumers if each.closed]:
            del consumers[each]
        return (each for each in consumers if each is not consumer)


def give_back(session: SessionState, consumer: ServerConsumer | None, packet: ReturnMessages) -> None:
    """A SESS_RETURN packet."""
    if not isinstance(consumer, LinkConsumer):
        session.connection.report(f"SESS_RETURN for consumer {packet.consumer_id}, which belongs to no home link")
        return
    waiting = consumer.unacknowledged
    references = [waiting.pop(message_id) for message_id in packet.message_ids if message_id in waiting]
    for reference in references:
        consumer.bytes_in_transit -= reference.message.memory
    settlement = session.server.messaging.settlement
    if packet.counted:
        settlement.redeliver(references)
    else:
        settlement.cancel(references)
