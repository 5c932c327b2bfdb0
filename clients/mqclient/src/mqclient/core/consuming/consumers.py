"""A consumer: receiving, closing, and the handling of messages that the broker takes back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from mqclient.core.closing import Closing
from mqclient.core.connection.channel import closed_error
from mqclient.core.consuming.acks import Acknowledger, AcknowledgingSession
from mqclient.core.consuming.arrivals import Arrivals
from mqclient.core.consuming.browsing import Browsed, Node
from mqclient.core.consuming.buffers import MessageBuffer
from mqclient.core.consuming.forced import ForcedDelivery
from mqclient.core.consuming.handlers import BURST, HandlerPump, MessageHandler
from mqclient.core.message import ClientMessage
from mqclient.core.runtime import Mutex, Runtime, Waiters, next_turn, sleep, starts
from mqclient.errors import IllegalStateError, LargeMessageInterruptedError, LargeMessageTakenBackError, MQError, ObjectClosedError
from mqclient.protocol.credits import ConsumerCredits
from mqclient.protocol.retry import RateLimiter
from mqclient.wire.packets import ConsumerClose, CreateConsumer, Expired, NullResponse, QueueQueryResult


class OrderedWork(Protocol):
    """The session's calls that end a transaction."""

    order: Mutex
    """Held while one of them waits: acknowledgements that begin meanwhile come after it."""


class ConsumingSession(AcknowledgingSession, Protocol):
    """The session, as its consumers see it."""

    failure: MQError | None
    """Why the session has ended; None while it lives, and when the application itself has closed it."""

    @property
    def work(self) -> OrderedWork: ...

    @property
    def factory(self) -> Node: ...

    @property
    def started(self) -> bool: ...

    def connection_failed(self, error: MQError) -> None:
        """A request was not answered: the connection counts as failed."""

    def consumer_closed(self, consumer: Consumer) -> None: ...


