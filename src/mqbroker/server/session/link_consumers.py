"""Consumers of home links: another broker consumes for its own clients.

Source: ``protocol-spec/``, chapter "Home brokers".
"""

from __future__ import annotations

from collections.abc import Iterable
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

    ``links`` knows the other consumers of its session for queues of the same address.
    """

    __slots__ = ("_links", "allowed")

    def __init__(
        self,
        session: SessionState,
        consumer_id: int,
        queue: Queue,
        filter: Filter | None,
        priority: int,
        links: LinkConsumers,
    ) -> None:
        if queue.address.settings.local_delivery_preferred:
            priority = AFTER_LOCAL_ONES
        super().__init__(session, consumer_id, queue, filter, priority)
        self.unlimited = True  # in bytes
        self.allowed = 0
        """Messages that may be sent now."""
        self._links = links

    def update_ready(self) -> None:
        if self.large is not None and self._may_send():
            self.large.advance()
        was_ready, self.ready = self.ready, self.large is None and self.allowed > 0 and self._may_send() and self.session.started
        if self.ready and not was_ready:
            self._became_ready()
        if self.forced:
            self.answer_forced()

    def grant(self, credits: int) -> None:
        self.allowed = self.allowed + credits if credits > 0 else 0
        self.update_ready()

    def handle(self, reference: Reference) -> None:
        self._spend()
        message_id = reference.message.message_id
        shared = self.queue.definition.routing_type == MULTICAST
        if not (shared and any(message_id in other.unacknowledged for other in self._links.beside(self))):
            super().handle(reference)
            return
        self.messages_delivered += 1
        self._begin_delivery(reference)
        if reference.message.large is None:
            self.refer(reference)
        else:
            self.ready = False
            self.large = AwaitedDelivery(self, reference)
            self.large.advance()

    def refer(self, reference: Reference) -> None:
        """Send the id: another consumer of the link has got the message."""
        self.session.send(ReceiveHeld(self.consumer_id, reference.message.message_id, reference.delivery_count))

    def others_with(self, message_id: int) -> list[LinkConsumer]:
        """The other consumers of the link that the message is in delivery to."""
        return [other for other in self._links.beside(self) if message_id in other.unacknowledged]

    def is_busy_with(self, message_id: int) -> bool:
        """Has the message not been sent as a whole yet?"""
        return self.large is not None and self.large.message_id == message_id

    def large_finished(self) -> None:
        waited = isinstance(self.large, AwaitedDelivery)
        super().large_finished()
        if not waited:  # else whoever let this one go on lets the others go on, too
            self._let_others_go_on()

    def _let_others_go_on(self) -> None:
        for other in () if self.session.closed else tuple(self._links.beside(self)):
            if isinstance(other.large, AwaitedDelivery):
                other.update_ready()

    def handle_first(self, reference: Reference, key: str) -> None:
        self._spend()
        super().handle_first(reference, key)

    def detach(self) -> list[Reference]:
        references = super().detach()
        self._let_others_go_on()
        self._links.gone(self)
        return references

    def _spend(self) -> None:
        self.allowed -= 1
        if self.allowed <= 0:
            self.ready = False


class AwaitedDelivery:
    """A large message that another consumer of the link is being sent: its id follows, or its body, if that one ends before."""

    __slots__ = ("_consumer", "_reference")

    def __init__(self, consumer: LinkConsumer, reference: Reference) -> None:
        self._consumer = consumer
        self._reference = reference

    @property
    def message_id(self) -> int:
        return self._reference.message.message_id

    def advance(self) -> None:
        consumer, message_id = self._consumer, self.message_id
        others = consumer.others_with(message_id)
        if any(not other.is_busy_with(message_id) for other in others):
            consumer.refer(self._reference)
            consumer.large_finished()
        elif all(isinstance(other.large, AwaitedDelivery) for other in others):
            consumer.transmit(self._reference.message, self._reference.delivery_count)

    def abandon(self) -> None:
        """Nothing has been sent."""


class LinkConsumers:
    """The consumers of one session of a home link, by the address of their queues."""

    __slots__ = ("_by_address",)

    def __init__(self) -> None:
        self._by_address: dict[str, dict[LinkConsumer, None]] = {}

    def open(self, session: SessionState, consumer_id: int, queue: Queue, filter: Filter | None, priority: int) -> LinkConsumer:
        consumer = LinkConsumer(session, consumer_id, queue, filter, priority, self)
        self._by_address.setdefault(queue.definition.address, {})[consumer] = None
        return consumer

    def beside(self, consumer: LinkConsumer) -> Iterable[LinkConsumer]:
        consumers = self._by_address[consumer.queue.definition.address]
        return (each for each in consumers if each is not consumer and not each.closed)

    def gone(self, consumer: LinkConsumer) -> None:
        """The consumer leaves its queue."""
        address = consumer.queue.definition.address
        consumers = self._by_address.get(address, {})
        consumers.pop(consumer, None)
        if not consumers:
            self._by_address.pop(address, None)


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
