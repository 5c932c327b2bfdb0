"""Hands a consumer's messages to its message handler, one after the other."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Protocol

from mqclient.core.message import ClientMessage
from mqclient.core.runtime import Runtime, Waiters, next_turn

MessageHandler = Callable[[ClientMessage], "Awaitable[Any] | None"]

_handling: ContextVar[tuple[HandlerPump, ...]] = ContextVar("_handling", default=())
"""The pumps whose handler the running code belongs to: a call that a handler awaits must not wait for that handler to end."""

_CANCELLED_PAUSE = 0.1
"""Seconds until the next message is handled after the handling of one was cancelled."""

BURST = 100
"""Messages handled or received before the loop gets a turn for other work."""


class HandledConsumer(Protocol):
    """The consumer whose messages are handled."""

    runtime: Runtime

    @property
    def queue_name(self) -> str: ...

    @property
    def paced(self) -> bool:
        """Is there a limit on the messages per second?"""

    def take(self) -> ClientMessage | None:
        """The next message."""

    async def take_paced(self) -> ClientMessage | None:
        """:meth:`take`, slowed down to the maximum rate."""

    def prepare_receive(self) -> None:
        """A message is waited for."""


class HandlerPump:
    """Runs while there are messages; :meth:`wake` starts it again."""

    __slots__ = ("_again", "_calling", "_consumer", "_handler", "_idle", "_running", "_stopped")

    def __init__(self, consumer: HandledConsumer, handler: MessageHandler) -> None:
        self._consumer = consumer
        self._handler = handler
        self._running = False
        self._calling = False
        self._again = False
        self._stopped = False
        self._idle = Waiters(consumer.runtime)

    def wake(self) -> None:
        """Messages may have come."""
        if self._running:
            self._again = True
        elif not self._stopped:
            self._running = True
            self._consumer.runtime.spawn(self._run())

    def stop(self) -> None:
        """Call the handler no more; a call that runs goes on."""
        self._stopped = True

    async def finished(self, timeout_ms: int) -> None:
        """Wait for a handler that runs, at most ``timeout_ms``; not at all when called by the handler itself."""
        if not self._running or self._calling:
            return
        if self in _handling.get():
            return
        try:
            await self._idle.wait(timeout_ms / 1000)
        except TimeoutError:
            self._consumer.runtime.log_warning(
                f"a message handler is still running after {timeout_ms} ms (onMessageCloseTimeout); closing continues"
            )

    async def _run(self) -> None:
        consumer = self._consumer
        runtime = consumer.runtime
        handled = 0
        try:
            while not self._stopped:
                self._again = False
                message = await consumer.take_paced() if consumer.paced else consumer.take()
                if message is None:
                    consumer.prepare_receive()
                    if self._again:
                        continue
                    return
                try:
                    await self._call(message)
                except Exception as error:  # delivery goes on after every error of the application
                    runtime.log_failure(f"the message handler of {consumer.queue_name} failed", error)
                except (GeneratorExit, KeyboardInterrupt, SystemExit):
                    raise
                except BaseException:
                    # Under asyncio, something that the handler awaits was cancelled, and delivery goes on; or all tasks are, when the loop
                    # ends before the pause does.
                    runtime.call_later(_CANCELLED_PAUSE, self.wake)
                    return
                handled += 1
                if handled % BURST == 0:
                    await next_turn(runtime)
        finally:
            self._running = False
            self._idle.wake()

    async def _call(self, message: Any) -> None:
        self._calling = True
        outer = _handling.get()
        _handling.set((*outer, self))
        try:
            try:
                result = self._handler(message)
            finally:
                self._calling = False
            if result is not None and inspect.isawaitable(result):
                await result
        finally:
            _handling.set(outer)
