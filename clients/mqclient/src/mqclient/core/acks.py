"""Acknowledgements of one consumer: batches, cumulative and individual ones.

Source: ``protocol-spec/``, chapters "Consumers" and "JMS mapping" (what a broker observes).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from mqclient.core.message import ClientMessage
from mqclient.wire.packets import Acknowledge, IndividualAcknowledge, NullResponse

if TYPE_CHECKING:
    from mqclient.core.consumers import Consumer
    from mqclient.core.session import Session

DEFAULT_PRIORITY = 4


class Acknowledger:
    """``batch_size`` is the number of message bytes that one cumulative acknowledgement covers; 0: each message.

    The broker counts "up to" in its own order of delivery, but messages of differing priorities are taken in another one.  From the first
    message with a priority other than 4 on, each message is therefore acknowledged by itself.
    """

    __slots__ = ("_batch_bytes", "_batch_last", "_batch_size", "_consumer", "_individually", "_session", "_taken")

    def __init__(self, session: Session, consumer: Consumer, batch_size: int) -> None:
        self._session = session
        self._consumer = consumer
        self._batch_size = batch_size
        self._batch_bytes = 0
        self._batch_last: ClientMessage | None = None
        self._individually = False
        self._taken: OrderedDict[int, ClientMessage] = OrderedDict()

    @property
    def needed(self) -> bool:
        return not (self._consumer.browse_only or self._session.pre_acknowledge)

    def arrived(self, message: ClientMessage) -> None:
        """A message is about to be buffered."""
        if message.priority != DEFAULT_PRIORITY and not self._individually:
            self.flush()
            self._individually = True

    def taken(self, message: ClientMessage) -> None:
        """A message goes to the application."""
        if self.needed:
            self._taken[message.message_id] = message

    def settled(self, message: ClientMessage) -> None:
        """The message is done with otherwise (it has expired)."""
        self._taken.pop(message.message_id, None)

    def cumulative(self, message: ClientMessage) -> Any:
        """Acknowledge everything taken up to ``message``; the future of the answer if one is waited for, else None."""
        if self._stale(message):
            return None
        self._session.transaction.acknowledged()
        result = None
        if self._individually:
            for taken in self._upto(message):
                result = self._send(IndividualAcknowledge(self._consumer.id, taken.message_id))
            return result
        for taken in self._upto(message):
            self._batch_bytes += taken.encode_size
        self._batch_last = message
        return self.flush() if self._batch_bytes >= self._batch_size else None

    def individual(self, message: ClientMessage) -> Any:
        """Acknowledge ``message`` alone, at once."""
        if self._stale(message):
            return None
        self._session.transaction.acknowledged()
        self.flush()
        self._taken.pop(message.message_id, None)
        return self._send(IndividualAcknowledge(self._consumer.id, message.message_id))

    def flush(self) -> Any:
        """Send what waits for its batch; the future of the answer if one is waited for."""
        message, self._batch_last = self._batch_last, None
        self._batch_bytes = 0
        if message is None or self._stale(message, batched=True):
            return None
        return self._send(Acknowledge(self._consumer.id, message.message_id))

    def forget(self) -> None:
        """The broker has taken everything back: rolled back, or lost with the connection."""
        self._taken.clear()
        self._batch_last = None
        self._batch_bytes = 0

    def _stale(self, message: ClientMessage, batched: bool = False) -> bool:
        if not self.needed or message.incarnation != self._consumer.incarnation:
            return True
        return not batched and message.message_id not in self._taken

    def _upto(self, message: ClientMessage) -> list[ClientMessage]:
        found = []
        while self._taken:
            _, taken = self._taken.popitem(last=False)
            found.append(taken)
            if taken is message or taken.message_id == message.message_id:
                break
        return found

    def _send(self, packet: Acknowledge | IndividualAcknowledge) -> Any:
        if self._session.settings.block_on_acknowledge:
            packet.requires_response = True
            return self._session.channel.call(packet, NullResponse)
        self._session.channel.send(packet)
        return None
