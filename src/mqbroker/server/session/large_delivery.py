"""Delivery of one large message: its headers, then its body in chunks, as credits and the connection allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.not_yet import NotYet
from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.hot import receive_continuation_parts

if TYPE_CHECKING:
    from mqbroker.server.session_state import SessionState


class Receiver(Protocol):
    """The consumer that a large message goes to."""

    closed: bool

    @property
    def session(self) -> SessionState: ...

    @property
    def consumer_id(self) -> int: ...

    @property
    def unlimited(self) -> bool:
        """Does it need no credits?"""

    @property
    def credits(self) -> int:
        """Bytes of frames."""

    def charge(self, frame_size: int) -> None:
        """A frame of a message was sent."""

    def large_finished(self) -> None:
        """The last chunk was written."""


class BodyDelivery(Protocol):
    """The delivery that keeps a consumer busy until a large message has been sent; ``large_finished`` tells the consumer."""

    @property
    def message_id(self) -> int: ...

    def advance(self) -> None:
        """Go on as far as that is possible now."""

    def abandon(self) -> None:
        """The rest is not sent."""


class LargeDelivery:
    """A large message on its way to a consumer.  The body is kept until the end, because the client may acknowledge before it has read
    all."""

    __slots__ = ("_consumer", "_delivery_count", "_done", "_message", "_offset", "_started", "_waiting")

    def __init__(self, consumer: Receiver, message: Message, delivery_count: int) -> None:
        self._consumer = consumer
        self._message = message
        self._delivery_count = delivery_count
        self._offset = 0
        self._started = False
        self._done = False
        self._waiting = False
        """The next chunk has been asked for, and has not been read yet."""
        if message.large is not None:
            message.large.hold()

    @property
    def message_id(self) -> int:
        return self._message.message_id

    def advance(self) -> None:
        """Write as many chunks as the credits allow, and tell the consumer after the last one."""
        consumer = self._consumer
        session = consumer.session
        body = self._message.large
        assert body is not None
        if not self._started:
            self._started = True
            packet = wire.SessionReceiveLarge(consumer.consumer_id, self._delivery_count, body.size, self._message.buffer)
            self._write(frame(packet.TYPE, session.channel, wire.encode_packet(packet, session.version)))
        while not (self._done or self._waiting):
            if not (consumer.unlimited or consumer.credits > 0) or not session.connection.writable:
                return
            try:
                chunk = body.read(self._offset, session.min_large_message_size)
            except NotYet as pending:
                self._waiting = True
                pending.when_there(self._chunk_came)
                return
            except OSError as error:
                self._unreadable(error)
                return
            self._offset += len(chunk)
            self._done = self._offset >= body.size or not chunk
            self._write(*receive_continuation_parts(session.channel, chunk, not self._done, consumer.consumer_id))
        if self._done:
            self._end()
            consumer.large_finished()

    def _chunk_came(self) -> None:
        self._waiting = False
        if not self._done and not self._consumer.closed:
            self._consumer.session.server.turn.run(self.advance)

    def abandon(self) -> None:
        """The rest is not sent."""
        if not self._done:
            self._done = True
            self._end()

    def _unreadable(self, error: OSError) -> None:
        """The file is damaged or gone: end only the connection of this consumer."""
        consumer = self._consumer
        consumer.closed = True
        consumer.session.connection.fail_soon(f"AMQ222075: body of message {self._message.message_id} cannot be read: {error}")

    def _end(self) -> None:
        if self._message.large is not None:
            self._message.large.release()

    def _write(self, *parts: bytes) -> None:
        size = sum(map(len, parts))
        self._consumer.session.send_parts(parts, size)
        self._consumer.charge(size)
