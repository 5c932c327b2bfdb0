"""Forced delivery: how a consumer finds out that the broker has no message for it just now.

The broker answers a request with a marker, once it has delivered all that it can.  A large message may overtake the marker, or keep it
away.

Source: ``protocol-spec/``, chapter "Consumers".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mqclient.core.connection.channel import Channel
from mqclient.core.runtime import Waiters, wait_at_most
from mqclient.core.settings import LocatorSettings
from mqclient.errors import ConnectionTimedOutError, MQError
from mqclient.protocol.credits import ConsumerCredits
from mqclient.wire.packets import FlowToken, ForceConsumerDelivery


class AskingConsumer(Protocol):
    """The consumer that wants to know."""

    id: int

    @property
    def closed(self) -> bool: ...

    @property
    def has_message(self) -> bool:
        """Could a message be taken at once?"""

    def check_open(self) -> None:
        """Raise why the consumer is closed."""


class ForcedDelivery:
    """``connection_failed`` is told when no answer came within ``call_timeout``."""

    def __init__(
        self,
        consumer: AskingConsumer,
        channel: Channel,
        credits: ConsumerCredits,
        settings: LocatorSettings,
        connection_failed: Callable[[MQError], None],
    ) -> None:
        self._consumer = consumer
        self._channel = channel
        self._runtime = channel.runtime
        self._settings = settings
        self._connection_failed = connection_failed
        self._credits = credits
        self._sequence = 0
        self._asked: dict[int, Any] = {}
        self._completions = Waiters(channel.runtime)
        self._large_under_way = False
        self._just_after_large = False
        """Was a large message the last that came?"""
        self._passed_over = False
        """Has a message come, since the last request, that was not for the application?"""

    @property
    def pending_sequence(self) -> int | None:
        """The request that a receive waits for."""
        return max(self._asked, default=None)

    async def ask(self) -> None:
        """Return when a message has come, or the broker has delivered all that it can deliver now.  Withdraws a single credit."""
        consumer = self._consumer
        while True:
            consumer.check_open()
            # A message behind a large one may come after a marker that was asked for before the large one was complete: then ask again.
            doubtful = self._large_under_way or self._just_after_large
            self._just_after_large = self._passed_over = False
            await self._ask_for_marker()
            if not (doubtful or self._passed_over) or consumer.has_message or consumer.closed:
                break
            if self._large_under_way:
                await self.await_answer(self._completions.add, "a large message")
        if self._credits.withdraw():
            self._channel.send_at_once(FlowToken(consumer.id, 0))

    async def await_answer(self, wait: Callable[[], Any], what: str, first: Any = None) -> None:
        """Await the future that ``wait`` makes, ``call_timeout`` at most; while the connection is away, ``call_failover_timeout``.

        A connection that has come back has the whole time again.  Raises ``ConnectionTimedOutError``.
        """
        runtime = self._runtime
        channel = self._channel
        left = seconds = self._settings.call_timeout / 1000
        future = wait() if first is None else first
        while True:
            late = ConnectionTimedOutError(f"{what} did not come within {seconds:g} s (callTimeout sets the limit)")
            try:
                await wait_at_most(runtime, future, left, late)
                return
            except ConnectionTimedOutError as error:
                left = channel.usable_since + seconds - runtime.now()
                if error is not late or not (channel.locked or left > 0):
                    raise
            future = wait()
            if channel.locked:
                await channel.ready()
                left = seconds

    # --- from the consumer ---

    def marker(self, sequence: object) -> None:
        """The broker has answered."""
        if isinstance(sequence, int):
            # After a failure only the marker of the last request was asked for again.
            for number in [number for number in self._asked if number <= sequence]:
                self._runtime.resolve(self._asked[number], None)

    def message_came(self) -> None:
        """A message has come: end all waits for a marker, which a large message may even keep away for want of credits."""
        self.give_up()

    def give_up(self) -> None:
        """End all waits for a marker: none will come, or none is needed."""
        for future in list(self._asked.values()):
            self._runtime.resolve(future, None)

    def regular_arrived(self) -> None:
        self._just_after_large = False

    def passed_over(self) -> None:
        """A message has come that the application does not get: the next one may be waiting for its credits."""
        self._passed_over = True

    def large_began(self) -> None:
        self._large_under_way = True

    def large_complete(self, interrupted: bool = False) -> None:
        """No large message is under way any more: its last chunk has come, or it was given up."""
        self._large_under_way = False
        self._just_after_large = self._just_after_large or not interrupted
        self._completions.wake()

    def close(self) -> None:
        """The consumer is closed: end all waits."""
        asked, self._asked = list(self._asked.values()), {}
        for future in asked:
            self._runtime.resolve(future, None)

    # --- inside ---

    async def _ask_for_marker(self) -> None:
        consumer = self._consumer
        await self._channel.ready()
        consumer.check_open()
        if consumer.has_message:
            return
        sequence = self._sequence
        self._sequence += 1

        def wait() -> Any:
            future = self._asked[sequence] = self._runtime.create_future()
            return future

        first = wait()
        self._channel.send_at_once(ForceConsumerDelivery(consumer.id, sequence))
        try:
            await self.await_answer(wait, ForceConsumerDelivery.NAME, first)
        except ConnectionTimedOutError as error:
            if not self._channel.locked:  # else the connection is away, and the next one may be there already
                self._connection_failed(error)
            raise
        finally:
            self._asked.pop(sequence, None)
