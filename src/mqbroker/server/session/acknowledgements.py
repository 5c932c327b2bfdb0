"""Acknowledgements of a session: of all messages up to a given message, of one message, and of expired messages."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mqbroker.messaging.queues.references import Reference
from mqbroker.server.session.consumers import ServerConsumer
from mqclient.errors import IllegalStateError, MQError
from mqclient.wire import packets as wire
from mqclient.wire.hot import decode_acknowledge

if TYPE_CHECKING:
    from mqbroker.messaging.queues.elsewhere import Confirmation
    from mqbroker.server.session.session_consumers import SessionConsumers
    from mqbroker.server.session_state import SessionState


_FRAME_SIZE = 30
"""Bytes of a frame with an acknowledgement."""
_ID = struct.Struct(">q")
_unpack_rest = struct.Struct(">qB").unpack_from
"""Message id, and 1 if an answer is wanted."""


class SessionAcknowledgements:
    """Settles the messages in delivery of one session.  ``ticket`` is the ticket of its last acknowledgement outside of transactions."""

    __slots__ = ("_consumers", "_session", "_settlement", "ticket")

    def __init__(self, session: SessionState, consumers: SessionConsumers) -> None:
        self._session = session
        self._consumers = consumers
        self._settlement = session.server.messaging.settlement
        self.ticket = 0

    def take(self, frames: list[bytes], index: int) -> int:
        """Handle acknowledgements in a row, from ``index`` on, that are for one consumer and want no answer.

        Returns the index of the first frame that is something else.
        """
        session = self._session
        data = frames[index]
        if session.closed or len(data) < _FRAME_SIZE:
            return index
        consumer = self._consumers.by_id.get(_ID.unpack_from(data, 13)[0])
        if consumer is None or consumer.browse_only:
            return index
        begin = data[4:21]  # type, channel and consumer
        waiting = consumer.unacknowledged
        references: list[Reference] = []
        sizes: list[int] = []
        for at in range(index, len(frames)):
            data = frames[at]
            if len(data) < _FRAME_SIZE or not data.startswith(begin, 4):
                break
            rest: tuple[int, int] = _unpack_rest(data, 21)
            message_id, requires_response = rest
            if requires_response or message_id not in waiting:
                break
            sizes.append(len(data))
            while True:
                first, reference = waiting.popitem(last=False)
                references.append(reference)
                if first == message_id:
                    break
        if sizes:
            self._settle(consumer, references, False)
            if session.window is not None:
                session.context.run(0, session.finish_run, [None] * len(sizes), sizes)
        return index + len(sizes)

    def acknowledge(self, data: bytes) -> None:
        """A SESS_ACKNOWLEDGE frame: settle all messages delivered to the consumer up to and including this one."""
        consumer_id, message_id, requires_response = decode_acknowledge(data[13:], "SESS_ACKNOWLEDGE")
        consumer = self._consumers.by_id.get(consumer_id)
        if consumer is None or not (consumer.browse_only or message_id in consumer.unacknowledged):
            self._unknown(consumer_id, message_id, requires_response)
            return
        references: list[Reference] = []
        first: int | None = None
        while first != message_id and not consumer.browse_only:
            first, reference = consumer.unacknowledged.popitem(last=False)
            references.append(reference)
        self._settle(consumer, references, requires_response)

    def acknowledge_one(self, data: bytes) -> None:
        """A SESS_INDIVIDUAL_ACKNOWLEDGE frame: settle exactly this message."""
        consumer_id, message_id, requires_response = decode_acknowledge(data[13:], "SESS_INDIVIDUAL_ACKNOWLEDGE")
        consumer = self._consumers.by_id.get(consumer_id)
        if consumer is None or not (consumer.browse_only or message_id in consumer.unacknowledged):
            self._unknown(consumer_id, message_id, requires_response)
            return
        self._settle(consumer, [] if consumer.browse_only else [consumer.unacknowledged.pop(message_id)], requires_response)

    def _settle(self, consumer: ServerConsumer, references: list[Reference], requires_response: bool) -> None:
        session = self._session
        if references:
            consumer.messages_acknowledged += len(references)
            consumer.last_acknowledged_ms = session.server.turn.now_ms
            for reference in references:
                consumer.bytes_in_transit -= reference.message.memory
        ticket = 0
        confirmation: Confirmation | None = None
        if session.auto_commit_acks:
            settled: Sequence[Reference] = references
            if requires_response:
                elsewhere = session.server.messaging.core.elsewhere
                if elsewhere is not None:
                    settled, confirmation = elsewhere.confirm(references, session.context)
            ticket = self._settlement.acknowledge(settled)
            if ticket:
                self.ticket = ticket
        else:
            session.transaction.acknowledged.extend(references)
        if confirmation is not None:
            session.reply_confirmed(confirmation, ticket)
        elif requires_response:
            session.reply_null(-1, ticket)

    def _unknown(self, consumer_id: int, message_id: int, requires_response: bool) -> None:
        session = self._session
        error: MQError = IllegalStateError(f"AMQ229061: consumer {consumer_id} has no message {message_id} to acknowledge")
        if not session.auto_commit_acks:
            session.transaction.mark_rollback_only(error)
        if requires_response:
            session.reply_error(error)
        else:
            session.connection.report(str(error))

    def expired(self, packet: wire.Expired) -> None:
        """A SESS_EXPIRED packet: the message expired before the client processed it."""
        consumer = self._consumers.by_id.get(packet.consumer_id)
        reference = None if consumer is None else consumer.unacknowledged.pop(packet.message_id, None)
        if consumer is not None and reference is not None:
            consumer.bytes_in_transit -= reference.message.memory
            self._settlement.expire(reference)


HANDLERS: Mapping[int, Callable[[Any, Any], object]] = {
    wire.Expired.TYPE: SessionAcknowledgements.expired,
}
