"""A reader: a named, durable position on a queue, and the readers of one queue as the queue knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Reader:
    """A reader.  It has settled all messages up to ``settled``, and got all up to ``reserved``; ``epoch`` counts its openings.

    ``begin`` is the reader's first position.  Messages before that are not removed until the reader has settled something.
    """

    __slots__ = ("begin", "epoch", "name", "reserved", "settled")

    def __init__(self, name: str, epoch: int = 0, settled: int = 0, reserved: int = 0, begin: int = 0) -> None:
        self.name = name
        self.epoch = epoch
        self.settled = settled
        self.reserved = reserved
        self.begin = begin

    @property
    def removable(self) -> int:
        """Up to where messages may be removed."""
        return self.settled if self.settled > self.begin else 0


class QueueReaders(Protocol):
    """The readers of one queue, by name; empty while the queue is only looked at."""

    @property
    def readers(self) -> Mapping[str, Reader]: ...

    def lag(self, reader: Reader) -> int:
        """Messages that the reader has not settled; in pages that it shares with slower readers, about."""
