"""The calls of a session about encoded messages, which links between brokers and some programs hand on as they are.

See :mod:`mqclient.core.sending.encoded_sends` and :mod:`mqclient.core.consuming.encoded`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mqclient.core.batches import BatchDone
from mqclient.core.connection.channel import Channel
from mqclient.core.consuming.encoded import EncodedConsumer, Recipient
from mqclient.core.runtime import Runtime, starts
from mqclient.core.sending.encoded_sends import Done, EncodedSends, ReadBody
from mqclient.core.settings import LocatorSettings
from mqclient.errors import IllegalStateError, MQError
from mqclient.wire.packets import QUEUE_QUERY_ANSWERS, CreateConsumer


class EncodedMethods:
    """Only for sessions that end with their connection (``reconnect_attempts`` 0)."""

    runtime: Runtime
    settings: LocatorSettings
    channel: Channel

    def __init__(self) -> None:
        super().__init__()
        self.encoded_sends: EncodedSends | None = None
        self.encoded_consumers: dict[int, EncodedConsumer] = {}
        self._consumer_ids = itertools.count()
        self._producer_ids = itertools.count(1)

    def connection_failed(self, error: MQError) -> None:
        """A call was not answered: the connection counts as failed."""
        raise NotImplementedError

    @starts
    async def create_encoded_consumer(
        self, queue_name: str, filter_string: str | None, arrivals: Recipient, *, priority: int = 0
    ) -> EncodedConsumer:
        """A consumer that has no credits yet; ``arrivals`` gets what comes.  Only for sessions that end with their connection."""
        await self.channel.ready()
        consumer_id = next(self._consumer_ids)
        consumer = self.encoded_consumers[consumer_id] = EncodedConsumer(self.channel, consumer_id, arrivals)
        try:
            await self.channel.call(CreateConsumer(consumer_id, queue_name, filter_string, False, True, priority), *QUEUE_QUERY_ANSWERS)
        except BaseException:
            self.encoded_consumers.pop(consumer_id, None)
            raise
        return consumer

    def open_encoded_sends(self) -> EncodedSends:
        """Prepare the session for encoded messages: it becomes the session of an anonymous producer.

        Raises ``IllegalStateError`` for a session that may outlive its connection.
        """
        if self.encoded_sends is None:
            if self.settings.reconnect_attempts or self.settings.failover_attempts:
                raise IllegalStateError("encoded messages need a session that ends with its connection: set reconnect_attempts to 0")
            self.encoded_sends = EncodedSends(self.channel, self.settings, next(self._producer_ids), self.connection_failed)
        return self.encoded_sends

    def send_encoded(self, parts: Sequence[bytes], size: int, done: Done, *, address: str | None = None) -> bool:
        """Send an encoded message of ``size`` bytes, given in parts, in the layout of version 129 and later.  Never waits.

        ``done`` is called once: with None when the broker has the message, else with the error of the broker or of the connection.  With
        ``address`` the message costs credits of that address.  False: the message was taken, but the next one has to wait until
        ``open_encoded_sends().on_room`` is called.  Only for sessions that end with their connection (``reconnect_attempts`` 0).
        """
        sends = self.encoded_sends or self.open_encoded_sends()
        return sends.send(parts, size, done, address)

    def send_batch(self, address: str | None, messages: Sequence[bytes], done: BatchDone | None) -> bool:
        """As :meth:`send_encoded`, for many messages that name the same address, without an object or a call for each.

        ``done`` is called once with the batch, when every message was answered or the connection is over.  None asks for no answers: in
        a transaction, whose commit fails when one of its messages was refused.  Keep batches smaller than ``producer_window_size``.
        """
        sends = self.encoded_sends or self.open_encoded_sends()
        return sends.send_batch(address, messages, done)

    def send_large_encoded(
        self, headers: bytes, read: ReadBody, size: int, done: Done, *, address: str | None = None, was_large: bool = False
    ) -> bool:
        """As :meth:`send_encoded`, for a message with its headers-and-properties block and a body of ``size`` bytes to read from.

        The body is read and sent piece by piece, as the broker takes it.  Raises ``IllegalStateError`` when another message is sent
        meanwhile.  ``was_large``: the message arrived as a large one, and its properties have the size of the body before compression.
        """
        sends = self.encoded_sends or self.open_encoded_sends()
        return sends.send_large(headers, read, size, done, address, was_large)
