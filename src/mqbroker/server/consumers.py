"""The consumers of a session: credits, delivery, browsing, and messages in delivery."""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mqbroker.messaging.filter import Filter, parse_filter
from mqbroker.messaging.message import MEMORY_PER_MESSAGE, Message
from mqbroker.messaging.ports import PagedMessage, PagePlace, PageReader
from mqbroker.messaging.queue import Queue
from mqbroker.messaging.references import Cursor, Reference
from mqbroker.server.large_delivery import LargeDelivery
from mqbroker.server.naming import split_qualified
from mqclient.errors import (
    InvalidQueueConfigurationError,
    MaxConsumerLimitExceededError,
    MQError,
    QueueDoesNotExistError,
)
from mqclient.wire import packets as wire
from mqclient.wire.hot import VERSION_NEW_ADDRESSING, decode_flow_token, to_old_layout
from mqclient.wire.message import KEY_FORCED_DELIVERY, CoreMessage, encode_message
from mqclient.wire.properties import LONG

if TYPE_CHECKING:
    from mqbroker.server.session import ServerSession

_pack_header = struct.Struct(">ibq").pack
_pack_trailer = struct.Struct(">qi").pack
RECEIVE_TYPE = wire.SessionReceive.TYPE
FRAME_OVERHEAD = 25
"""Bytes of a SESS_RECEIVE_MSG frame beside its message: 13 of header, 12 of trailer."""
UNLIMITED = -1
FORCED_MAX = 1000
"""Forced deliveries of one consumer that wait for an answer; a client asks for one at a time."""
COSTLY_FILTER_LENGTH = 1024
"""Characters of a filter from which on reading it is a costly request."""

VERSION_DISCONNECT_CONSUMER = 124


