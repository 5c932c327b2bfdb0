"""Moves the messages of one queue to another broker: in order, a bounded number at a time, each until the other one has it.

A message leaves the queue when the target has answered for it.  When the link goes, what was not answered returns to its place, and goes
again with the same duplicate id.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mqbroker.cluster.outgoing import Outgoing, assemble, bytes_entry
from mqbroker.messaging.arriving import KEY_SCALEDOWN_NODE
from mqbroker.messaging.ports import Cancellable
from mqbroker.messaging.queue import Queue
from mqbroker.messaging.references import Reference
from mqbroker.messaging.scheduled import scheduled_time_of
from mqclient.errors import AddressFullError, DuplicateIdRejectedError, MalformedPacketError, MQError, UnblockedError
from mqclient.wire.message import (
    KEY_ACK_ROUTE_TO,
    KEY_BRIDGE_DUPLICATE_ID,
    KEY_ROUTE_TO,
    KEY_ROUTING_TYPE,
    KEY_SCALEDOWN_TO,
    KEY_SCHEDULED_DELIVERY,
)
from mqclient.wire.primitives import encode_simple_string
from mqclient.wire.properties import BYTES, LONG, encode_value, find_prefix

if TYPE_CHECKING:
    from mqbroker.messaging.messaging import Messaging
    from mqclient.core.session import Session

IN_FLIGHT_MESSAGES_MAX = 2_000
"""Messages that are sent and not answered, where ``commit-interval`` says nothing: fewer than duplicate ids the target remembers."""
IN_FLIGHT_BYTES_MAX = 8 * 1024 * 1024
"""The same in bytes, without large bodies, which go one at a time."""
MESSAGES_PER_TURN = 250
"""Messages that are sent before others have their turn."""
PAGES_WAIT_SECONDS = 0.05
PAGES_PATIENCE = 200
"""How often messages in pages that cannot be read yet are looked for again."""
PIECES_PER_TURN = 64

_MARKS: Final = tuple(key.encode("utf-16-le") for key in (KEY_ROUTE_TO, KEY_ACK_ROUTE_TO, KEY_SCALEDOWN_TO, KEY_BRIDGE_DUPLICATE_ID))
_ROUTING_TYPE = KEY_ROUTING_TYPE.encode("utf-16-le")
_SCHEDULED = KEY_SCHEDULED_DELIVERY.encode("utf-16-le")
_I64 = struct.Struct(">q")

log = Logger(namespace="mqbroker.ha")

Encode = Callable[[Reference], Outgoing | None]
"""What is sent for a message; None = it stays.  Raises MalformedPacketError."""


class QueueMessages:
    """Messages of an ordinary queue: to the queue with the number ``target_id``, and to no other.

    ``node_id`` are the 16 bytes of the own node id, None = without a duplicate id.  ``acknowledged``: a branch has acknowledged them.
    """

    def __init__(
        self, queue: Queue, target_id: int, node_id: bytes | None, min_large_message_size: int, *, acknowledged: bool = False
    ) -> None:
        self._routing_type = queue.definition.routing_type
        self._min_large = min_large_message_size
        self._entries = bytes_entry(KEY_ROUTE_TO, 8) + _I64.pack(target_id)
        self._count = 1
        if acknowledged:
            self._entries += bytes_entry(KEY_ACK_ROUTE_TO, 8) + _I64.pack(target_id)
            self._count += 1
        self._duplicate_id = None if node_id is None else _duplicate_id_entry(node_id)
        self._queue_id = _I64.pack(queue.queue_id)

    def __call__(self, reference: Reference) -> Outgoing:
        message = reference.message
        buffer, start = message.buffer, message.properties_offset
        cuts: list[tuple[int, int]] = []
        for mark in _MARKS:
            cuts += _entries(buffer, start, mark)
        added, count = self._entries, self._count
        if self._duplicate_id is not None:
            added = b"".join((added, self._duplicate_id, _I64.pack(message.message_id), self._queue_id))
            count += 1
        if message.routing_type not in (None, self._routing_type):
            cuts += _entries(buffer, start, _ROUTING_TYPE, exact=True)
        if reference.scheduled and reference.scheduled != scheduled_time_of(message):
            cuts += _entries(buffer, start, _SCHEDULED, exact=True)
            added += encode_simple_string(KEY_SCHEDULED_DELIVERY) + encode_value(LONG, reference.scheduled)
            count += 1
        if len(cuts) > 1:
            cuts = sorted(set(cuts))
        return assemble(message, message.address, (), cuts, added, count, self._min_large)


class ForwardedMessages:
    """Messages that wait for a third broker, ``third``: the target sends them on to the queues with these numbers there."""

    def __init__(self, queue: Queue, third: bytes, node_id: bytes, min_large_message_size: int) -> None:
        self._key = f"{KEY_ROUTE_TO}{queue.name}".encode("utf-16-le")
        self._min_large = min_large_message_size
        self._third = bytes_entry(KEY_SCALEDOWN_NODE, len(third)) + third
        self._duplicate_id = _duplicate_id_entry(node_id)
        self._queue_id = _I64.pack(queue.queue_id)

    def __call__(self, reference: Reference) -> Outgoing | None:
        message = reference.message
        buffer, start = message.buffer, message.properties_offset
        cuts: list[tuple[int, int]] = []
        ids = b""
        for key_start, key_end, kind, value_start, end in find_prefix(buffer, start, len(buffer), _MARKS[0]):
            cuts.append((key_start - 4, end))
            if kind == BYTES and buffer[key_start:key_end] == self._key:
                ids = buffer[value_start + 4 : end]
        if not ids:
            return None
        cuts += _entries(buffer, start, _MARKS[1])
        added = (
            bytes_entry(KEY_SCALEDOWN_TO, len(ids)),
            ids,
            self._third,
            self._duplicate_id,
            _I64.pack(message.message_id),
            self._queue_id,
        )
        return assemble(message, message.address, (), sorted(cuts), b"".join(added), 3, self._min_large)


def _duplicate_id_entry(node_id: bytes) -> bytes:
    """The beginning of the property; message id and queue id follow, for a message may wait in several queues."""
    return bytes_entry(KEY_BRIDGE_DUPLICATE_ID, len(node_id) + 16) + node_id


def _entries(buffer: bytes, start: int, key: bytes, *, exact: bool = False) -> list[tuple[int, int]]:
    if buffer.find(key, start) < 0:
        return []
    found = find_prefix(buffer, start, len(buffer), key)
    return [(entry[0] - 4, entry[4]) for entry in found if not exact or entry[1] - entry[0] == len(key)]


def send_over(session: Session, outgoing: Outgoing, done: Callable[[MQError | None], object]) -> bool:
    """Send one message; False when the next has to wait for ``on_room``."""
    if outgoing.read is None:
        return session.send_encoded(outgoing.parts, outgoing.size, done, address=outgoing.address)
    headers = b"".join(outgoing.parts)
    return session.send_large_encoded(
        headers, outgoing.read, outgoing.body_size, done, address=outgoing.address, was_large=outgoing.was_large
    )


class QueueMove:
    """Moves everything that is in ``queue``; nobody else takes messages from it meanwhile.

    At most ``window`` messages are under way, and are acknowledged here in transactions of no more than that.
    """

    def __init__(self, messaging: Messaging, queue: Queue, encode: Encode, session: Session, window: int) -> None:
        self.queue = queue
        self.moved = 0
        self.kept = 0
        """Messages that the target has refused, or that cannot be sent: they stay."""
        self.flush_due = False
        self._core = messaging.core
        self._settlement = messaging.settlement
        self._encode = encode
        self._session = session
        self._window = window
        self._in_flight: dict[Reference, None] = {}
        self._bytes = 0
        self._settled: list[Reference] = []
        self._kept: list[Reference] = []
        self._scheduled: Iterator[Reference] = iter(())
        self._stalled = False
        self._full = False
        self._patience = PAGES_PATIENCE
        self._timer: Cancellable | None = None
        self._done: Deferred[None] = Deferred()
        self._ended = False

    def run(self) -> Deferred[None]:
        """Completes when there is nothing more to be sent; fails with the MQError that has ended the link."""
        self._session.open_encoded_sends().on_room = self._room
        self._core.turn.run(self._pump)
        return self._done

    def stop(self, error: MQError) -> None:
        """Send nothing more; what is not answered stays."""
        self._core.turn.run(self._end, error)

    # --- sending

    def _pump(self) -> None:
        self._timer = None
        if self._ended:
            return
        for _ in range(MESSAGES_PER_TURN):
            if self._stalled or self._full or len(self._in_flight) >= self._window or self._bytes >= IN_FLIGHT_BYTES_MAX:
                break
            reference = self._next()
            if reference is None:
                break
            self._send(reference)
            if self._ended:
                return
        else:
            self._again(0)
        self._check_end()

    def _next(self) -> Reference | None:
        queue = self.queue
        pieces = 0
        while not queue.references.count and queue.paged and pieces < PIECES_PER_TURN:
            if queue.pages is None or not queue.pages.read_piece():
                break
            pieces += 1
        reference = queue.references.head()
        if reference is None and queue.scheduled.count:
            reference = self._next_scheduled()
        if reference is not None:
            queue.take(reference)
            self._patience = PAGES_PATIENCE
        return reference

    def _next_scheduled(self) -> Reference | None:
        scheduled = self.queue.scheduled
        reference = next((each for each in self._scheduled if each in scheduled), None)
        if reference is None:
            # Sorted once for all that are there, and not for each message.
            self._scheduled = iter(list(scheduled))
            reference = next(self._scheduled, None)
        return reference

    def _send(self, reference: Reference) -> None:
        message = reference.message
        try:
            outgoing = self._encode(reference)
        except MalformedPacketError as error:
            log.warn("message {id} of queue {queue} cannot be moved: {error}", id=message.message_id, queue=self.queue.name, error=error)
            outgoing = None
        if outgoing is None:
            self._kept.append(reference)
            return
        self._in_flight[reference] = None
        self._bytes += len(message.buffer)
        if not send_over(self._session, outgoing, partial(self._answered, reference)):
            self._stalled = True

    def _answered(self, reference: Reference, error: MQError | None) -> None:
        if self._ended:
            return
        if isinstance(error, UnblockedError):
            self.stop(error)
            return
        del self._in_flight[reference]
        self._bytes -= len(reference.message.buffer)
        if error is None or isinstance(error, DuplicateIdRejectedError):
            self._settled.append(reference)
        else:
            if not self._kept:
                log.warn("the target refuses a message of queue {queue}: {error}", queue=self.queue.name, error=error)
            self._kept.append(reference)
            self._full = self._full or isinstance(error, AddressFullError)
        if not self.flush_due:
            self._core.turn.mark_output(self)

    def flush(self) -> None:
        """At the end of a turn: what was answered in it leaves the queue."""
        self._settle()
        if not self._ended:
            self._pump()

    def _settle(self) -> None:
        settled, self._settled = self._settled, []
        self.moved += len(settled)
        for start in range(0, len(settled), self._window):
            self._settlement.acknowledge(settled[start : start + self._window])

    def _room(self) -> None:
        self._stalled = False
        self._core.turn.run(self._pump)

    def _again(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._core.clock.call_later(seconds, self._core.turn.run, self._pump)

    # --- the end

    def _check_end(self) -> None:
        if self._in_flight or self._settled or self._timer is not None or self._ended:
            return
        queue = self.queue
        if not self._full:
            if self._stalled or queue.references.count or queue.scheduled.count:
                return
            if queue.paged and self._patience > 0:
                self._patience -= 1
                self._again(PAGES_WAIT_SECONDS)
                return
        self._end(None)

    def _end(self, error: MQError | None) -> None:
        if self._ended:
            return
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._session.open_encoded_sends().on_room = lambda: None
        self._settle()
        self.kept = len(self._kept)
        for reference in (*self._in_flight, *self._kept):
            if reference.scheduled:
                self.queue.put_back_later(reference, reference.scheduled)
            else:
                self.queue.put_back(reference)
        self._in_flight.clear()
        self._kept.clear()
        if error is None:
            self._done.callback(None)
        else:
            self._done.errback(error)
