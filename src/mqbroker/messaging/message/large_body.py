"""The body of a large message, as messages know it."""

from __future__ import annotations

from typing import Protocol


class LargeBody(Protocol):
    """The body of a large message, outside memory.  ``size`` is the number of bytes appended so far.

    Several messages may share one body (a copy in a dead letter queue); each holds it once.
    """

    body_id: int
    size: int

    def append(self, chunk: bytes) -> None: ...

    def complete(self) -> None:
        """The body is complete.  It becomes durable no later than the record of a message that uses it."""

    def read(self, offset: int, size: int) -> bytes:
        """At most ``size`` bytes from ``offset``.  Raises OSError when they are damaged.

        Raises :class:`~mqbroker.messaging.message.not_yet.NotYet` as well, but only for a body that a committed batch has named.
        """

    def hold(self) -> None:
        """One more message uses this body."""

    def release(self) -> None:
        """A message stopped using it; the last one removes it."""
