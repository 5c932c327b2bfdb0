"""Arrivals for one consumer: regular messages, large ones in chunks, markers; and the credits that go back for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mqclient.core.connection.channel import Channel
from mqclient.core.consuming.browsing import Browsed
from mqclient.core.consuming.forced import AskingConsumer, ForcedDelivery
from mqclient.core.message import ClientMessage, LargeBody, Recipient
from mqclient.errors import MQError
from mqclient.protocol.credits import ConsumerCredits
from mqclient.wire.message import KEY_FORCED_DELIVERY, CoreMessage, decode_headers, decode_message
from mqclient.wire.packets import FlowToken, SessionReceiveLarge


class ReceivingConsumer(Recipient, AskingConsumer, Protocol):
    """The consumer that the messages are for."""

    incarnation: int
    """How often delivery started anew: the broker took back the messages delivered before."""

    @property
    def buffered(self) -> int:
        """Number of messages that were not taken yet."""

    def offer(self, message: ClientMessage) -> None:
        """A message has arrived."""


class Arrivals:
    """The arriving messages of a consumer.  ``browsed``: the messages that a browser has shown; None for other consumers."""

    def __init__(
        self, consumer: ReceivingConsumer, channel: Channel, credits: ConsumerCredits, forced: ForcedDelivery, browsed: Browsed | None
    ) -> None:
        self.credits = credits
        self.forced = forced
        self._consumer = consumer
        self._channel = channel
        self._large: ClientMessage | None = None
        """The large message whose chunks come just now."""
        self._body: LargeBody | None = None
        """The body of the large message that was taken last."""
        self._browsed = browsed
        self._passing_over = False
        """Is a large message coming that a browser has shown already?"""

    # --- from the session ---

    def opened(self) -> None:
        """The broker has the consumer: let messages come."""
        self._grant(self.credits.initial())

    def message_received(self, buffer: bytes, delivery_count: int, frame_size: int) -> None:
        found = decode_message(buffer)
        if delivery_count == 0 and KEY_FORCED_DELIVERY in found.properties:
            self.forced.marker(found.get(KEY_FORCED_DELIVERY))
            return
        message = self._message(found, delivery_count, frame_size, len(buffer))
        self.forced.regular_arrived()
        self.credits.arrived()
        if self._browsed is not None and self._browsed.repeats(message.message_id):
            self.forced.passed_over()
            self._grant(self.credits.taken(frame_size))
            self.ask_for_credits()
        else:
            self._consumer.offer(message)

    def large_received(self, packet: SessionReceiveLarge, frame_size: int) -> None:
        consumer = self._consumer
        message = self._message(decode_headers(packet.headers), packet.delivery_count, frame_size, len(packet.headers))
        incarnation = consumer.incarnation
        message.large = LargeBody(
            self._channel.runtime,
            message,
            packet.large_message_size,
            lambda size, last: self._chunk_returned(incarnation, size, last),
            self._await_chunk,
        )
        self._large = message
        self.forced.large_began()
        # The chunks have credits of their own: the next message can be requested while they still arrive.
        self.credits.arrived()
        if self._browsed is not None and self._browsed.repeats(message.message_id):
            self._passing_over = True
            self.forced.passed_over()
            message.large.discard()
            self._grant(self.credits.part_taken(frame_size, False))
            return
        consumer.offer(message)
        # A receive that waits for the marker has its answer: there is a message.  The marker comes after the last chunk only, and without a
        # window no chunk comes before the message was taken.
        self.forced.message_came()

    def chunk_received(self, chunk: bytes, frame_size: int, continues: bool) -> None:
        message = self._large
        if message is None or message.large is None:
            # The rest of a message that was given up; the broker has counted it.
            self._grant(self.credits.part_taken(frame_size, not continues))
            return
        if not continues:
            self._large = None
        message.large.feed(chunk, frame_size, not continues)
        if not continues:
            self.forced.large_complete()
            if self._passing_over:
                self._passing_over = False
                self.ask_for_credits()

    # --- from the consumer ---

    def taken(self, message: ClientMessage) -> None:
        """A message goes from the buffer to the application, unless it has expired."""
        self.give_up_body(message)
        if self._browsed is not None:
            self._browsed.shown(message.message_id)
        if message.incarnation == self._consumer.incarnation:
            self._return_credits(message)

    def give_out_body(self, message: ClientMessage) -> None:
        """The application has the message: its body may be read until the next one is asked for."""
        self._body = message.large

    def give_up_body(self, message: ClientMessage | None = None) -> None:
        """The application goes on: a body that it has not begun to read is passed over, unless it is ``message``'s."""
        body, self._body = self._body, None
        if body is not None and not body.claimed and (message is None or body is not message.large):
            body.discard()

    def ask_for_credits(self) -> None:
        """A message is waited for: without a window, each is asked for."""
        self._grant(self.credits.ask())

    def taken_back(self, messages: list[ClientMessage], error: MQError, return_credits: bool) -> None:
        """The broker has taken back delivered messages; ``messages`` are those not taken by the application yet.  ``return_credits``: the
        broker still counts them."""
        for message in messages:
            if return_credits:
                self._return_credits(message)
            if message.large is not None:
                message.large.discard(error)
        if return_credits and self._body is not None:
            # Chunks that were not read yet hold credits.
            self._body.discard(error)
        self.interrupt(error)

    def recreated(self) -> int:
        """The consumer exists anew after a failure: credits to grant."""
        if self._browsed is not None:
            self._browsed.begin_anew()
        return self.credits.after_recreation()

    def interrupt(self, error: MQError) -> None:
        """No more chunks of a message that is under way are waited for."""
        large, self._large = self._large, None
        if large is not None and large.large is not None:
            large.large.discard(error)
        self._body = None
        self._passing_over = False
        self.forced.large_complete(interrupted=True)

    # --- inside ---

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
            consumer=self._consumer,
            incarnation=self._consumer.incarnation,
            frame_size=frame_size,
            encode_size=encode_size,
        )

    def _chunk_returned(self, incarnation: int, frame_size: int, last: bool) -> None:
        if incarnation == self._consumer.incarnation:
            self._grant(self.credits.part_taken(frame_size, last))

    async def _await_chunk(self, wait: Callable[[], Any], what: str) -> None:
        # Messages in the buffer hold credits until they are taken, which will not be before the body has been read.
        if self._consumer.buffered:
            self._grant(self.credits.gathered())
        await self.forced.await_answer(wait, what)

    def _return_credits(self, message: ClientMessage) -> None:
        taken = self.credits.taken(message.frame_size) if message.large is None else self.credits.part_taken(message.frame_size, False)
        self._grant(taken)

    def _grant(self, credits: int | None) -> None:
        if credits is not None and not self._consumer.closed:
            self._channel.send_at_once(FlowToken(self._consumer.id, credits))
