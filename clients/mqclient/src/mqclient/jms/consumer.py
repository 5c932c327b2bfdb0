"""Receiving, and browsing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import BinaryIO

from mqclient.core.message import ClientMessage
from mqclient.errors import IllegalStateError, LargeMessageInterruptedError, TransactionRolledBackError
from mqclient.jms.closing import Closing
from mqclient.jms.destinations import Destination
from mqclient.jms.exceptions import JMS_ERRORS, IllegalArgumentException, IllegalStateException, JMSException
from mqclient.jms.messages.conversion import LargeBodies, from_core
from mqclient.jms.messages.message import Message
from mqclient.jms.modes import AcknowledgeMode
from mqclient.jms.work import SessionWork, close_quietly
from mqclient.shells.blocking_consumers import Consumer

MessageListener = Callable[[Message], object]
_log = logging.getLogger(__name__)


_ACKNOWLEDGED_AFTERWARDS = (AcknowledgeMode.AUTO_ACKNOWLEDGE, AcknowledgeMode.DUPS_OK_ACKNOWLEDGE)
"""Modes in which a message is acknowledged by the client itself, once the application has it."""


class _OwedBody:
    """Reads the body of a large message, and then has the message acknowledged."""

    def __init__(self, bodies: LargeBodies, consumer: MessageConsumer) -> None:
        self._bodies = bodies
        self._consumer = consumer

    def read(self, message: ClientMessage) -> bytes:
        body = self._bodies.read(message)
        self._done(message)
        return body

    def save(self, message: ClientMessage, file: BinaryIO) -> None:
        self._bodies.save(message, file)
        self._done(message)

    def _done(self, message: ClientMessage) -> None:
        if self._consumer.owed is message:
            self._consumer.acknowledge_owed()


class MessageConsumer(Closing):
    """Receives the messages of a queue or of a subscription, as far as its selector lets them through.

    ``for message in consumer`` receives until the consumer is closed.
    """

    def __init__(
        self,
        work: SessionWork,
        consumer: Consumer,
        destination: Destination,
        selector: str | None,
        *,
        temporary_queue: str | None = None,
    ) -> None:
        """``temporary_queue``: the queue of a non-durable subscription, deleted with the consumer."""
        self._work = work
        self._consumer = consumer
        self._destination = destination
        self._selector = selector
        self._temporary_queue = temporary_queue
        self._listener: MessageListener | None = None
        self._in_hand: ClientMessage | None = None
        """The message that the listener has, until it is acknowledged; None otherwise."""
        self.owed: ClientMessage | None = None
        """The message that was received and is not acknowledged yet; None otherwise."""
        self._failed_at: tuple[object, ...] = ()
        """Kind and place of the listener's last error."""
        self._closed = False

    @property
    def selector(self) -> str | None:
        """The selector as the application gave it."""
        return self._selector

    @property
    def destination(self) -> Destination:
        return self._destination

    def receive(self, timeout: int | None = None) -> Message | None:
        """The next message.  ``timeout`` in ms: None waits for ever, 0 returns what the queue has now (JMS's ``receiveNoWait``).

        None after the timeout, and when another thread closes the consumer meanwhile.  The message is acknowledged when this returns,
        except in individual mode; in client and transacted mode as part of the transaction.  A large BytesMessage, whose body may still be
        arriving, is acknowledged when the body has been read, or with the next receive or close.  Raises JMSException when the consumer
        ends because of a failure, IllegalArgumentException for a timeout that is not a whole number of milliseconds.
        """
        self._check_open()
        if not isinstance(timeout, int | None):
            raise IllegalArgumentException(f"the timeout must be a whole number of milliseconds, or None to wait forever, not {timeout!r}")
        self.acknowledge_owed()
        runtime = self._work.runtime
        deadline = runtime.now() + timeout / 1000 if timeout else None
        left = timeout
        while True:
            with JMS_ERRORS:
                core = self._consumer.receive_immediate() if left == 0 else self._consumer.receive(left)
            if core is None:
                if self._consumer.closed and not self._closed and not self._work.closed:
                    raise JMSException("the consumer was closed by the broker or by a failure of the connection", "DISCONNECT")
                return None
            try:
                message = self._wrap(core)
            except JMSException as error:
                if not isinstance(error.__cause__, LargeMessageInterruptedError) or self._consumer.closed:
                    raise
                # The connection was lost before the whole body had come: the broker sends the message again.
                left = timeout if deadline is None else max(round((deadline - runtime.now()) * 1000), 0)
                continue
            if self._work.acknowledges:
                self.owed = core
                if core.large is None or core.large.finished or self._work.mode not in _ACKNOWLEDGED_AFTERWARDS:
                    self.acknowledge_owed()
            return message

    def acknowledge_owed(self) -> None:
        """Acknowledge the message received last, if that has waited for its body to be read."""
        core, self.owed = self.owed, None
        if core is not None:
            with JMS_ERRORS:
                self._consumer.acknowledge(core)

    def receive_no_wait(self) -> Message | None:
        """A message if the queue has one now; the broker is asked."""
        return self.receive(0)

    def __iter__(self) -> Iterator[Message]:
        while True:
            if self._closed or self._work.closed:
                return
            message = self.receive()
            if message is None:
                return
            yield message

    @property
    def listener(self) -> MessageListener | None:
        """A function that is called with each message, in the session's thread; None to receive with calls.

        An exception of the listener is logged, with queue and message id, and makes the broker deliver the message again (auto, dups-ok and
        individual mode).  Its traceback is logged unless the error before came from the same place.
        """
        return self._listener

    @listener.setter
    def listener(self, listener: MessageListener | None) -> None:
        self._check_open()
        self._listener = listener
        with JMS_ERRORS:
            self._consumer.set_message_handler(None if listener is None else self._on_message, self._work.listener_thread())

    def _on_message(self, core: ClientMessage) -> None:
        listener, mode = self._listener, self._work.mode
        if listener is None:
            return
        before = mode in (AcknowledgeMode.SESSION_TRANSACTED, AcknowledgeMode.CLIENT_ACKNOWLEDGE)
        message = self._wrap(core)
        self._in_hand = core
        if before and self._work.acknowledges:
            self._consumer.acknowledge(core)
        try:
            listener(message)
        except BaseException as error:  # also sys.exit() or a cancelled call of asyncio: the next message is delivered after every error
            self._log_failure(message, error)
            if not before and not self._work.pre_acknowledges:
                self._redeliver(core, individual=mode == AcknowledgeMode.INDIVIDUAL_ACKNOWLEDGE)
            return
        if not before and self._work.acknowledges and self._in_hand is not None:
            self._in_hand = None
            self._consumer.acknowledge(core)

    def _log_failure(self, message: Message, error: BaseException) -> None:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = (type(error), trace and trace.tb_frame.f_code, trace and trace.tb_lineno)
        known, self._failed_at = place == self._failed_at, place
        _log.error(
            "the listener of %s failed with message %s at delivery %d: %s: %s",
            self._destination,
            message.message_id,
            message.delivery_count,
            type(error).__name__,
            error,
            exc_info=None if known else error,
        )

    def _acknowledge_in_hand(self) -> None:
        """The listener closes its own consumer: afterwards its message could not be acknowledged any more."""
        core, self._in_hand = self._in_hand, None
        if core is not None and self._work.acknowledges and self._work.mode in _ACKNOWLEDGED_AFTERWARDS:
            close_quietly(lambda: self._consumer.acknowledge(core))

    def _redeliver(self, core: ClientMessage, *, individual: bool) -> None:
        """Give the message back with its delivery counted, and buffered messages without."""
        if individual:
            self._consumer.individual_acknowledge(core)
        self._work.rollback(not individual)

    def _wrap(self, core: ClientMessage) -> Message:
        bodies = self._work.connection.large_bodies
        with JMS_ERRORS:
            message = from_core(core, self._destination, bodies if core.large is None else _OwedBody(bodies, self))
        mode = self._work.mode
        if not self._work.pre_acknowledges:
            if mode == AcknowledgeMode.CLIENT_ACKNOWLEDGE:
                message._acknowledge = self._work.acknowledge
            elif mode == AcknowledgeMode.INDIVIDUAL_ACKNOWLEDGE:
                message._acknowledge = lambda: self._acknowledge_one(core)
        return message

    def _acknowledge_one(self, core: ClientMessage) -> None:
        self._work.check_open()
        self._work.connection.call(self._acknowledge_alone, core)

    async def _acknowledge_alone(self, core: ClientMessage) -> None:
        """In the reactor's thread.  A message that has gone back to its queue takes no others with it, as work of a transaction does."""
        consumer = self._consumer.consumer
        if consumer.closed:
            raise IllegalStateError("the consumer is closed: messages that it had not acknowledged have gone back to the queue")
        if core.incarnation != consumer.incarnation:
            raise TransactionRolledBackError("the message has gone back to its queue: it is not acknowledged, and will be delivered again")
        await consumer.individual_acknowledge(core)
        await self._work.core.commit(self._work.connection.settings.block_on_acknowledge)

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateException("the consumer is closed")
        self._work.check_open()

    def close(self) -> None:
        """Stop receiving: waits for a running listener, and returns messages that were not received to the queue.  Safe to call twice."""
        if self._closed:
            return
        self._work.connection.check_thread()
        close_quietly(self.acknowledge_owed)
        self._closed = True
        self._work.consumers.discard(self)
        if self._listener is not None:
            self._consumer.set_message_handler(None, self._work.listener_thread())
            if self._work.in_listener():
                self._acknowledge_in_hand()
            self._work.await_listener()
        close_quietly(self._consumer.close)
        if self._temporary_queue is not None:
            queue = self._temporary_queue
            close_quietly(lambda: self._work.lookup.delete_queue(queue))