class ServerConsumer:
    """One consumer of a session (a :class:`~mqbroker.messaging.consumer.QueueConsumer`).

    ``credits`` are bytes of frames; the balance may go below zero by one message.  ``unacknowledged`` are the references in delivery here,
    by message id, in the order of delivery.
    """

    __slots__ = (
        "_forcing",
        "_search_due",
        "_simple",
        "_turn",
        "bytes_in_transit",
        "closed",
        "consumer_id",
        "created_ms",
        "credits",
        "cursor",
        "filter",
        "forced",
        "large",
        "last_acknowledged_ms",
        "last_delivered_ms",
        "messages_acknowledged",
        "messages_delivered",
        "priority",
        "queue",
        "ready",
        "sequential_id",
        "session",
        "unacknowledged",
        "unlimited",
    )

    browse_only = False

    def __init__(self, session: ServerSession, consumer_id: int, queue: Queue, filter: Filter | None, priority: int) -> None:
        self.session = session
        self._turn = session.server.turn
        self._simple = not (session.pre_acknowledge or session.server.persists_delivery_count or session.version < VERSION_NEW_ADDRESSING)
        """Is a regular message written as it is, and then kept until it is acknowledged?"""
        self.consumer_id = consumer_id
        self.queue = queue
        self.filter = filter
        self.priority = priority
        self.cursor: Cursor | None = None
        self.credits = 0
        self.unlimited = False
        self.ready = False
        self.closed = False
        self.created_ms = session.server.clock.wall_ms()
        self.sequential_id = session.server.store.next_id()
        self.unacknowledged: OrderedDict[int, Reference] = OrderedDict()
        self.large: LargeDelivery | None = None
        self.forced: list[int] = []
        self._forcing = False
        self._search_due = False
        self.messages_delivered = 0
        self.messages_acknowledged = 0
        self.bytes_in_transit = 0
        self.last_delivered_ms = 0
        self.last_acknowledged_ms = 0

    # --- readiness

    def update_ready(self) -> None:
        """Work out again whether a message may be sent; a large one that stalled goes on."""
        session = self.session
        if self.large is not None and self._may_send():
            self.large.advance()
        ready = self.large is None and self._may_send() and (session.started or self.browse_only)
        if ready and not self.ready:
            self.ready = True
            self._became_ready()
        else:
            self.ready = ready
        if self.forced:
            self.answer_forced()

    def _may_send(self) -> bool:
        return not self.closed and (self.unlimited or self.credits > 0) and self.session.connection.writable

    def _became_ready(self) -> None:
        self.session.server.turn.mark_queue(self.queue)

    def grant(self, credits: int) -> None:
        """Credits from the client: -1 unlimited, 0 sets the balance to zero, n adds n."""
        if credits == UNLIMITED:
            self.unlimited = True
        elif credits == 0:
            self.credits = 0
        else:
            self.credits += credits
        self.update_ready()

    def charge(self, frame_size: int) -> None:
        """A frame of a message was sent."""
        if not self.unlimited:
            self.credits -= frame_size
            if self.credits <= 0:
                self.ready = False

    # --- delivery

    def handle(self, reference: Reference) -> None:
        """Send a message that the queue hands over."""
        session = self.session
        message = reference.message
        self.messages_delivered += 1
        self.last_delivered_ms = self._turn.now_ms
        if self._simple and message.large is None:
            self.unacknowledged[message.message_id] = reference
            buffer = message.buffer
            self.bytes_in_transit += MEMORY_PER_MESSAGE + 2 * len(buffer) - message.properties_offset
            size = len(buffer) + FRAME_OVERHEAD
            head = _pack_header(size - 4, RECEIVE_TYPE, session.channel)
            session.send_parts((head, buffer, _pack_trailer(self.consumer_id, reference.delivery_count)), size)
            if not self.unlimited:
                self.credits -= size
                if self.credits <= 0:
                    self.ready = False
            return
        if session.pre_acknowledge:
            self._handle_acknowledged(reference)
            return
        self.unacknowledged[message.message_id] = reference
        self.bytes_in_transit += message.memory
        if session.server.persists_delivery_count:
            session.server.messaging.settlement.record_delivery(reference)
        self.transmit(reference, reference.delivery_count)

    def _handle_acknowledged(self, reference: Reference) -> None:
        """Pre-acknowledge: the broker is done with the message before it is sent."""
        body = reference.message.large
        if body is not None:
            body.hold()
        self.session.server.messaging.settlement.acknowledge((reference,))
        self.transmit(reference, reference.delivery_count)
        if body is not None:
            body.release()

    def transmit(self, reference: Reference, delivery_count: int) -> None:
        """Write the packets of a message."""
        session = self.session
        message = reference.message
        if message.large is not None:
            self.ready = False
            self.large = LargeDelivery(self, message, delivery_count)
            self.large.advance()
            return
        buffer = message.buffer
        if session.version < VERSION_NEW_ADDRESSING:
            buffer = to_old_layout(session.administration.with_old_address(message))
        size = len(buffer) + FRAME_OVERHEAD
        session.send_parts(
            (_pack_header(size - 4, RECEIVE_TYPE, session.channel), buffer, _pack_trailer(self.consumer_id, delivery_count)), size
        )
        self.charge(size)

    def large_finished(self) -> None:
        """The last chunk of a large message was written."""
        self.large = None
        self.update_ready()

    def queue_deleted(self) -> None:
        """The queue is gone: the client is told to close its consumer."""
        self.ready = False
        self.closed = True
        _disconnect(self.session, self.consumer_id)

    # --- forced delivery

    def force(self, sequence: int) -> None:
        """Answer with a marker once everything that can be delivered now has been."""
        if len(self.forced) >= FORCED_MAX:
            self.session.connection.fail_soon(f"{FORCED_MAX} forced deliveries of one consumer are waiting")
            return
        self.forced.append(sequence)
        self.answer_forced()

    @property
    def searching(self) -> bool:
        """Is there more to look at in a later turn?"""
        queue = self.queue
        if queue.paused or queue.address.paused or not queue.references.count:
            return False
        if queue.groups is not None and not self.browse_only:
            return self.ready and queue.groups.unfinished
        return self.ready and self.cursor is not None and self.cursor.unfinished

    def _search_on(self) -> None:
        self._search_due = False
        if not self.closed:
            self.session.server.turn.run(self.answer_forced)

    def answer_forced(self) -> None:
        if not self.session.connection.writable or self.large is not None:
            return
        if self._forcing:
            return
        self._forcing = True
        try:
            self._deliver_now()
        finally:
            self._forcing = False
        if self.large is not None or not self.session.connection.writable:
            return
        if self.searching:
            if not self._search_due:
                self._search_due = True
                self.session.server.clock.call_later(0, self._search_on)
            return
        forced, self.forced = self.forced, []
        for sequence in forced:
            marker = CoreMessage(
                message_id=self.session.server.store.next_id(),
                address=self.session.administration.shown_name(self.queue),
                priority=0,
                properties={KEY_FORCED_DELIVERY: (LONG, sequence)},
                body=bytes(4),
            )
            self.session.send(wire.SessionReceive(encode_message(marker), self.consumer_id, 0))

    def _deliver_now(self) -> None:
        if self.ready:
            self.queue.deliver()

    # --- the end

    def detach(self) -> list[Reference]:
        """Leave the queue.  Returns what was in delivery here, in order."""
        self.closed = True
        self.ready = False
        if self.large is not None:
            self.large.abandon()
            self.large = None
        self._leave_queue()
        references = list(self.unacknowledged.values())
        self.unacknowledged.clear()
        return references

    def _leave_queue(self) -> None:
        self.queue.remove_consumer(self)


