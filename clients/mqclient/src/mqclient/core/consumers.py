"""A consumer: what arrives, credits, receiving, closing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mqclient.core.acks import Acknowledger
from mqclient.core.api import MessageBuffer, MessageHandler, QueueQueryResult
from mqclient.core.channel import closed_error
from mqclient.core.handlers import HandlerPump
from mqclient.core.message import ClientMessage, LargeBody
from mqclient.core.runtime import Runtime, sleep, starts, wait_at_most
from mqclient.errors import ConnectionTimedOutError, IllegalStateError, LargeMessageInterruptedError, MQError, ObjectClosedError
from mqclient.protocol.credits import ConsumerCredits
from mqclient.protocol.retry import RateLimiter
from mqclient.wire.message import KEY_FORCED_DELIVERY, CoreMessage, decode_headers, decode_message
from mqclient.wire.packets import (
    ConsumerClose,
    CreateConsumer,
    Expired,
    FlowToken,
    ForceConsumerDelivery,
    NullResponse,
    SessionReceiveLarge,
)

if TYPE_CHECKING:
    from mqclient.core.session import Session


class Consumer:
    """Implements :class:`mqclient.core.api.ClientConsumer`."""

    def __init__(
        self, session: Session, request: CreateConsumer, window: int, max_rate: int, buffer: MessageBuffer, batch_size: int
    ) -> None:
        self.runtime: Runtime = session.runtime
        self.session = session
        self.request = request
        self.id = request.consumer_id
        self.credits = ConsumerCredits(window)
        self.acknowledgements = Acknowledger(session, self, batch_size)
        self.incarnation = 0
        """How often delivery started anew: the broker took back what was delivered before."""
        self._buffer = buffer
        self._limiter = RateLimiter(max_rate) if max_rate > 0 else None
        self._info: QueueQueryResult | None = None
        self._arrival: list[Any] = []
        self._large: ClientMessage | None = None
        self._body: LargeBody | None = None
        self._sequence = 0
        self._forced: dict[int, Any] = {}
        self._completions: list[Any] = []
        self._just_after_large = False
        """Was a large message the last that came?"""
        self._pump: HandlerPump | None = None
        self._paused = False
        self._closed = False
        self._closing = False

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
        assert self._info is not None
        return self._info

    @starts
    async def receive(self, timeout: int | None = None) -> ClientMessage | None:
        return await self._receive(timeout)

    @starts
    async def receive_immediate(self) -> ClientMessage | None:
        return await self._receive(0)

    def set_message_handler(self, handler: MessageHandler | None) -> None:
        self._check_open()
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.stop()
        if handler is not None:
            self._pump = HandlerPump(self, handler)
            self._pump.wake()

    def acknowledge(self, message: ClientMessage) -> Awaitable[None]:
        return self._acknowledged(self.acknowledgements.cumulative(message))

    def individual_acknowledge(self, message: ClientMessage) -> Awaitable[None]:
        return self._acknowledged(self.acknowledgements.individual(message))

    @starts
    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.stop()
            await pump.finished(self.session.settings.on_message_close_timeout)
        session = self.session
        for answer in self.acknowledgements.flush():
            session.forget_answer(answer)
        self._shut()
        channel = session.channel
        session.consumer_closed(self)
        if channel.error is not None:
            return
        # While the connection is away nobody waits, but a session that is reattached has the consumer still.
        answer = channel.call(ConsumerClose(self.id), NullResponse, bound=True)
        if channel.locked:
            session.forget_answer(answer)
            return
        try:
            await answer
        except MQError as error:
            self.runtime.log_warning(f"closing the consumer of {self.queue_name}: {error}")

    async def __aiter__(self) -> AsyncIterator[ClientMessage]:
        while not self._closed:
            message: ClientMessage | None = await self.receive()
            if message is not None:
                yield message

    # --- for shells ---

    def consumed(self, message: ClientMessage, expired: bool | None = None) -> bool:
        self._give_up_body(message)
        if message.incarnation == self.incarnation:
            self._return_credits(message.frame_size, message.large is None)
        if expired if expired is not None else self._expired(message):
            if message.large is not None:
                message.large.discard()
            if not self.browse_only and message.incarnation == self.incarnation:
                self.acknowledgements.settled(message)
                self.session.channel.send(Expired(self.id, message.message_id))
            return False
        if message.incarnation == self.incarnation:
            self.acknowledgements.taken(message)
        self._body = message.large
        return True

    def _expired(self, message: ClientMessage) -> bool:
        return message.expiration != 0 and self.runtime.wall_clock_ms() >= message.expiration

    def prepare_receive(self) -> None:
        # An unread body would keep the credits that the next message needs.
        self._give_up_body(None)
        asked = self.credits.ask()
        if asked:
            self._grant(asked)

    @starts
    async def force_delivery(self, patient: bool = True) -> None:
        if patient or not self.session.channel.locked:
            await self._force_delivery()

    # --- from the session ---

    def opened(self, info: QueueQueryResult) -> None:
        """The broker has the consumer: let messages come."""
        self._info = info
        initial = self.credits.initial()
        if initial:
            self._grant(initial)

    def message_received(self, buffer: bytes, delivery_count: int, frame_size: int) -> None:
        found = decode_message(buffer)
        if delivery_count == 0 and KEY_FORCED_DELIVERY in found.properties:
            self._marker(found.get(KEY_FORCED_DELIVERY))
            return
        message = self._message(found, delivery_count, frame_size, len(buffer))
        self._just_after_large = False
        self.credits.arrived()
        self._offer(message)

    def large_received(self, packet: SessionReceiveLarge, frame_size: int) -> None:
        message = self._message(decode_headers(packet.headers), packet.delivery_count, frame_size, len(packet.headers))
        incarnation = self.incarnation
        message.large = LargeBody(
            self.runtime,
            message,
            packet.large_message_size,
            lambda size, last: self._chunk_returned(incarnation, size, last),
            self._await_answer,
        )
        self._large = message
        self._offer(message)
        # Whoever asked whether there is a message has the answer.  The marker comes after the last chunk only, and without a window no
        # chunk comes before the message was taken.
        for future in list(self._forced.values()):
            self.runtime.resolve(future, None)

    def chunk_received(self, chunk: bytes, frame_size: int, continues: bool) -> None:
        message = self._large
        if message is None or message.large is None:
            # The rest of a message that was given up: the broker has counted it all the same.
            self._return_credits(frame_size, not continues)
            return
        if not continues:
            self._large = None
            self.credits.arrived()
        message.large.feed(chunk, frame_size, not continues)
        if not continues:
            self._just_after_large = True
            self._large_complete()

    def pause(self) -> None:
        """The session was stopped."""
        self._paused = True
        self._buffer.pause()

    def resume(self) -> None:
        self._paused = False
        self._buffer.resume()
        self._wake()

    async def wait_for_handler(self) -> None:
        """Until the message handler does not run, within ``on_message_close_timeout``."""
        if self._pump is not None:
            await self._pump.finished(self.session.settings.on_message_close_timeout)

    def clear(self, return_credits: bool) -> None:
        """What was delivered is taken back by the broker: forget it.  ``return_credits``: the broker still counts them."""
        if not return_credits:
            self.incarnation += 1
        error = LargeMessageInterruptedError("the broker took the message back before its body was read; it will come again")
        for message in self._buffer.clear():
            if return_credits:
                self._return_credits(message.frame_size, message.large is None)
            if message.large is not None:
                message.large.discard(error)
        if return_credits and self._body is not None:
            # Chunks that were not read yet hold credits.
            self._body.discard(error)
        self._interrupt(error)
        self.acknowledgements.forget()
        if return_credits:
            self.incarnation += 1

    def recreated(self) -> int:
        """The consumer exists anew after a failure: credits to grant."""
        self.clear(return_credits=False)
        return self.credits.after_recreation()

    @property
    def pending_sequence(self) -> int | None:
        """The forced delivery that somebody waits for."""
        return max(self._forced, default=None)

    def disconnected(self) -> None:
        """The broker has destroyed the queue."""
        self.runtime.log_warning(f"the broker has ended the consumer of {self.queue_name}: its queue was deleted")
        self.close()

    def abandon(self, error: MQError) -> None:
        """The session is over."""
        self._closing = True
        if self._pump is not None:
            self._pump.stop()
        self._shut()

    # --- inside ---

    async def _receive(self, timeout: int | None) -> ClientMessage | None:
        self._check_open()
        if self._pump is not None:
            raise IllegalStateError("a consumer with a message handler cannot be asked to receive")
        deadline = None if timeout is None else self.runtime.now() + timeout / 1000
        while True:
            message = await self.take_paced()
            if message is not None or self._closed:
                return message
            self.prepare_receive()
            left = None if deadline is None else deadline - self.runtime.now()
            if (left is not None and left <= 0) or not await self._arrived_within(left):
                break
        if self._paused or not (self.session.started or self.browse_only):
            return None
        if timeout and self.session.channel.locked:
            return None  # it has waited for as long as it was asked to
        try:
            await self._force_delivery()
        except ObjectClosedError:
            return None
        return await self.take_paced()

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
        future = self.runtime.create_future()
        self._arrival.append(future)
        late = TimeoutError()
        try:
            await wait_at_most(self.runtime, future, seconds, late)
        except TimeoutError:
            return False
        finally:
            if future in self._arrival:
                self._arrival.remove(future)
        return True

    async def _force_delivery(self) -> None:
        while True:
            self._check_open()
            # What follows a large message may come after a marker that was asked for before it was through, or just after: then ask again.
            doubtful = self._large is not None or self._just_after_large
            self._just_after_large = False
            await self._ask_for_marker()
            if not doubtful or len(self._buffer) or self._closed:
                break
            if self._large is not None:
                await self._await_answer(lambda: self._wait_in(self._completions), "a large message")
        if self.credits.withdraw():
            self.session.channel.send_at_once(FlowToken(self.id, 0))

    async def _ask_for_marker(self) -> None:
        await self.session.channel.ready()
        self._check_open()
        if len(self._buffer) and not self._paused:
            return
        sequence = self._sequence
        self._sequence += 1

        def wait() -> Any:
            future = self._forced[sequence] = self.runtime.create_future()
            return future

        first = wait()
        self.session.channel.send_at_once(ForceConsumerDelivery(self.id, sequence))
        try:
            await self._await_answer(wait, ForceConsumerDelivery.NAME, first)
        except ConnectionTimedOutError as error:
            self.session.connection_failed(error)
            raise
        finally:
            self._forced.pop(sequence, None)

    async def _await_answer(self, wait: Callable[[], Any], what: str, first: Any = None) -> None:
        """Await the future that ``wait`` makes, ``call_timeout`` at most; while the connection is away, ``call_failover_timeout``.

        Raises ``ConnectionTimedOutError``.
        """
        channel = self.session.channel
        seconds = self.session.settings.call_timeout / 1000
        future = wait() if first is None else first
        while True:
            late = ConnectionTimedOutError(f"{what} did not come within {seconds:g} s (callTimeout sets the limit)")
            try:
                await wait_at_most(self.runtime, future, seconds, late)
                return
            except ConnectionTimedOutError as error:
                if error is not late or not channel.locked:
                    raise
            future = wait()
            await channel.ready()

    def _wait_in(self, waiters: list[Any]) -> Any:
        future = self.runtime.create_future()
        waiters.append(future)
        return future

    def _large_complete(self) -> None:
        """No large message is under way any more."""
        completions, self._completions = self._completions, []
        for future in completions:
            self.runtime.resolve(future, None)

    def _marker(self, sequence: object) -> None:
        if isinstance(sequence, int):
            # After a failure only the last one was asked for again.
            for number in [number for number in self._forced if number <= sequence]:
                self.runtime.resolve(self._forced[number], None)

    def _message(self, found: CoreMessage, delivery_count: int, frame_size: int, encode_size: int) -> ClientMessage:
        return ClientMessage(
            found.message_id,
            found.address,
            found.user_id,
            found.type,
            found.durable,
            found.expiration,
            found.timestamp,
            found.priority,
            found.properties,
            found.body,
            delivery_count=delivery_count,
            consumer=self,
            incarnation=self.incarnation,
            frame_size=frame_size,
            encode_size=encode_size,
        )

    def _offer(self, message: ClientMessage) -> None:
        if self._closed:
            return
        self.acknowledgements.arrived(message)
        self._buffer.put(message)
        if self._forced and not self._paused:
            # Nobody needs the marker any more.  A large message that nobody takes may even keep it away, for want of credits.
            for future in list(self._forced.values()):
                self.runtime.resolve(future, None)
        self._wake()

    def _wake(self) -> None:
        if self._pump is not None:
            self._pump.wake()
            return
        arrivals, self._arrival = self._arrival, []
        for future in arrivals:
            self.runtime.resolve(future, None)

    def _chunk_returned(self, incarnation: int, frame_size: int, last: bool) -> None:
        if incarnation == self.incarnation and not self._closed:
            self._return_credits(frame_size, last)

    def _return_credits(self, frame_size: int, discount: bool) -> None:
        credits = self.credits.taken(frame_size, discount)
        if credits and not self._closed:
            self._grant(credits)

    def _grant(self, credits: int) -> None:
        self.session.channel.send_at_once(FlowToken(self.id, credits))

    def _give_up_body(self, message: ClientMessage | None) -> None:
        body, self._body = self._body, None
        if body is not None and not body.claimed and (message is None or body is not message.large):
            body.discard()

    def _interrupt(self, error: MQError) -> None:
        large, self._large = self._large, None
        if large is not None and large.large is not None:
            large.large.discard(error)
        self._body = None
        self._large_complete()

    def _acknowledged(self, answers: list[Any]) -> Awaitable[None]:
        return self.runtime.spawn(_all_of(answers))

    def _check_open(self) -> None:
        if self._closed:
            raise closed_error(f"consumer of {self.queue_name}")

    def _shut(self) -> None:
        self._closed = True
        # What was not acknowledged goes back to the queue: too late to acknowledge it now.
        self.acknowledgements.forget()
        self._buffer.close()
        self._interrupt(LargeMessageInterruptedError("the consumer was closed before the body had arrived"))
        arrivals, self._arrival = self._arrival, []
        forced, self._forced = list(self._forced.values()), {}
        for future in (*arrivals, *forced):
            self.runtime.resolve(future, None)


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
