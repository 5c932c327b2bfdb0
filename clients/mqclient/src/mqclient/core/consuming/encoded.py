"""Consumers of encoded messages: a broker takes them from another one without decoding them, and settles them by their ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mqclient.core.connection.channel import Channel
from mqclient.errors import MQError
from mqclient.wire.packets import (
    Acknowledge,
    ConsumerClose,
    Expired,
    FlowToken,
    ForceConsumerDelivery,
    IndividualAcknowledge,
    NullResponse,
    ReturnMessages,
    SessionReceiveLarge,
)


class Recipient(Protocol):
    """The receiver of the messages, which come in the order in which the broker has sent them."""

    def message_received(self, message: bytes, delivery_count: int, frame_size: int) -> None:
        """A whole encoded message, in the layout of version 129 and later."""

    def large_received(self, packet: SessionReceiveLarge, frame_size: int) -> None:
        """The headers of a large message; its body follows in chunks."""

    def chunk_received(self, chunk: bytes, frame_size: int, continues: bool) -> None: ...

    def held_received(self, message_id: int, delivery_count: int) -> None:
        """A message that another consumer of the session has got (home links only)."""

    def disconnected(self) -> None:
        """The broker has ended the consumer: messages in delivery to it go to others."""


class EncodedConsumer:
    """A consumer of a session that ends with its connection.  Nothing here waits for an answer but :meth:`close`."""

    def __init__(self, channel: Channel, consumer_id: int, arrivals: Recipient) -> None:
        self.id = consumer_id
        self.arrivals = arrivals
        self._channel = channel

    def grant(self, credits: int) -> None:
        """Give the broker further credits; 0 takes all back."""
        self._channel.send_at_once(FlowToken(self.id, credits))

    def force(self) -> None:
        """Ask for a marker behind what the broker can give for the credits so far: a message with a delivery count of 0."""
        self._channel.send_at_once(ForceConsumerDelivery(self.id, 0))

    def acknowledge_until(self, message_id: int) -> None:
        """All messages delivered up to this one are done with."""
        self._channel.send(Acknowledge(self.id, message_id, False))

    def acknowledge(self, message_ids: Sequence[int]) -> None:
        """The messages are done with."""
        for message_id in message_ids:
            self._channel.send(IndividualAcknowledge(self.id, message_id, False))

    def expired(self, message_id: int) -> None:
        """The message had expired when it was to be used."""
        self._channel.send(Expired(self.id, message_id))

    def give_back(self, message_ids: Sequence[int], *, counted: bool) -> None:
        """The messages go back to their queue.  Only for home links: ``protocol-spec/``, chapter "Home brokers"."""
        self._channel.send(ReturnMessages(self.id, counted, tuple(message_ids)))

    async def close(self) -> None:
        """Close the consumer: messages in delivery go back to the queue.  Raises the error of the connection."""
        try:
            await self._channel.call(ConsumerClose(self.id), NullResponse, bound=True)
        except MQError:
            if self._channel.error is None:
                raise