class BrowsingConsumer(ServerConsumer):
    """Sees the messages that wait, and takes none: those in memory, then those in pages."""

    __slots__ = ("_ahead", "_browsing", "_looked", "_pages")

    browse_only = True

    def __init__(self, session: ServerSession, consumer_id: int, queue: Queue, filter: Filter | None, priority: int) -> None:
        super().__init__(session, consumer_id, queue, filter, priority)
        self.cursor = Cursor(restarts=False)
        self._pages: dict[str, PageReader] = {}
        """How far it has looked in the pages of each address."""
        self._looked: deque[PagedMessage] = deque()
        self._browsing = False

    def _became_ready(self) -> None:
        self._deliver_now()

    def _deliver_now(self) -> None:
        if self._browsing:
            return
        if self.cursor is not None:
            self.cursor.unfinished = False
        self._browsing = True
        try:
            while self.ready and not self.queue.deleted and self.cursor is not None:
                scan = self.session.server.turn.scan
                reference = self.queue.references.search(self.cursor, self._shown, scan)
                if reference is not None:
                    self.messages_delivered += 1
                    self.transmit(reference, reference.delivery_count)
                    continue
                self.cursor.unfinished = scan.left <= 0
                if self.cursor.unfinished:
                    self.session.server.clock.call_later(0, self._browse_on)
                    break
                if not self._look():
                    break
                message, delivery_count, _ = self._looked.popleft()
                if self._wanted(message):
                    self.messages_delivered += 1
                    self.transmit(Reference(message, self.queue), delivery_count)
        finally:
            self._browsing = False

    def _browse_on(self) -> None:
        """The budget of a turn was not enough."""
        if not self.closed and self.searching:
            self.session.server.turn.run(self._deliver_now)

    def _look(self) -> bool:
        """See that there is a message from the pages to show; false at their end."""
        pages = self.queue.pages
        while not self._looked and pages is not None:
            messages = pages.look_on(self._pages)
            if messages is None:
                break
            self._looked.extend(messages)
        return bool(self._looked)

    def _shown(self, reference: Reference) -> bool:
        place = reference.message.store_state
        if isinstance(place, PagePlace) and any(reader.passed(place) for reader in self._pages.values()):
            return False
        return self._wanted(reference.message)

    def _wanted(self, message: Message) -> bool:
        expiration = message.expiration
        if expiration and expiration <= self.session.server.clock.wall_ms():
            return False
        return self.filter is None or self.filter.matches(message)

    def _leave_queue(self) -> None:
        if self.cursor is not None:
            self.cursor.close()
            self.cursor = None


