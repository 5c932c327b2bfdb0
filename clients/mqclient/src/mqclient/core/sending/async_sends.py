"""Sends whose answer is not waited for: which message each answer is about.

Source: ``protocol-spec/``, chapter "Responses, correlation, confirmations" (asynchronous acknowledgements).
"""

from __future__ import annotations

from collections.abc import Iterable

from mqclient.core.connection.channel import Channel
from mqclient.core.listeners import SendAcknowledgementHandler
from mqclient.core.message import ClientMessage
from mqclient.core.runtime import Waiters
from mqclient.errors import MQError
from mqclient.wire.hot import VERSION_CORRELATION

UNANSWERED_MAX = 16 * 1024 * 1024
"""Bytes of one session's messages that may wait for the broker's answer before senders wait."""


class AsyncSends:
    """Sends with an acknowledgement handler.  A send is settled by the answer with its correlation.

    Older versions have no correlations: there the confirmation that covers the send's packet settles it.  In newer ones a confirmation
    proves nothing, as a broker also confirms packets that it refuses in a later answer.
    """

    def __init__(self, channel: Channel, unanswered_max: int | None = None) -> None:
        self._runtime = channel.runtime
        self._protocol = channel.protocol
        self._pending: dict[int, tuple[ClientMessage, SendAcknowledgementHandler | None, int]] = {}
        self._bytes = 0
        self._bytes_max = UNANSWERED_MAX if unanswered_max is None else unanswered_max
        self._waiters = Waiters(channel.runtime)

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def full(self) -> bool:
        """Is so much unanswered that senders have to wait?"""
        return self._bytes >= self._bytes_max

    async def room(self) -> None:
        """Wait until the broker has answered enough sends.  Raises nothing: the caller has to check that the session is open."""
        while self.full:
            await self._waiters.wait()

    def register(self, message: ClientMessage, handler: SendAcknowledgementHandler | None, size: int) -> int:
        """A message or a part of one is about to be sent in ``size`` bytes; returns the correlation to send with it."""
        correlation = self._protocol.next_async_correlation()
        self._pending[correlation] = (message, handler, size)
        self._bytes += size
        return correlation

    def written(self, message: ClientMessage, handler: SendAcknowledgementHandler) -> None:
        """A message was sent without a window: more will not be known of it."""
        self._tell(handler.send_acknowledged, message)

    def confirmed(self, correlations: Iterable[int]) -> None:
        """The broker has processed the packets of these sends, one way or the other."""
        if self._protocol.version < VERSION_CORRELATION:
            self.acknowledged(correlations)

    def acknowledged(self, correlations: Iterable[int]) -> None:
        for correlation in correlations:
            entry = self._take(correlation)
            if entry is not None and entry[1] is not None:
                self._tell(entry[1].send_acknowledged, entry[0])

    def refused(self, correlation: int, error: MQError) -> bool:
        """False when no send has that correlation."""
        entry = self._take(correlation)
        if entry is None:
            return False
        if entry[1] is not None:
            self._tell(entry[1].send_failed, entry[0], error)
        else:
            self._runtime.log_warning(f"the broker refused a message to {entry[0].address}: {error}")
        return True

    def fail(self, error: MQError) -> None:
        """No answers will come any more."""
        pending, self._pending = self._pending, {}
        self._bytes = 0
        self._waiters.wake()
        for message, handler, _ in pending.values():
            if handler is not None:
                self._tell(handler.send_failed, message, error)

    def _take(self, correlation: int) -> tuple[ClientMessage, SendAcknowledgementHandler | None, int] | None:
        entry = self._pending.pop(correlation, None)
        if entry is not None:
            self._bytes -= entry[2]
            if self._waiters.waiting and not self.full:
                self._waiters.wake()
        return entry

    def _tell(self, function: object, *args: object) -> None:
        assert callable(function)
        try:
            function(*args)
        except Exception as error:  # the application's failure must not stop the session
            self._runtime.log_failure("a send acknowledgement handler failed", error)
