"""Delivery of one large message: its headers, then its body in chunks, as credits and the connection allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.messaging.message import Message
from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.hot import VERSION_NEW_ADDRESSING, encode_receive_continuation

if TYPE_CHECKING:
    from mqbroker.server.consumers import ServerConsumer


class LargeDelivery:
    """A large message on its way to a consumer.  It holds the body: the client may acknowledge before it has read everything."""

    __slots__ = ("_consumer", "_delivery_count", "_done", "_message", "_offset", "_started")

    def __init__(self, consumer: ServerConsumer, message: Message, delivery_count: int) -> None:
        self._consumer = consumer
        self._message = message
        self._delivery_count = delivery_count
        self._offset = 0
        self._started = False
        self._done = False
        if message.large is not None:
            message.large.hold()

    def advance(self) -> None:
        """Write what credits allow.  When the last chunk is out, the consumer is told."""
        consumer = self._consumer
        session = consumer.session
        body = self._message.large
        assert body is not None
        if not self._started:
            self._started = True
            headers = self._message.buffer
            if session.version < VERSION_NEW_ADDRESSING:
                headers = session.administration.with_old_address(self._message)
            packet = wire.SessionReceiveLarge(consumer.consumer_id, self._delivery_count, body.size, headers)
            self._write(frame(packet.TYPE, session.channel, wire.encode_packet(packet, session.version)))
        while not self._done:
            if not (consumer.unlimited or consumer.credits > 0) or not session.connection.writable:
                return
            chunk = body.read(self._offset, session.min_large_message_size)
            self._offset += len(chunk)
            self._done = self._offset >= body.size or not chunk
            content = encode_receive_continuation(chunk, not self._done, consumer.consumer_id)
            self._write(frame(wire.SessionReceiveContinuation.TYPE, session.channel, content))
        self._end()
        consumer.large_finished()

    def abandon(self) -> None:
        """The rest is not sent."""
        if not self._done:
            self._done = True
            self._end()

    def _end(self) -> None:
        if self._message.large is not None:
            self._message.large.release()

    def _write(self, data: bytes) -> None:
        session = self._consumer.session
        session.send_parts((data,), len(data))
        self._consumer.charge(len(data))