class SessionConsumers:
    """The consumers of one session by their id."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._server = session.server
        self.by_id: dict[int, ServerConsumer] = {}

    def handlers(self) -> dict[int, Callable[[Any], object]]:
        return {
            wire.CreateConsumer.TYPE: self._create,
            wire.ConsumerClose.TYPE: self._close,
            wire.ForceConsumerDelivery.TYPE: self._force,
        }

    def _create(self, packet: wire.CreateConsumer) -> None:
        try:
            self._make(packet)
        except MQError:
            # A client that recreates its consumers after a failure wants no answer.  Told nothing, it would wait for this one for ever.
            if not packet.requires_response and packet.consumer_id not in self.by_id:
                _disconnect(self._session, packet.consumer_id)
            raise

    def _make(self, packet: wire.CreateConsumer) -> None:
        session = self._session
        name, _ = session.connection.naming.strip(packet.queue_name)
        address, qualified = split_qualified(name)
        queue = self._server.messaging.core.queues.get(qualified or address)
        if queue is None:
            raise QueueDoesNotExistError(f"AMQ229017: Queue {packet.queue_name} does not exist")
        if packet.consumer_id in self.by_id:
            raise InvalidQueueConfigurationError(f"consumer {packet.consumer_id} exists already in this session")
        self._server.connection_limits.check_consumers(session.connection)
        session.permissions.check("browse" if packet.browse_only else "consume", queue.definition.address, queue.name)
        filter = parse_filter(packet.filter_string)
        if filter is not None and len(filter.text) > COSTLY_FILTER_LENGTH:
            session.connection.yield_turn()
        limit = queue.definition.max_consumers
        if not packet.browse_only and 0 <= limit <= queue.consumer_count:
            raise MaxConsumerLimitExceededError(
                f"AMQ229200: Maximum Consumer Limit Reached on Queue:(address={queue.definition.address},queue={queue.name})"
            )
        kind = BrowsingConsumer if packet.browse_only else ServerConsumer
        consumer = kind(session, packet.consumer_id, queue, filter, packet.priority)
        self.by_id[packet.consumer_id] = consumer
        if not packet.browse_only:
            queue.add_consumer(consumer)
        if packet.requires_response:
            session.reply(session.administration.describe_queue(queue))
        if not packet.browse_only:
            self._server.notifications.consumer_created(consumer)

    def flow_token(self, data: bytes) -> None:
        """A SESS_FLOWTOKEN frame; one for an unknown consumer is ignored."""
        consumer_id, credits = decode_flow_token(data[13:])
        consumer = self.by_id.get(consumer_id)
        if consumer is not None:
            consumer.grant(credits)

    def _force(self, packet: wire.ForceConsumerDelivery) -> None:
        consumer = self.by_id.get(packet.consumer_id)
        if consumer is not None:
            # Behind this session's own sends: what it has sent is deliverable to it.
            self._session.context.run(0, consumer.force, packet.sequence)

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
        for consumer, references in held:
            self._settle_removed(consumer, references, failed)

    def _remove(self, consumer: ServerConsumer, failed: bool) -> None:
        self._settle_removed(consumer, consumer.detach(), failed)

    def _settle_removed(self, consumer: ServerConsumer, references: list[Reference], failed: bool) -> None:
        settlement = self._server.messaging.settlement
        if failed:
            settlement.redeliver(references)
        else:
            settlement.cancel(references)
        if consumer.browse_only:
            return
        self._server.notifications.consumer_closed(consumer)
        queue = consumer.queue
        if queue.consumer_count or queue.deleted:
            return
        if queue.definition.transient:
            self._server.messaging.administration.delete_queue(queue, keep_address=True)
        elif queue.definition.purge_on_no_consumers:
            self._server.messaging.administration.purge_soon(queue)

    def started_changed(self) -> None:
        """The session was started or stopped."""
        for consumer in self.by_id.values():
            consumer.update_ready()

    def writable_changed(self) -> None:
        """The connection has room again, or has none."""
        for consumer in list(self.by_id.values()):
            consumer.update_ready()

    def take_back(self, keep_first_counts: bool) -> tuple[list[Reference], list[Reference]]:
        """Everything in delivery leaves its consumer: (consumed in vain, merely prefetched).

        With ``keep_first_counts`` the oldest of each consumer counts as consumed.
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


def _disconnect(session: ServerSession, consumer_id: int) -> None:
    """Tell the client that this consumer is no more."""
    if session.version >= VERSION_DISCONNECT_CONSUMER and not session.closed:
        session.send(wire.DisconnectConsumer(consumer_id))
