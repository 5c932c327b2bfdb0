"""Futures and tasks for a loop without a framework, which the core awaits in the shell of plain sockets.

A waiting coroutine goes on in the loop's next turn, as under asyncio; a task begins in the next turn, too.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from typing import Any, Generic, Protocol, TypeVar, cast

T = TypeVar("T")


class Cancelled(BaseException):
    """Raised inside a coroutine whose task was cancelled, and when its result is asked for."""


class Turns(Protocol):
    """The loop, as futures and tasks see it."""

    tasks: set[Task[Any]]
    """The tasks that are not finished: the only references that keep them alive."""

    def call_soon(self, function: Callable[..., object], *args: Any) -> None: ...

    def failed(self, text: str, error: BaseException) -> None:
        """Report an exception that no caller gets."""


class Future(Generic[T]):
    """A result that may come later; it can be awaited any number of times."""

    __slots__ = ("_callbacks", "_done", "_error", "_loop", "_value")

    def __init__(self, loop: Turns) -> None:
        self._loop = loop
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Any], object]] = []

    def done(self) -> bool:
        return self._done

    @property
    def failed(self) -> bool:
        """Is it done without a result?"""
        return self._error is not None

    def result(self) -> T:
        """Raises the exception of a failed future, and :class:`Cancelled` for a cancelled one."""
        if not self._done:
            raise RuntimeError("there is no result yet")
        if self._error is not None:
            raise self._error
        return cast(T, self._value)

    def set_result(self, value: T) -> None:
        """Nothing happens when it has a result or was cancelled."""
        if not self._done:
            self._value = value
            self._finish()

    def set_error(self, error: BaseException) -> None:
        """As :meth:`set_result`, with an exception."""
        if not self._done:
            self._error = error
            self._finish()

    def cancel(self) -> None:
        self.set_error(Cancelled())

    def add_done_callback(self, function: Callable[[Any], object]) -> None:
        """``function`` gets the future, in the turn after it is done."""
        if self._done:
            self._loop.call_soon(function, self)
        else:
            self._callbacks.append(function)

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            yield self
        return self.result()

    def _finish(self) -> None:
        self._done = True
        callbacks, self._callbacks = self._callbacks, []
        for function in callbacks:
            self._loop.call_soon(function, self)


class Task(Future[T]):
    """A coroutine that runs in the loop.  The failure of a task whose result was never looked at is reported to the loop when the task is
    collected."""

    __slots__ = ("_context", "_coroutine", "_looked_at", "_to_cancel", "_waits_for")

    def __init__(self, loop: Turns, coroutine: Coroutine[Any, Any, T]) -> None:
        super().__init__(loop)
        self._coroutine = coroutine
        self._context = copy_context()
        self._waits_for: Future[Any] | None = None
        self._to_cancel = False
        self._looked_at = False
        loop.tasks.add(self)
        loop.call_soon(self._go_on, None)

    def result(self) -> T:
        self._looked_at = True
        return super().result()

    def cancel(self) -> None:
        """Raise :class:`Cancelled` where the coroutine waits; the awaited future is cancelled, too.

        A coroutine that has not begun is not begun.  One that is about to go on gets the result that it waited for, and is cancelled where
        it waits next.
        """
        if self._done:
            return
        if self._waits_for is not None and not self._waits_for.done():
            self._waits_for.cancel()
        else:
            self._to_cancel = True

    def _go_on(self, waited: Future[Any] | None) -> None:
        self._context.run(self._step)

    def _step(self) -> None:
        begun, self._waits_for = self._waits_for is not None, None
        try:
            if self._to_cancel and not begun:
                self._to_cancel = False
                waited = self._coroutine.throw(Cancelled())
            else:
                waited = self._coroutine.send(None)
        except StopIteration as end:
            self.set_result(end.value)
        except (KeyboardInterrupt, SystemExit) as error:
            self.set_error(error)
            raise
        except BaseException as error:
            self.set_error(error)
        else:
            if isinstance(waited, Future):
                self._waits_for = waited
                waited.add_done_callback(self._go_on)
                if self._to_cancel:
                    self._to_cancel = False
                    waited.cancel()
            else:
                self._coroutine.close()
                self.set_error(TypeError(f"a coroutine in a loop of plain sockets cannot wait for {waited!r}"))

    def _finish(self) -> None:
        self._loop.tasks.discard(self)
        super()._finish()

    def __del__(self) -> None:
        if self._done and not self._looked_at and self._error is not None and not isinstance(self._error, Cancelled):
            self._loop.failed("a task failed, and nobody looked at its result", self._error)
