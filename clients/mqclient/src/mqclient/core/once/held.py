"""A send that is held until the broker has confirmed it, or its transaction has ended."""

from __future__ import annotations

from typing import Any, Protocol

from mqclient.core.listeners import SendAcknowledgementHandler
from mqclient.core.message import ClientMessage
from mqclient.core.once.bodies import RepeatableBody
from mqclient.errors import MQError
from mqclient.wire.message import KEY_DUPLICATE_ID, decode_message

Regular = tuple[int, str, bytes]
"""What is needed to repeat a send with its transaction, unless it is large: producer id, address and encoded message."""


class Ledger(Protocol):
    """The keeper of held sends, which hears what becomes of each."""

    def confirmed(self, held: Held) -> None:
        """The broker has the message."""

    def unconfirmed(self, held: Held, error: MQError) -> None:
        """The broker has refused the message, or its answer was lost with the connection."""


_NO_BODY = RepeatableBody(None)


class Held:
    """A message with all that is needed to send it again; also the acknowledgement handler of its own send."""

    __slots__ = (
        *("_ledger", "address", "body", "buffer", "future", "handler"),
        *("message", "number", "producer_id", "wire", "written"),
    )

    def __init__(
        self,
        ledger: Ledger,
        message: ClientMessage,
        wire: ClientMessage,
        address: str,
        producer_id: int,
        buffer: bytes,
        handler: SendAcknowledgementHandler | None,
    ) -> None:
        self._ledger = ledger
        self.message = message
        """The message of the application, which may have changed meanwhile."""
        self.wire = wire
        """The message as it travels, if it is large."""
        self.body = _NO_BODY if buffer else RepeatableBody(wire.body_source)
        self.address = address
        self.producer_id = producer_id
        self.buffer = buffer
        """The encoded message; empty for a large one."""
        self.handler = handler
        self.future: Any = None
        """The future in which the sender waits for the confirmation; None when it does not wait."""
        self.number = 0
        """The place in the order of sends."""
        self.written: float | None = None
        """Monotonic time (s) of the last attempt; None before the first."""

    @property
    def duplicate_id(self) -> str:
        """The id that the message travels with."""
        return str((decode_message(self.buffer) if self.buffer else self.wire).get(KEY_DUPLICATE_ID))

    @property
    def large(self) -> bool:
        return not self.buffer

    @property
    def of_transaction(self) -> Held | Regular:
        """What a transaction holds of the send."""
        return self if self.large else (self.producer_id, self.address, self.buffer)

    @property
    def size(self) -> int:
        """Bytes of memory that the message takes while it is held."""
        return len(self.buffer) if self.buffer else len(self.wire.body)

    # --- the acknowledgement handler of the send

    def send_acknowledged(self, message: ClientMessage) -> None:
        self._ledger.confirmed(self)

    def send_failed(self, message: ClientMessage, error: MQError) -> None:
        self._ledger.unconfirmed(self, error)
