"""Consumers of programs with threads: messages that have arrived are read without a switch of threads.

Only a call that has to wait for a message, or to find out that there is none, goes to the reactor's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from mqclient.core.api import ClientConsumer
from mqclient.core.message import ClientMessage
from mqclient.errors import IllegalStateError, ObjectClosedError
from mqclient.protocol.retry import RateLimiter
from mqclient.shells.threads import Dispatcher, ReactorThread, SharedBuffer


class Consumer:
    """A consumer whose buffer application threads read directly."""

    def __init__(
        self, runner: ReactorThread, consumer: ClientConsumer, buffer: SharedBuffer, max_rate: int, block_on_acknowledge: bool
    ) -> None:
        self._runner = runner
        self._consumer = consumer
        self._buffer = buffer
        self._limiter = RateLimiter(max_rate) if max_rate > 0 else None
        self._block_on_acknowledge = block_on_acknowledge
        self._handled = False

    @property
    def consumer(self) -> ClientConsumer:
        """The core consumer; use it only through the runner."""
        return self._consumer

    @property
    def closed(self) -> bool:
        return self._buffer.closed

    def receive(self, timeout: int | None = None) -> ClientMessage | None:
        """As :meth:`ClientConsumer.receive`; wakes with None when another thread closes the consumer, session or connection."""
        self._runner.check_process()
        if self._handled:
            raise IllegalStateError("a consumer with a message handler cannot be asked to receive")
        if self._buffer.closed:
            raise ObjectClosedError(f"the consumer of {self._consumer.queue_name} is closed")
        deadline = None if timeout is None else time.monotonic() + timeout / 1000
        asked = False
        while True:
            message = self._buffer.pop()
            if message is None and not asked:
                self._runner.check()
                self._runner.post(self._consumer.prepare_receive)
                left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                message = self._buffer.wait(left)
                if message is None and not self._buffer.closed and not self._buffer.paused:
                    asked = True
                    message = self._ask_broker(patient=not timeout)
                if message is None and deadline is None and not self._buffer.closed:
                    asked = False  # another thread was quicker
                    continue
            if message is None or self._give_out(message):
                return message
            asked = False  # it had expired: there may be more

    def receive_immediate(self) -> ClientMessage | None:
        return self.receive(0)

    def acknowledge(self, message: ClientMessage) -> None:
        """Cumulative; waits only with ``block_on_acknowledge``.  The order with later sends, commits and closes is kept."""
        self._acknowledge(self._consumer.acknowledge, message)

    def individual_acknowledge(self, message: ClientMessage) -> None:
        self._acknowledge(self._consumer.individual_acknowledge, message)

    def set_message_handler(self, handler: Callable[[ClientMessage], None] | None, dispatcher: Dispatcher) -> None:
        """Have ``dispatcher``'s thread call ``handler`` for each message; exceptions are logged."""
        if handler is None:
            self._buffer.arrived = None
            self._handled = False
            return
        chosen = handler
        self._handled = True
        self._buffer.arrived = lambda: dispatcher.submit(self._deliver, chosen)
        for _ in range(len(self._buffer)):
            dispatcher.submit(self._deliver, chosen)
        self._runner.post(self._consumer.prepare_receive)

    def close(self) -> None:
        self._runner.call(self._consumer.close)

    def _ask_broker(self, patient: bool) -> ClientMessage | None:
        try:
            self._runner.call(self._consumer.force_delivery, patient)
        except ObjectClosedError:
            return None
        return self._buffer.pop()

    def _give_out(self, message: ClientMessage) -> bool:
        expired = message.expiration != 0 and self._runner.runtime.wall_clock_ms() >= message.expiration
        self._runner.post(self._consumer.consumed, message, expired)
        if expired:
            return False
        if self._limiter is not None:
            while delay := self._limiter.delay(time.monotonic()):
                time.sleep(delay)
        return True

    def _deliver(self, handler: Callable[[ClientMessage], None]) -> None:
        if not self._handled:
            return
        message = self._buffer.pop()
        try:
            if message is not None and self._give_out(message):
                handler(message)
        finally:
            if self._runner.usable:
                self._runner.post(self._consumer.prepare_receive if message is not None else self._go_on_waiting)

    def _go_on_waiting(self) -> None:
        """In the reactor's thread: if the message that had come was taken back by a rollback, ask for the next one."""
        if not len(self._buffer):
            self._consumer.prepare_receive()

    def _acknowledge(self, function: Callable[..., Any], message: ClientMessage) -> None:
        if self._block_on_acknowledge:
            self._runner.call(function, message)
        else:
            self._runner.post(function, message)