class QueueBrowser(Closing):
    """Looks at the messages of a queue without taking them.  Each iteration begins anew and ends when the queue has no more."""

    def __init__(self, work: SessionWork, queue: Destination, selector: str | None, filter: str | None) -> None:
        self._work = work
        self._queue = queue
        self._selector = selector
        self._filter = filter
        self._open: set[Consumer] = set()
        self._closed = False

    @property
    def queue(self) -> Destination:
        return self._queue

    @property
    def selector(self) -> str | None:
        """The selector as the application gave it."""
        return self._selector

    def __iter__(self) -> Iterator[Message]:
        if self._closed:
            raise IllegalStateException("the browser is closed")
        self._work.check_open()
        consumer = self._work.open_consumer(self._queue.queue_name, self._filter, browse_only=True)
        self._open.add(consumer)
        try:
            while not self._closed:
                with JMS_ERRORS:
                    core = None if consumer.closed else consumer.receive_immediate()
                    if core is None:
                        if consumer.closed and not self._closed and not self._work.closed:
                            raise JMSException("the browser was closed by the broker or by a failure of the connection", "DISCONNECT")
                        return
                    message = from_core(core, self._queue, self._work.connection.large_bodies, browsed=True)
                yield message
        finally:
            self._forget(consumer)

    def _forget(self, consumer: Consumer) -> None:
        if consumer in self._open:
            self._open.discard(consumer)
            close_quietly(consumer.close)

    def close(self) -> None:
        """End all iterations; safe to call twice."""
        self._closed = True
        for consumer in tuple(self._open):
            self._forget(consumer)
