"""The consumers of a session: created, closed, and their messages taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from mqbroker.messaging.administration.registrar import CONSUMER_PLACE, Reservation
from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.queues.definitions import MULTICAST
from mqbroker.messaging.queues.references import Reference
from mqbroker.server.session.browsing import BrowsingConsumer
from mqbroker.server.session.consumers import ServerConsumer, disconnect
from mqbroker.server.session.link_consumers import LinkConsumers, give_back, of_home_link
from mqbroker.server.transport.naming import queue_part
from mqclient.errors import (
    IllegalStateError,
    InvalidQueueConfigurationError,
    MaxConsumerLimitExceededError,
    MQError,
    QueueDoesNotExistError,
)
from mqclient.wire import packets as wire
from mqclient.wire.hot import decode_flow_token
from mqclient.wire.packets import Packet

if TYPE_CHECKING:
    from mqbroker.messaging.queues.queue import Queue
    from mqbroker.server.session_state import SessionState


class SessionConsumers:
    """The consumers of one session by their id.  ``describe`` gives the answer to a client's query for a queue."""

    __slots__ = ("_describe", "_links", "_places", "_server", "_session", "by_id")

    def __init__(self, session: SessionState, describe: Callable[[Queue], Packet]) -> None:
        self._session = session
        self._describe = describe
        self._server = session.server
        self.by_id: dict[int, ServerConsumer] = {}
        self._places: dict[int, Reservation] | None = None
        """The reservations for consumers, by consumer id; None before the first."""
        self._links: LinkConsumers | None = None
        """The consumers of a home link; None before the first."""

    def _create(self, packet: wire.CreateConsumer) -> None:
        try:
            self._make(packet)
        except MQError:
            # A client that recreates its consumers after a failure wants no answer, but without a notice would wait for ever.
            if not packet.requires_response and packet.consumer_id not in self.by_id:
                disconnect(self._session, packet.consumer_id)
            raise

    def _make(self, packet: wire.CreateConsumer) -> None:
        session = self._session
        name, _ = session.connection.naming.strip(packet.queue_name)
        queue = self._server.messaging.core.queues.get(queue_part(name))
        if queue is None:
            raise QueueDoesNotExistError(f"AMQ229017: Queue {packet.queue_name} does not exist")
        if packet.consumer_id in self.by_id:
            raise InvalidQueueConfigurationError(f"consumer {packet.consumer_id} exists already in this session")
        self._server.connection_limits.check_consumers(session.connection)
        session.permissions.check("browse" if packet.browse_only else "consume", queue.definition.address, queue.name)
        if queue.definition.routing_type == MULTICAST and not of_home_link(session):
            # Its client may have deleted the subscription at another member and made it again: the consumer is not for the former one.
            # A home link is not held up: its member has asked how far this broker has read (:mod:`mqbroker.imq.master.lives`).
            session.read_on(queue.name)
        self._server.connection_limits.check_filters(session.connection, packet.filter_string)
        session.connection.filter_read(packet.filter_string)
        filter = parse_filter(packet.filter_string)
        if not packet.browse_only and queue.has_readers:
            raise IllegalStateError(
                f"AMQ229907: queue {queue.name} has readers ({', '.join(queue.log.readers) if queue.log else ''}): "
                "only browsers may look at it as long as it has"
            )
        limit = queue.definition.max_consumers
        if not packet.browse_only and 0 <= limit <= queue.consumer_count:
            raise _too_many(queue)
        if not packet.browse_only and (limit >= 0 or queue.definition.exclusive):
            self._take_place(queue, packet.consumer_id)
        if of_home_link(session) and not packet.browse_only:
            self._links = self._links or LinkConsumers()
            kind: Callable[..., ServerConsumer] = self._links.open
        else:
            kind = BrowsingConsumer if packet.browse_only else ServerConsumer
        consumer = kind(session, packet.consumer_id, queue, filter, packet.priority)
        self.by_id[packet.consumer_id] = consumer
        if not packet.browse_only:
            queue.add_consumer(consumer)
        if packet.requires_response:
            session.reply(self._describe(queue))
        if not packet.browse_only:
            self._server.notifications.consumer_created(consumer, name)

    def _take_place(self, queue: Queue, consumer_id: int) -> None:
        place = Reservation(CONSUMER_PLACE, queue.name, f"{self._session.name}/{consumer_id}")
        if not self._server.messaging.registrar.reserve(place):
            raise _too_many(queue)
        if self._places is None:
            self._places = {}
        self._places[consumer_id] = place

    def flow_token(self, data: bytes) -> None:
        """A SESS_FLOWTOKEN frame; an unknown consumer is ignored."""
        consumer_id, credits = decode_flow_token(data[13:])
        consumer = self.by_id.get(consumer_id)
        if consumer is not None:
            consumer.grant(credits)

    def _force(self, packet: wire.ForceConsumerDelivery) -> None:
        consumer = self.by_id.get(packet.consumer_id)
        if consumer is not None:
            # After this session's own sends, so that the new consumer can get their messages.
            self._session.context.run(0, consumer.force, packet.sequence)

    def _give_back(self, packet: wire.ReturnMessages) -> None:
        give_back(self._session, self.by_id.get(packet.consumer_id), packet)

    def _close(self, packet: wire.ConsumerClose) -> None:
        consumer = self.by_id.pop(packet.consumer_id, None)
        if consumer is not None:
            self._remove(consumer, failed=False)
        self._session.reply_null()

    def expel(self, consumer: ServerConsumer) -> None:
        """Management closes a consumer; its client is told."""
        self.by_id.pop(consumer.consumer_id, None)
        self._remove(consumer, failed=True)
        consumer.queue_deleted()

    def close_all(self, failed: bool) -> None:
        """The session ends."""
        consumers, self.by_id = list(self.by_id.values()), {}
        held = [(consumer, consumer.detach()) for consumer in consumers]
        for consumer in consumers:
            self._tell_closed(consumer)
        for consumer, references in held:
            self._settle_removed(consumer, references, failed)

    def _remove(self, consumer: ServerConsumer, failed: bool) -> None:
        references = consumer.detach()
        self._tell_closed(consumer)
        self._settle_removed(consumer, references, failed)

    def _tell_closed(self, consumer: ServerConsumer) -> None:
        """Release the reservation, and send the notification unless the queue's deletion has sent it."""
        place = None if self._places is None else self._places.pop(consumer.consumer_id, None)
        if place is not None:
            self._server.messaging.registrar.release(place)
        if not consumer.browse_only and not consumer.queue.deleted:
            self._server.notifications.consumer_closed(consumer)

    def _settle_removed(self, consumer: ServerConsumer, references: list[Reference], failed: bool) -> None:
        settlement = self._server.messaging.settlement
        if failed:
            settlement.redeliver(references)
        else:
            settlement.cancel(references)
        if consumer.browse_only:
            return
        queue = consumer.queue
        if queue.consumer_count or queue.deleted:
            return
        if queue.definition.transient:
            self._server.messaging.administration.delete_queue(queue, keep_address=True)
        elif queue.definition.purge_on_no_consumers:
            self._server.messaging.removal.purge_soon(queue)

    def started_changed(self) -> None:
        for consumer in self.by_id.values():
            consumer.update_ready()

    def writable_changed(self) -> None:
        """The connection has room for output again, or has no more room."""
        for consumer in list(self.by_id.values()):
            consumer.update_ready()

    def take_back(self, keep_first_counts: bool) -> tuple[list[Reference], list[Reference]]:
        """Take all references in delivery from their consumers: (consumed in vain, merely prefetched).

        With ``keep_first_counts`` the oldest reference of each consumer counts as consumed.
        """
        consumed: list[Reference] = []
        prefetched: list[Reference] = []
        for consumer in self.by_id.values():
            if consumer.browse_only:
                continue
            if consumer.large is not None:
                consumer.large.abandon()
                consumer.large = None
            references = list(consumer.unacknowledged.values())
            consumer.unacknowledged.clear()
            consumer.bytes_in_transit = 0
            if keep_first_counts and references:
                consumed.append(references.pop(0))
            prefetched.extend(references)
        return consumed, prefetched

    HANDLERS: ClassVar[Mapping[int, Callable[[Any, Any], object]]] = {
        wire.CreateConsumer.TYPE: _create,
        wire.ConsumerClose.TYPE: _close,
        wire.ReturnMessages.TYPE: _give_back,
        wire.ForceConsumerDelivery.TYPE: _force,
    }


def _too_many(queue: Queue) -> MaxConsumerLimitExceededError:
    return MaxConsumerLimitExceededError(
        f"AMQ229200: Maximum Consumer Limit Reached on Queue:(address={queue.definition.address},queue={queue.name})"
    )
