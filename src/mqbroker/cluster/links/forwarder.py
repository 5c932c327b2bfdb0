"""Takes messages from a queue and sends them over a link, without decoding them.

A message leaves the queue when the target has answered for it.  A message that is not answered when the link goes returns to its place in
the queue, and is sent again with the same duplicate id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from mqbroker.cluster.links.outgoing import Outgoing, send_large
from mqbroker.config.model.address_settings import AddressSettings
from mqbroker.messaging.filters.filter import Filter
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Cancellable
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Cursor, Reference
from mqbroker.server.server import Server
from mqclient.core.session.session import Session
from mqclient.errors import AddressFullError, ConnectionTimedOutError, DuplicateIdRejectedError, MQError, UnblockedError

log = Logger(namespace="mqbroker.cluster")

IN_FLIGHT_MESSAGES_MAX = 10_000
"""Messages of one link to another broker, or of all links of one core bridge together, that are sent and not answered."""

IN_FLIGHT_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of the messages of one link that are sent and not answered; large bodies do not count, for they go one at a time."""

REFUSALS_LOGGED_SECONDS = 10.0
"""How often one link writes that messages are refused, or cannot be sent."""

_CHECKS = 4
"""Looks at the oldest unanswered message within the time that it may wait."""


@dataclass(frozen=True, slots=True)
class ForwardingSettings:
    """Times are ms.  ``pending_ack_timeout`` -1: the link waits for answers without end."""

    pending_ack_timeout: int = 60_000
    refused_retry_interval: int = 2_000
    """After this time a message that the target has refused is tried again."""
    links: int = 1
    """Links that take messages from the same queue.  Together they have no more under way than one alone: the target remembers the ids of
    no more messages of one sender."""


def _nothing() -> None: ...


