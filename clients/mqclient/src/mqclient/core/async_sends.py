"""Sends whose answer is not waited for: which message each answer is about.

Source: ``protocol-spec/``, chapter "Responses, correlation, confirmations" (asynchronous acknowledgements).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mqclient.core.api import SendAcknowledgementHandler
from mqclient.core.message import ClientMessage
from mqclient.errors import MQError

if TYPE_CHECKING:
    from mqclient.core.session import Session


class AsyncSends:
    """An answer with the send's correlation settles it, and so does a confirmation that covers its packet: whichever comes first."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._pending: dict[int, tuple[ClientMessage, SendAcknowledgementHandler | None]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def register(self, message: ClientMessage, handler: SendAcknowledgementHandler | None) -> int:
        """A message is about to be sent; returns the correlation to send with it."""
        correlation = self._session.channel.protocol.next_async_correlation()
        self._pending[correlation] = (message, handler)
        return correlation

    def acknowledged(self, correlations: Iterable[int]) -> None:
        for correlation in correlations:
            entry = self._pending.pop(correlation, None)
            if entry is not None and entry[1] is not None:
                self._tell(entry[1].send_acknowledged, entry[0])

    def refused(self, correlation: int, error: MQError) -> bool:
        """False when no send has that correlation."""
        entry = self._pending.pop(correlation, None)
        if entry is None:
            return False
        if entry[1] is not None:
            self._tell(entry[1].send_failed, entry[0], error)
        else:
            self._session.runtime.log_warning(f"the broker refused a message to {entry[0].address}: {error}")
        return True

    def fail(self, error: MQError) -> None:
        """No answers will come any more."""
        pending, self._pending = self._pending, {}
        for message, handler in pending.values():
            if handler is not None:
                self._tell(handler.send_failed, message, error)

    def _tell(self, function: object, *args: object) -> None:
        assert callable(function)
        try:
            function(*args)
        except Exception as error:  # the application's failure must not stop the session
            self._session.runtime.log_failure("a send acknowledgement handler failed", error)
