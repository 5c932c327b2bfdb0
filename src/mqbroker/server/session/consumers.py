"""A consumer of a session: credits, delivery, and messages in delivery."""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import TYPE_CHECKING

from mqbroker.messaging.filters.filter import Filter
from mqbroker.messaging.message.message import MEMORY_PER_MESSAGE, Message
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Cursor, Reference
from mqbroker.server.session.large_delivery import BodyDelivery, LargeDelivery
from mqbroker.server.session.old_names import shown_name, with_old_address
from mqclient.wire import packets as wire
from mqclient.wire.hot import VERSION_NEW_ADDRESSING, to_old_layout
from mqclient.wire.message import KEY_FORCED_DELIVERY, CoreMessage, encode_message
from mqclient.wire.properties import LONG

if TYPE_CHECKING:
    from mqbroker.messaging.queues.consumer import WhenAnswered
    from mqbroker.server.session_state import SessionState

_pack_header = struct.Struct(">ibq").pack
_pack_trailer = struct.Struct(">qi").pack
RECEIVE_TYPE = wire.SessionReceive.TYPE
FRAME_OVERHEAD = 25
"""Bytes of a SESS_RECEIVE_MSG frame beside its message: 13 of header, 12 of trailer."""
UNLIMITED = -1
FORCED_MAX = 1000
"""Forced deliveries of one consumer that wait for an answer; beyond that, the newest answers for all."""
VERSION_DISCONNECT_CONSUMER = 124


class ServerConsumer:
    """One consumer of a session (a :class:`~mqbroker.messaging.queues.consumer.QueueConsumer`).

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

    def __init__(self, session: SessionState, consumer_id: int, queue: Queue, filter: Filter | None, priority: int) -> None:
        self.session = session
        self._turn = session.server.turn
        self._simple = not (session.pre_acknowledge or session.server.persists_delivery_count or session.version < VERSION_NEW_ADDRESSING)
        """Is a regular message sent unchanged, and kept until it is acknowledged?"""
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
        self.large: BodyDelivery | None = None
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
        """Decide again whether a message may be sent, and continue a stalled large message."""
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
        self._hand_on(reference, message)

    def handle_first(self, reference: Reference, key: str) -> None:
        """Send the first message of a group: only this delivery has the property."""
        self.messages_delivered += 1
        self.last_delivered_ms = self._turn.now_ms
        self._hand_on(reference, reference.message.flagged(key))

    def _hand_on(self, reference: Reference, shown: Message) -> None:
        """Send ``shown``, the message as the client sees it."""
        session = self.session
        if session.pre_acknowledge:
            self._handle_acknowledged(reference, shown)
            return
        self._begin_delivery(reference)
        self.transmit(shown, reference.delivery_count)

    def _begin_delivery(self, reference: Reference) -> None:
        """The message is in delivery here from now on."""
        message, server = reference.message, self.session.server
        self.unacknowledged[message.message_id] = reference
        self.bytes_in_transit += message.memory
        if server.persists_delivery_count:
            server.messaging.settlement.record_delivery(reference)

    def _handle_acknowledged(self, reference: Reference, shown: Message) -> None:
        """Pre-acknowledge: the message is settled before it is sent."""
        body = reference.message.large
        if body is not None:
            body.hold()
        self.session.server.messaging.settlement.acknowledge((reference,))
        self.transmit(shown, reference.delivery_count)
        if body is not None:
            body.release()

    def transmit(self, message: Message, delivery_count: int) -> None:
        """Write the packets of a message."""
        session = self.session
        if message.large is not None:
            self.ready = False
            self.large = LargeDelivery(self, message, delivery_count)
            self.large.advance()
            return
        buffer = message.buffer
        if session.version < VERSION_NEW_ADDRESSING:
            buffer = to_old_layout(with_old_address(session, message))
        size = len(buffer) + FRAME_OVERHEAD
        session.send_parts(
            (_pack_header(size - 4, RECEIVE_TYPE, session.channel), buffer, _pack_trailer(self.consumer_id, delivery_count)), size
        )
        self.charge(size)

    def large_finished(self) -> None:
        """The last chunk of a large message has been written."""
        self.large = None
        self.update_ready()

    def queue_deleted(self) -> None:
        """The queue is deleted: tell the client to close its consumer."""
        if not self.closed:
            self.session.server.notifications.consumer_closed(self)
        self.ready = False
        self.closed = True
        disconnect(self.session, self.consumer_id)

    # --- forced delivery

    def force(self, sequence: int) -> None:
        """Send a marker after the messages that can be delivered now."""
        if len(self.forced) >= FORCED_MAX:
            # A client that keeps up with the deliveries asks before each message, and waits for its last question only.
            self.forced.clear()
        self.forced.append(sequence)
        self.answer_forced()

    @property
    def searching(self) -> bool:
        """Does a search for messages go on in a later turn?"""
        queue = self.queue
        if queue.paused or queue.address.paused:
            return False
        if self.ready and self._awaited() is not None:
            return True
        if not queue.references.count:
            return self.ready and queue.pages is not None and queue.pages.waiting
        if queue.groups is not None:
            return self.ready and queue.groups.unfinished
        return self.ready and (queue.unfinished or (self.cursor is not None and self.cursor.unfinished))

    def _awaited(self) -> WhenAnswered | None:
        elsewhere = self.queue.elsewhere
        return None if elsewhere is None else elsewhere.awaited(self)

    def _search_later(self) -> None:
        awaited = self._awaited()
        if awaited is not None:
            awaited(self._search_on)
            return
        pages = self.queue.pages
        if pages is None or not pages.when_there(self._search_on):
            self.session.server.clock.call_later(0, self._search_on)

    def _search_on(self) -> None:
        self._search_due = False
        if not self.closed:
            self.session.server.turn.run(self.answer_forced)

    def _may_answer(self) -> bool:
        return self.large is None and self.session.connection.writable

    def answer_forced(self) -> None:
        if not self._may_answer():
            return
        if self._forcing:
            return
        self._forcing = True
        try:
            self._deliver_now()
        finally:
            self._forcing = False
        if not self._may_answer():
            return
        if self.searching:
            if not self._search_due:
                self._search_due = True
                self._search_later()
            return
        forced, self.forced = self.forced, []
        for sequence in forced:
            marker = CoreMessage(
                message_id=self.session.server.store.next_id(),
                address=shown_name(self.session, self.queue),
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
        """Leave the queue.  Returns the references that were in delivery here, in order."""
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


def disconnect(session: SessionState, consumer_id: int) -> None:
    """Tell the client that this consumer is closed."""
    if session.version >= VERSION_DISCONNECT_CONSUMER and not session.closed:
        session.send(wire.DisconnectConsumer(consumer_id))