class Consumer(Closing):
    """Receives from one queue.  Messages must be acknowledged by the caller, unless the session pre-acknowledges."""

    def __init__(
        self, session: ConsumingSession, request: CreateConsumer, window: int, max_rate: int, buffer: MessageBuffer, batch_size: int
    ) -> None:
        self.runtime: Runtime = session.runtime
        self.session = session
        self.request = request
        self.id = request.consumer_id
        self.acknowledgements = Acknowledger(session, self, batch_size)
        self.incarnation = 0
        """How often delivery started anew: the broker took back the messages delivered before."""
        self._buffer = buffer
        self._limiter = RateLimiter(max_rate) if max_rate > 0 else None
        self._info: QueueQueryResult | None = None
        self._arrival = Waiters(self.runtime)
        self._pump: HandlerPump | None = None
        self._receiving: Any = None
        """The last call that had to wait, if only for a turn of the loop; None before the first."""
        self._in_a_row = 0
        """Number of messages that were received, perhaps without a turn of the loop between them."""
        self._dropped = 0
        """Number of messages that had expired when they were taken."""
        self._paused = False
        self._closed = False
        self._closing = False
        self._failure: MQError | None = None
        """Why the broker has ended the consumer; None while it has not."""
        credits = ConsumerCredits(window)
        forced = ForcedDelivery(self, session.channel, credits, session.settings, session.connection_failed)
        browsed = Browsed(session.settings, session.factory) if request.browse_only else None
        self.arrivals = Arrivals(self, session.channel, credits, forced, browsed)
        self.on_disconnected: Callable[[], object] = _nothing
        """Function that is called when the broker, not the application, has ended the consumer (for links between brokers)."""

    # --- API ---

    @property
    def queue_name(self) -> str:
        return self.request.queue_name

    @property
    def filter_string(self) -> str | None:
        return self.request.filter_string

    @property
    def browse_only(self) -> bool:
        return self.request.browse_only

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def queue_info(self) -> QueueQueryResult:
        """The broker's description of the queue when the consumer was created."""
        assert self._info is not None
        return self._info

    def receive(self, timeout: int | None = None) -> Awaitable[ClientMessage | None]:
        """The next message.  ``timeout`` in ms: None waits for ever, 0 is :meth:`receive_immediate`.

        None is returned after the timeout, and when the application closes the consumer, its session or the connection meanwhile.  When
        they end for another reason (the connection is lost for good, the queue is deleted) ``ObjectClosedError`` is raised, as by the next
        call.  When the time is over the broker is asked once more whether it has a message, unless the connection is away then.  Cancelling
        the result ends the wait and loses no message.
        """
        received: Awaitable[ClientMessage | None]
        message = self._at_hand()
        if message is None:
            received = self._receiving = self.runtime.spawn(self._receive(timeout))
        else:
            # Not in a task: one that has ended would keep the message from a caller who is cancelled before the loop's next turn.
            received = self.runtime.create_future()
            self.runtime.resolve(received, message)
        return received

    def receive_immediate(self) -> Awaitable[ClientMessage | None]:
        """A message if the queue has one now; asks the broker when nothing is buffered."""
        return self.receive(0)

    def set_message_handler(self, handler: MessageHandler | None) -> None:
        """Call ``handler`` for each message, one after the other; one that returns an awaitable is awaited before the next message.

        An exception of the handler is logged, and delivery goes on.  While a handler is set, ``receive`` raises ``IllegalStateError``.
        """
        self.check_open()
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.stop()
        if handler is not None:
            self._pump = HandlerPump(self, handler)
            self._pump.wake()

    def acknowledge(self, message: ClientMessage) -> Awaitable[None]:
        """Acknowledge all messages of this consumer up to ``message``; waits for the broker only with ``block_on_acknowledge``.

        The acknowledgement is sent at the end of the loop's turn, together with others, or sooner when ``ack_batch_size`` bytes have
        gathered; in a transaction at its end, or after so many bytes.  Once a message with a priority other than 4 was received, each
        message is acknowledged individually (delivery order then differs from the broker's).  A message that went back to its queue after a
        connection failure is not acknowledged: it will come again.
        """
        return self._acknowledge(self.acknowledgements.cumulative, message)

    def individual_acknowledge(self, message: ClientMessage) -> Awaitable[None]:
        """Acknowledge just ``message``, at once."""
        return self._acknowledge(self.acknowledgements.individual, message)

    @starts
    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        pump, self._pump = self._pump, None
        try:
            if pump is not None:
                pump.stop()
                await pump.finished(self.session.settings.on_message_close_timeout)
        finally:  # also when the call is cancelled, for no later one would do it
            answer = self._leave()
        if answer is not None:
            await answer

    def _leave(self) -> Any:
        """Have the broker close the consumer; returns what to wait for, if anything."""
        session = self.session
        for answer in self.acknowledgements.flush():
            session.forget_answer(answer)
        self._shut()
        channel = session.channel
        session.consumer_closed(self)
        if channel.error is not None:
            return None
        # While the connection is away no answer is awaited, but a reattached session still has the consumer.
        answer = self.runtime.spawn(self._left(channel.call(ConsumerClose(self.id), NullResponse, bound=True)))
        return None if channel.locked else answer

    async def _left(self, answer: Any) -> None:
        try:
            await answer
        except MQError as error:
            self.runtime.log_warning(f"closing the consumer of {self.queue_name}: {error}")

    async def __aiter__(self) -> AsyncIterator[ClientMessage]:
        """Messages until the application closes the consumer; raises as :meth:`receive` when it ends for another reason."""
        while not self._closed:
            message = await self._next(None)  # not in a task of its own, as in receive()
            if message is not None:
                yield message
                self._in_a_row += 1
                if self._in_a_row % BURST == 0:
                    await next_turn(self.runtime)
        self._raise_failure()

    # --- for shells ---

    def consumed(self, message: ClientMessage, expired: bool | None = None) -> bool:
        """A shell has taken a message out of the consumer's buffer: return its credits.

        ``expired`` is the shell's finding, None: check now.  Returns False for an expired message: the broker has been told, and the
        application must not get the message.
        """
        self.arrivals.taken(message)
        if expired if expired is not None else self._expired(message):
            self._dropped += 1
            if message.large is not None:
                message.large.discard()
            if not self.browse_only and message.incarnation == self.incarnation:
                self.acknowledgements.settled(message)
                self.session.channel.send(Expired(self.id, message.message_id))
            return False
        if message.incarnation == self.incarnation:
            self.acknowledgements.taken(message)
        self.arrivals.give_out_body(message)
        return True

    def _expired(self, message: ClientMessage) -> bool:
        return message.expiration != 0 and self.runtime.wall_clock_ms() >= message.expiration

    def prepare_receive(self) -> None:
        """A shell is about to wait for a message: grants the one credit of a consumer without window."""
        # An unread body would keep the credits that the next message needs.
        self.arrivals.give_up_body()
        self.arrivals.ask_for_credits()

    @starts
    async def force_delivery(self, patient: bool = True) -> None:
        """Completes when a message has come or the broker has delivered all that it can deliver now.

        Withdraws the credit of a consumer without window.  With ``patient`` false it completes at once while the connection is away.
        """
        if patient or not self.session.channel.locked:
            await self.arrivals.forced.ask()

    # --- from the session ---

    def opened(self, info: QueueQueryResult) -> None:
        """The broker has the consumer: let messages come."""
        self._info = info
        self.arrivals.opened()

    def pause(self) -> None:
        """The session was stopped."""
        self._paused = True
        self._buffer.pause()

    def resume(self) -> None:
        self._paused = False
        self._buffer.resume()
        self._wake()

    async def wait_for_handler(self) -> None:
        """Wait until the message handler does not run, at most ``on_message_close_timeout``."""
        if self._pump is not None:
            await self._pump.finished(self.session.settings.on_message_close_timeout)

    def clear(self, return_credits: bool) -> None:
        """Forget the messages delivered so far: the broker takes them back.  ``return_credits``: it still counts their credits."""
        if not return_credits:
            self.incarnation += 1
        kind = LargeMessageInterruptedError if return_credits else LargeMessageTakenBackError
        error = kind("the broker took the message back before its body was read; the message will be delivered again")
        self.arrivals.taken_back(self._buffer.clear(), error, return_credits)
        self.acknowledgements.forget()
        if return_credits:
            self.incarnation += 1

    def recreated(self) -> int:
        """The consumer exists anew after a failure: credits to grant."""
        self.clear(return_credits=False)
        return self.arrivals.recreated()

    @property
    def pending_sequence(self) -> int | None:
        """The forced delivery that a receive waits for."""
        return self.arrivals.forced.pending_sequence

    @property
    def buffered(self) -> int:
        """Number of messages that were not taken yet."""
        return len(self._buffer)

    @property
    def has_message(self) -> bool:
        """Could a message be taken at once?"""
        return len(self._buffer) > 0 and not self._paused

    def offer(self, message: ClientMessage) -> None:
        """A message has arrived (from :class:`Arrivals`)."""
        if self._closed:
            return
        self.acknowledgements.arrived(message)
        self._buffer.put(message)
        if not self._paused:
            self.arrivals.forced.message_came()
        self._wake()

    def disconnected(self) -> None:
        """The broker has destroyed the queue."""
        reason = f"the broker has ended the consumer of {self.queue_name}: its queue was deleted"
        self.runtime.log_warning(reason)
        self._failure = ObjectClosedError(reason)
        self.close()
        self.on_disconnected()

    def abandon(self, error: MQError) -> None:
        """The session is over."""
        self._closing = True
        if self._pump is not None:
            self._pump.stop()
        self._shut()

    # --- inside ---

    def _at_hand(self) -> ClientMessage | None:
        """A message for which nobody has to wait; now and then none, so that the loop has its turn."""
        if self._closed or self._pump is not None or self._limiter is not None or self._arrival.waiting:
            return None
        if self._receiving is not None and not self.runtime.is_done(self._receiving):
            return None  # calls get their messages in their order
        self._in_a_row += 1
        return self.take() if self._in_a_row % BURST else None

    async def _receive(self, timeout: int | None) -> ClientMessage | None:
        self.check_open()
        return await self._next(timeout)

    async def _next(self, timeout: int | None) -> ClientMessage | None:
        if self._pump is not None:
            raise IllegalStateError("a consumer with a message handler cannot be asked to receive")
        deadline = None if timeout is None else self.runtime.now() + timeout / 1000
        while True:
            message = await self.take_paced()
            if message is not None:
                return message
            if self._closed:
                self._raise_failure()
                return None
            self.prepare_receive()
            left = None if deadline is None else deadline - self.runtime.now()
            if (left is not None and left <= 0) or not await self._arrived_within(left):
                break
        if self._paused or not (self.session.started or self.browse_only):
            return None
        if timeout and self.session.channel.locked:
            return None  # the whole timeout has passed
        while True:
            dropped = self._dropped
            try:
                await self.arrivals.forced.ask()
            except ObjectClosedError:
                self._raise_failure()
                return None
            message = await self.take_paced()
            if message is None:
                self._raise_failure()
            if message is not None or self._dropped == dropped or self._closed:
                return message
            # Only expired messages have come: there may be more.
            self.prepare_receive()

    def _raise_failure(self) -> None:
        """Raise why the consumer has ended, unless it lives or the application has closed it."""
        failure = self._failure or self.session.failure
        if failure is not None:
            raise failure

    def take(self) -> ClientMessage | None:
        """The next message that has not expired."""
        while True:
            message = self._buffer.pop()
            if message is None or self.consumed(message):
                return message

    async def take_paced(self) -> ClientMessage | None:
        """:meth:`take`, slowed down to the maximum rate."""
        if self._limiter is not None and len(self._buffer) and not self._paused:
            while delay := self._limiter.delay(self.runtime.now()):
                await sleep(self.runtime, delay)
        return self.take()

    @property
    def paced(self) -> bool:
        return self._limiter is not None

    async def _arrived_within(self, seconds: float | None) -> bool:
        try:
            await self._arrival.wait(seconds)
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        if self._pump is not None:
            self._pump.wake()
        else:
            self._arrival.wake()

    def _acknowledge(self, note: Callable[[ClientMessage], list[Any]], message: ClientMessage) -> Awaitable[None]:
        session = self.session
        if session.work.order.held and session.open_transaction.takes_acknowledgements:
            return self.runtime.spawn(self._acknowledge_in_order(note, message))
        return self.runtime.spawn(_all_of(note(message)))

    async def _acknowledge_in_order(self, note: Callable[[ClientMessage], list[Any]], message: ClientMessage) -> None:
        """A waiting commit must not include acknowledgements made after it."""
        async with self.session.work.order:
            if self._closed and self.acknowledgements.needed:
                self.session.open_transaction.acknowledged_in_vain()
            answers = note(message)
        await _all_of(answers)

    def check_open(self) -> None:
        if self._closed:
            self._raise_failure()
            raise closed_error(f"consumer of {self.queue_name}")

    def _shut(self) -> None:
        self._closed = True
        # Messages without an acknowledgement go back to the queue: it is too late to acknowledge them.
        self.acknowledgements.forget()
        self._buffer.close()
        self.arrivals.interrupt(LargeMessageInterruptedError("the consumer was closed before the body had arrived"))
        self._arrival.wake()
        self.arrivals.forced.close()


def _nothing() -> None: ...


async def _all_of(futures: list[Any]) -> None:
    """Wait for every one of them, and raise the first failure."""
    failure: MQError | None = None
    for future in futures:
        try:
            await future
        except MQError as error:
            failure = failure or error
    if failure is not None:
        raise failure
