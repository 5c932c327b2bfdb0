"""Acknowledgements: batches of one consumer, cumulative and individual ones, and the time of sending.

Source: ``protocol-spec/``, chapters "Consumers" and "JMS mapping" (the packets that a broker observes).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Protocol

from mqclient.core.connection.channel import Channel
from mqclient.core.message import ClientMessage
from mqclient.core.runtime import Runtime
from mqclient.core.settings import LocatorSettings
from mqclient.wire.packets import Acknowledge, IndividualAcknowledge, NullResponse

DEFAULT_PRIORITY = 4


class Batching(Protocol):
    """The session whose consumers note acknowledgements."""

    runtime: Runtime

    def flush_batches(self) -> list[Any]:
        """Send the waiting acknowledgements; returns the futures of the answers, where answers are asked for."""

    def forget_answer(self, future: Any) -> None:
        """Log the error of ``future``, which is not awaited."""


class TurnEnd:
    """Sends the noted acknowledgements of a session's consumers before the loop's next turn."""

    __slots__ = ("_scheduled", "_session")

    def __init__(self, session: Batching) -> None:
        self._session = session
        self._scheduled = False

    def noted(self) -> None:
        """A consumer has an acknowledgement to send."""
        if not self._scheduled:
            self._scheduled = True
            self._session.runtime.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        for answer in self._session.flush_batches():
            self._session.forget_answer(answer)


class OpenTransaction(Protocol):
    """The transaction of the session, as its consumers see it."""

    @property
    def takes_acknowledgements(self) -> bool:
        """Does an acknowledgement made now wait for a commit, or for the outcome of a branch?"""

    def acknowledged(self) -> None:
        """A message was acknowledged in the session."""

    def acknowledged_in_vain(self) -> None:
        """A message was acknowledged that the broker has taken back: it will be delivered again."""


class AcknowledgingSession(Batching, Protocol):
    """The session that acknowledgements are sent in."""

    settings: LocatorSettings
    channel: Channel
    turn_end: TurnEnd

    @property
    def open_transaction(self) -> OpenTransaction: ...

    @property
    def auto_commit_acks(self) -> bool: ...

    @property
    def pre_acknowledge(self) -> bool: ...


class AcknowledgingConsumer(Protocol):
    id: int
    incarnation: int
    """How often delivery started anew: messages delivered before cannot be acknowledged."""

    @property
    def browse_only(self) -> bool: ...


class Acknowledger:
    """``batch_size`` is the number of message bytes that one cumulative acknowledgement covers at most; 0: each message has its own.

    An acknowledgement in a transaction is sent with the transaction's end at the latest, as it has no effect before; any other at the end
    of the loop's turn, and with ``block_on_acknowledge`` at once.

    A cumulative acknowledgement means "up to" in the broker's order of delivery, but the application takes messages of differing priorities
    in another order.  From the first message with a priority other than 4 on, each message is therefore acknowledged by itself.
    """

    __slots__ = ("_batch_bytes", "_batch_last", "_batch_size", "_blocks", "_consumer", "_individually", "_session", "_taken", "_transacted")

    def __init__(self, session: AcknowledgingSession, consumer: AcknowledgingConsumer, batch_size: int) -> None:
        self._session = session
        self._consumer = consumer
        self._batch_size = batch_size
        self._blocks = session.settings.block_on_acknowledge
        self._transacted = not session.auto_commit_acks
        self._batch_bytes = 0
        self._batch_last: ClientMessage | None = None
        self._individually = False
        # Sizes only: messages that the application keeps unacknowledged must not be kept here as well.
        self._taken: OrderedDict[int, int] = OrderedDict()

    @property
    def needed(self) -> bool:
        return not (self._consumer.browse_only or self._session.pre_acknowledge)

    def arrived(self, message: ClientMessage) -> None:
        """A message is about to be buffered."""
        if message.priority != DEFAULT_PRIORITY and not self._individually:
            for answer in self.flush():
                self._session.forget_answer(answer)
            self._individually = True

    def taken(self, message: ClientMessage) -> None:
        """A message goes to the application."""
        if self.needed:
            self._taken[message.message_id] = message.encode_size

    def settled(self, message: ClientMessage) -> None:
        """The message is done with otherwise (it has expired)."""
        self._taken.pop(message.message_id, None)

    def cumulative(self, message: ClientMessage) -> list[Any]:
        """Acknowledge everything taken up to ``message``; the futures of the answers, where answers are asked for."""
        if self._counts_no_more(message):
            return []
        self._session.open_transaction.acknowledged()
        if self._individually:
            packets = [IndividualAcknowledge(self._consumer.id, message_id) for message_id, _ in self._upto(message)]
            return [answer for packet in packets for answer in self._send(packet)]
        for _, size in self._upto(message):
            self._batch_bytes += size
        self._batch_last = message
        if self._batch_bytes < self._batch_size:
            if self._transacted and self._session.open_transaction.takes_acknowledgements:
                return []
            if not self._blocks:
                self._session.turn_end.noted()
                return []
        return self.flush()

    def individual(self, message: ClientMessage) -> list[Any]:
        """Acknowledge ``message`` alone, at once; the futures of the answers, as above."""
        if self._counts_no_more(message):
            return []
        self._session.open_transaction.acknowledged()
        answers = self.flush()
        self._taken.pop(message.message_id, None)
        return answers + self._send(IndividualAcknowledge(self._consumer.id, message.message_id))

    def flush(self) -> list[Any]:
        """Send the acknowledgements that wait for their batch; returns the futures of the answers, as above."""
        message, self._batch_last = self._batch_last, None
        self._batch_bytes = 0
        if message is None or self._stale(message):
            return []
        return self._send(Acknowledge(self._consumer.id, message.message_id))

    def forget(self) -> None:
        """The broker has taken everything back: rolled back, or lost with the connection."""
        self._taken.clear()
        self._batch_last = None
        self._batch_bytes = 0

    @property
    def awaited(self) -> bool:
        """Has the application messages that it has not acknowledged?"""
        return bool(self._taken)

    def _counts_no_more(self, message: ClientMessage) -> bool:
        if self._stale(message):
            if self.needed:
                self._session.open_transaction.acknowledged_in_vain()
            return True
        return message.message_id not in self._taken

    def _stale(self, message: ClientMessage) -> bool:
        return not self.needed or message.incarnation != self._consumer.incarnation

    def _upto(self, message: ClientMessage) -> list[tuple[int, int]]:
        """(message id, size) of the taken messages, up to ``message``."""
        found = []
        while self._taken:
            entry = self._taken.popitem(last=False)
            found.append(entry)
            if entry[0] == message.message_id:
                break
        return found

    def _send(self, packet: Acknowledge | IndividualAcknowledge) -> list[Any]:
        if self._blocks:
            packet.requires_response = True
            return [self._session.channel.call(packet, NullResponse, bound=True)]
        self._session.channel.send(packet)
        return []