class Forwarder:
    """A :class:`~mqbroker.messaging.queues.consumer.QueueConsumer` whose session is at another broker.

    ``outgoing`` encodes a message; None sends the message to the dead letter address of the queue.  When ``outgoing`` fails and there is no
    such address, the message is tried again later: a broken transformer does not cost messages.  ``on_queue_deleted`` is called when the
    queue was deleted.
    """

    def __init__(
        self,
        server: Server,
        queue: Queue,
        settings: ForwardingSettings,
        outgoing: Callable[[Message], Outgoing | None],
        filter: Filter | None = None,
        on_queue_deleted: Callable[[], object] = _nothing,
    ) -> None:
        self.queue = queue
        self.filter = filter
        self.priority = 0
        self.cursor: Cursor | None = None
        self.ready = False
        self.flush_due = False
        self.messages_acknowledged = 0
        self.bytes_acknowledged = 0
        """Encoded bytes of the acknowledged messages, without large bodies."""
        self.messages_refused = 0
        self._server = server
        self._settings = settings
        self._outgoing = outgoing
        self._on_queue_deleted = on_queue_deleted
        self._messages_max = max(IN_FLIGHT_MESSAGES_MAX // settings.links, 1)
        self._turn = server.turn
        self._settlement = server.messaging.settlement
        self._session: Session | None = None
        self._in_flight: dict[int, Reference] = {}
        self.pending_bytes = 0
        """Bytes of the messages that were sent and are not answered, without large bodies."""
        self._settled: list[Reference] = []
        self._stalled = False
        self._paused = False
        self._closing: Deferred[None] | None = None
        self._closing_timer: Cancellable | None = None
        self._check: Cancellable | None = None
        self._oldest: Reference | None = None
        self._oldest_seen = 0
        self._chunks_seen = 0
        self._refusals_logged = -REFUSALS_LOGGED_SECONDS

    # --- figures

    @property
    def pending(self) -> int:
        """Messages that were sent and are not answered."""
        return len(self._in_flight)

    def figures(self) -> dict[str, Any]:
        """The figures for management; ``credits`` are the bytes that the target still accepts, by address."""
        sends = None if self._session is None else self._session.encoded_sends
        return {
            "messagesForwarded": self.messages_acknowledged + self.pending,
            "messagesAcknowledged": self.messages_acknowledged,
            "messagesPending": self.pending,
            "messagesRefused": self.messages_refused,
            "bytesAcknowledged": self.bytes_acknowledged,
            "bytesPending": self.pending_bytes,
            "credits": {} if sends is None else sends.credits(),
            "waitsForRoom": sends is not None and not sends.room,
        }

    # --- the link

    def prepare(self, session: Session) -> None:
        session.open_encoded_sends()

    def attach(self, session: Session) -> None:
        """Begin to forward over ``session``, which must end with its connection."""
        assert self._session is None
        if self.queue.deleted:  # while there was no link
            self._on_queue_deleted()
            return
        self._session = session
        self._stalled = False
        session.open_encoded_sends().on_room = self._room
        self._oldest = None
        self._schedule_check()
        self.queue.add_consumer(self)
        self._update_ready()

    def detach(self) -> None:
        """Stop at once: messages that are not answered return to the queue, in order."""
        session, self._session = self._session, None
        if session is None:
            return
        self.ready = False
        session.open_encoded_sends().on_room = _nothing
        if self._check is not None:
            self._check.cancel()
            self._check = None
        self._oldest = None
        self._acknowledge()
        self.queue.remove_consumer(self)
        returned, self._in_flight = list(self._in_flight.values()), {}
        self.pending_bytes = 0
        self.queue.doubt(reference.message.message_id for reference in returned if reference.message.expiration)
        self._settlement.cancel(returned)
        self._closed()

    def close_when_settled(self, seconds: float) -> Deferred[None]:
        """Take nothing more, wait at most ``seconds`` for the answers that are due, and detach."""
        if self._session is None:
            return succeed(None)
        if self._closing is None:
            self._closing = Deferred()
            self._closing_timer = self._server.clock.call_later(seconds, self._closing_overdue)
            self.ready = False
        waiter: Deferred[None] = Deferred()
        self._closing.addCallback(lambda _: waiter.callback(None))
        if not self._in_flight:
            self.detach()
        return waiter

    def pause(self) -> None:
        """Take nothing from the queue until :meth:`resume`."""
        self._paused = True
        self._update_ready()

    def resume(self) -> None:
        self._paused = False
        self._update_ready()

    def queue_deleted(self) -> None:
        """The queue is gone, with the messages in delivery."""
        self.detach()
        self._on_queue_deleted()

    # --- messages

    def handle_first(self, reference: Reference, key: str) -> None:
        """The broker that gets the message marks it for its own consumers."""
        self.handle(reference)

    def handle(self, reference: Reference) -> None:
        """Send a message that the queue hands over."""
        message = reference.message
        session = self._session
        assert session is not None
        try:
            outgoing = self._outgoing(message)
        except Exception:  # a transformer failed, or the bytes are damaged: other messages can still go
            if self._may_log():
                log.failure("message {id} of queue {queue} cannot be forwarded", id=message.message_id, queue=self.queue.name)
            if self.queue.address.settings.dead_letter_address:
                self._settlement.kill(reference)
            else:
                self._put_aside(reference)
            return
        if outgoing is None:
            self._settlement.kill(reference)
            return
        in_flight = self._in_flight
        in_flight[message.message_id] = reference
        if self.queue.in_doubt:
            self.queue.doubt_no_more(message.message_id)
        self.pending_bytes += len(message.buffer)
        done = partial(self._answered, in_flight, reference)
        if outgoing.read is None:
            room = session.send_encoded(outgoing.parts, outgoing.size, done, address=outgoing.address)
        else:
            self.ready = False
            room = send_large(session, outgoing, done)
        if not room:
            self._stalled = True
            self.ready = False
        elif self.pending_bytes >= IN_FLIGHT_BYTES_MAX or len(in_flight) >= self._messages_max:
            self.ready = False

    def _answered(self, in_flight: dict[int, Reference], reference: Reference, error: MQError | None) -> None:
        """The target has answered; ``in_flight`` tells whether the answer belongs to the present link."""
        message_id = reference.message.message_id
        if in_flight is not self._in_flight or message_id not in in_flight:
            return
        if error is not None and not isinstance(error, DuplicateIdRejectedError):
            self._not_taken(reference, error)
            return
        del in_flight[message_id]
        settled = self._settled
        settled.append(reference)
        if not self.flush_due:
            self._turn.mark_output(self)

    def flush(self) -> None:
        """At the end of a turn: the messages answered in it leave the queue in one step."""
        self._acknowledge()
        if self._closing is not None and not self._in_flight:
            self.detach()
        else:
            self._update_ready()

    def _acknowledge(self) -> None:
        settled, self._settled = self._settled, []
        if not settled:
            return
        size = 0
        for reference in settled:
            size += len(reference.message.buffer)
        self.pending_bytes -= size
        self.messages_acknowledged += len(settled)
        self.bytes_acknowledged += size
        self._settlement.acknowledge(settled)

    def _not_taken(self, reference: Reference, error: MQError) -> None:
        """The target does not have the message.

        A full address fails the link, which tries again later.  Other errors concern only this message: it is put aside for a while, so
        that later ones go on; after the attempts that its address allows, it goes to the dead letter address, if there is one.
        """
        if isinstance(error, UnblockedError):
            return  # the link is gone: the bridge is going to detach
        if isinstance(error, AddressFullError):
            if self._session is not None:
                self._session.connection_failed(error)
            return
        message = reference.message
        del self._in_flight[message.message_id]
        self.pending_bytes -= len(message.buffer)
        self.messages_refused += 1
        self._log_refusal(message, error)
        queue = self.queue
        settings = queue.address.settings
        if queue.deleted:
            self._settlement.cancel((reference,))
        elif self._is_dead(reference, settings):
            self._settlement.kill(reference)
        else:
            self._put_aside(reference)
        if not self.flush_due:
            self._turn.mark_output(self)

    def _is_dead(self, reference: Reference, settings: AddressSettings) -> bool:
        """Was the message tried too often?  In a store-and-forward queue no message ever is."""
        attempts = settings.max_delivery_attempts
        return bool(settings.dead_letter_address) and 0 < attempts <= reference.delivery_count and not self.queue.definition.internal

    def _put_aside(self, reference: Reference) -> None:
        self.queue.put_back_later(reference, self._server.clock.wall_ms() + self._settings.refused_retry_interval)

    def _may_log(self) -> bool:
        now = self._server.clock.monotonic()
        if now - self._refusals_logged < REFUSALS_LOGGED_SECONDS:
            return False
        self._refusals_logged = now
        return True

    def _log_refusal(self, message: Message, error: MQError) -> None:
        if self._may_log():
            log.warn(
                "the target of queue {queue} refuses message {id} to {address}: {error} ({count} refused so far)",
                queue=self.queue.name,
                id=message.message_id,
                address=message.address,
                error=error,
                count=self.messages_refused,
            )

    # --- readiness

    def _room(self) -> None:
        self._stalled = False
        self._update_ready()

    def _update_ready(self) -> None:
        ready = (
            self._session is not None
            and self._closing is None
            and not self._paused
            and not self._stalled
            and self.pending_bytes < IN_FLIGHT_BYTES_MAX
            and len(self._in_flight) < self._messages_max
        )
        if ready and not self.ready:
            self._turn.mark_queue(self.queue)
        self.ready = ready

    # --- time

    def _schedule_check(self) -> None:
        timeout = self._settings.pending_ack_timeout
        if timeout > 0:
            self._check = self._server.clock.call_later(timeout / 1000 / _CHECKS, self._check_oldest)

    def _check_oldest(self) -> None:
        """Fail the link when the oldest message has waited too long for its answer.

        A large message may take any time, as long as its pieces are answered or the target has no room for the next one.
        """
        self._check = None
        session = self._session
        assert session is not None
        sends = session.open_encoded_sends()
        oldest = next(iter(self._in_flight.values()), None)
        if oldest is None or oldest is not self._oldest or sends.chunks_answered != self._chunks_seen or sends.held_back:
            self._oldest = oldest
            self._oldest_seen = 0
            self._chunks_seen = sends.chunks_answered
        else:
            self._oldest_seen += 1
            if self._oldest_seen >= _CHECKS:
                self._unanswered(oldest, session)
                return
        self._schedule_check()

    def _unanswered(self, reference: Reference, session: Session) -> None:
        error = ConnectionTimedOutError(
            f"message {reference.message.message_id} of queue {self.queue.name} was not acknowledged within "
            f"{self._settings.pending_ack_timeout} ms (pending-ack-timeout sets the limit)"
        )
        log.warn("{error}; a new link is opened, and unacknowledged messages are sent again", error=str(error))
        session.connection_failed(error)

    def _closing_overdue(self) -> None:
        self._closing_timer = None
        log.warn("queue {queue}: the target has not acknowledged {count} messages", queue=self.queue.name, count=len(self._in_flight))
        self.detach()

    def _closed(self) -> None:
        closing, self._closing = self._closing, None
        if self._closing_timer is not None:
            self._closing_timer.cancel()
            self._closing_timer = None
        if closing is not None:
            closing.callback(None)
