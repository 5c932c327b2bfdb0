"""Encoded messages that are sent together and told of together, so that nothing is kept or called per message.

Source: ``protocol-spec/``, chapter "Responses, correlation, confirmations" (asynchronous acknowledgements).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from mqclient.errors import MQError

BatchDone = Callable[["Batch"], object]
"""Called once, when every message of a batch was answered or the connection is over."""


class Batch:
    """Messages to one address, and their outcomes."""

    __slots__ = ("_done", "_early", "_end", "_first", "_next", "address", "error", "messages", "refused")

    def __init__(self, address: str | None, messages: Sequence[bytes], first_correlation: int, done: BatchDone) -> None:
        self.address = address
        self.messages = messages
        self.refused: dict[int, MQError] = {}
        """Index in ``messages``, and why the broker does not take it."""
        self.error: MQError | None = None
        """The end of the connection, when it came before the last answer; None otherwise."""
        self._first = self._next = first_correlation
        self._end = first_correlation + len(messages)
        self._early: set[int] = set()
        self._done = done

    @property
    def unanswered(self) -> list[int]:
        """Indices in ``messages`` of messages whose outcome is not known (yet), ascending."""
        return [number - self._first for number in range(self._next, self._end) if number not in self._early]

    def holds(self, correlation: int) -> bool:
        return self._next <= correlation < self._end and correlation not in self._early

    def settle(self, correlation: int, error: MQError | None) -> bool:
        """A message of the batch was answered; true for the last answer.  Answers come in the order of the messages, almost always."""
        if error is not None:
            self.refused[correlation - self._first] = error
        if correlation != self._next:
            self._early.add(correlation)
            return False
        self._next += 1
        while self._early and self._next in self._early:
            self._early.remove(self._next)
            self._next += 1
        return self._next == self._end

    def told(self) -> None:
        self._done(self)


class Batches:
    """The batches that are on their way, the oldest first."""

    __slots__ = ("_batches", "_tell")

    def __init__(self, tell: Callable[[Batch], None]) -> None:
        self._batches: deque[Batch] = deque()
        self._tell = tell

    def add(self, batch: Batch) -> None:
        self._batches.append(batch)

    def settle(self, correlation: int, error: MQError | None) -> bool:
        """False when no batch waits for that answer."""
        for batch in self._batches:
            if batch.holds(correlation):
                if batch.settle(correlation, error):
                    self._batches.remove(batch)
                    self._tell(batch)
                return True
        return False

    def fail(self, error: MQError) -> None:
        """No answers come any more."""
        batches, self._batches = self._batches, deque()
        for batch in batches:
            batch.error = error
            self._tell(batch)
