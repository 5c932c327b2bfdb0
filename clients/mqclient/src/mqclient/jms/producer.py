"""Sending."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from mqclient.core.message import ClientMessage
from mqclient.core.runtime import new_user_id
from mqclient.errors import MQError
from mqclient.jms.closing import Closing
from mqclient.jms.destinations import Destination, as_destination
from mqclient.jms.exceptions import (
    JMS_ERRORS,
    IllegalArgumentException,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    jms_exception,
)
from mqclient.jms.messages.conversion import as_message, to_core
from mqclient.jms.messages.message import DeliveryMode, Message
from mqclient.jms.work import SessionWork, close_quietly
from mqclient.shells.blocking_sends import Producer
from mqclient.wire import message as wire
from mqclient.wire import properties as types

DEFAULT_PRIORITY = 4
_TIME_MAX = 2**63 - 1
"""The last moment that a message can carry (ms since the epoch)."""


class CompletionListener(Protocol):
    """Hears the outcome of an asynchronous send; called in the thread of the session's listeners."""

    def on_completion(self, message: Message) -> None:
        """The broker has the message."""

    def on_exception(self, message: Message, exception: JMSException) -> None:
        """The broker refused the message, or the connection ended before its answer came."""


class _Completion:
    """Carries the outcome of one send from the core client's thread to its future."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self.future: Future[Message] = Future()

    def send_acknowledged(self, message: ClientMessage) -> None:
        if not self.future.done():
            self.future.set_result(self._message)

    def send_failed(self, message: ClientMessage, error: MQError) -> None:
        if not self.future.done():
            exception = jms_exception(error)
            exception.__cause__ = error
            self.future.set_exception(exception)


class MessageProducer(Closing):
    """Sends messages to one destination, or, made without one, to the destination that each call names.

    The attributes are the defaults of ``send``: ``delivery_mode``, ``priority`` (0 to 9), ``time_to_live`` and ``delivery_delay`` in ms, 0
    for none.  ``disable_message_id`` and ``disable_message_timestamp`` leave these headers out.
    """

    def __init__(
        self,
        work: SessionWork,
        producer: Producer,
        destination: Destination | None,
        *,
        delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT,
        priority: int = DEFAULT_PRIORITY,
        time_to_live: int = 0,
        delivery_delay: int = 0,
        disable_message_id: bool = False,
        disable_message_timestamp: bool = False,
    ) -> None:
        self._work = work
        self._producer = producer
        self._destination = destination
        self._closed = False
        self.delivery_mode = delivery_mode
        self.priority = priority
        self.time_to_live = time_to_live
        self.delivery_delay = delivery_delay
        self.disable_message_id = disable_message_id
        self.disable_message_timestamp = disable_message_timestamp

    @property
    def destination(self) -> Destination | None:
        """The destination of every message; None when each call names its own."""
        return self._destination

    def send(
        self,
        message: object,
        *,
        destination: Destination | str | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
        delivery_delay: int | None = None,
        completion_listener: CompletionListener | None = None,
    ) -> Message:
        """Send a message, or the message for a str, bytes, dict, list or None; returns it with its headers set.

        Returns when the broker has the message, outside of transactions and according to ``block_on_durable_send`` and
        ``block_on_non_durable_send`` (by default for persistent messages).  Other messages are only handed over; a later error of such a
        message is raised by the next send or commit of the session.  With a ``completion_listener`` the call returns at once, and the
        listener gets the outcome.
        """
        sent, core, address = self._prepare(message, destination, delivery_mode, priority, time_to_live, delivery_delay)
        if completion_listener is not None:
            self._tell_completion(sent, self._begin(sent, core, address), completion_listener)
            return sent
        with JMS_ERRORS:
            self._producer.send(core, address)
        return sent

    def send_async(
        self,
        message: object,
        *,
        destination: Destination | str | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
        delivery_delay: int | None = None,
    ) -> Future[Message]:
        """Send without waiting for the broker.  The future has the message when the broker has it, or the JMSException.

        That needs ``confirmation_window_size`` of at least 0 in the connection factory.  Without it the future is done when the message is
        written to the connection, as in Java.  Callbacks of the future run in the connection's thread: they must not call this API.
        """
        return self._begin(*self._prepare(message, destination, delivery_mode, priority, time_to_live, delivery_delay))

    def _begin(self, sent: Message, core: ClientMessage, address: str | None) -> Future[Message]:
        """Hand a message over; the future has its outcome."""
        completion = _Completion(sent)
        self._work.track(completion.future)
        try:
            with JMS_ERRORS:
                self._producer.send(core, address, acknowledgement_handler=completion)
        except JMSException as error:
            if not completion.future.done():
                completion.future.set_exception(error)
        except BaseException:  # such as one of the application's own file: the application gets the exception, and no outcome is awaited
            completion.future.cancel()
            raise
        return completion.future

    def _tell_completion(self, message: Message, future: Future[Message], listener: CompletionListener) -> None:
        thread, told = self._work.listener_thread(), Future[None]()
        self._work.track(told)

        def tell() -> None:
            try:
                error = future.exception()
                if isinstance(error, JMSException):
                    listener.on_exception(message, error)
                else:
                    listener.on_completion(message)
            finally:
                told.set_result(None)

        future.add_done_callback(lambda _: thread.submit(tell))

    def _prepare(
        self,
        body: object,
        destination: Destination | str | None,
        delivery_mode: DeliveryMode | None,
        priority: int | None,
        time_to_live: int | None,
        delivery_delay: int | None,
    ) -> tuple[Message, ClientMessage, str | None]:
        """The message with its headers, the same for the core client, and the address unless the producer has its own."""
        self._check_open()
        target = self._target(destination)
        priority = self.priority if priority is None else priority
        ttl = self.time_to_live if time_to_live is None else time_to_live
        delay = self.delivery_delay if delivery_delay is None else delivery_delay
        if not (isinstance(priority, int) and isinstance(ttl, int) and isinstance(delay, int)):
            raise IllegalArgumentException(
                f"priority, time to live and delivery delay (ms) are whole numbers, not {priority!r}, {ttl!r} and {delay!r}"
            )
        if not 0 <= priority <= 9:
            raise IllegalArgumentException(f"priority {priority} is not in the range from 0 to 9")
        if ttl < 0 or delay < 0:
            raise IllegalArgumentException("time to live and delivery delay are not negative")
        now = self._work.runtime.wall_clock_ms()
        if now + max(ttl, delay) > _TIME_MAX:
            raise IllegalArgumentException("the time to live, or the delivery delay, is too long; a time to live of 0 never ends")
        message = as_message(body)
        headers = message._core
        headers.user_id = None if self.disable_message_id else new_user_id(self._work.runtime)
        headers.timestamp = 0 if self.disable_message_timestamp else now
        headers.durable = (self.delivery_mode if delivery_mode is None else delivery_mode) == DeliveryMode.PERSISTENT
        headers.priority = priority
        headers.expiration = now + ttl if ttl else 0
        message._delivery_time = now + delay if delay else None
        message._destination = target
        core = to_core(message)
        core.user_id, core.timestamp, core.durable = headers.user_id, headers.timestamp, headers.durable
        core.priority, core.expiration = headers.priority, headers.expiration
        core.properties[wire.KEY_CID] = (types.STRING, self._work.connection.connection_id)
        if target.routing_type is None:
            core.properties.pop(wire.KEY_ROUTING_TYPE, None)
        else:
            core.properties[wire.KEY_ROUTING_TYPE] = (types.BYTE, target.routing_type)
        if delay:
            core.properties[wire.KEY_SCHEDULED_DELIVERY] = (types.LONG, now + delay)
        return message, core, target.name if self._destination is None else None

    def _target(self, destination: Destination | str | None) -> Destination:
        if self._destination is not None:
            if destination is not None:
                raise IllegalStateException(
                    "the producer has its own destination; create one without, to name the destination in each call"
                )
            if self._destination.temporary:  # it may be gone by now, and the broker would make a queue of that name for ever
                self._work.lookup.prepare_send(self._destination)
            return self._destination
        if destination is None:
            raise InvalidDestinationException("the producer has no destination; name one in the call")
        target = as_destination(destination)
        self._work.lookup.prepare_send(target)
        return target

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateException("the producer is closed")
        self._work.check_open()

    def close(self) -> None:
        """Stop sending; safe to call twice."""
        if not self._closed:
            self._work.connection.check_thread()
            self._closed = True
            close_quietly(self._producer.close)
