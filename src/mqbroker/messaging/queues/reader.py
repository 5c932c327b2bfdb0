"""A reader: a named, durable position on a queue, and the readers of one queue as the queue knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Reader:
    """Everything up to ``settled`` is done with, everything up to ``reserved`` was handed out; ``epoch`` counts its openings.

    ``begin`` is where it began.  What lies before is not removed as long as the reader has not settled anything.
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
    """The readers of one queue, by name; there may be none of them while somebody looks at the queue."""

    @property
    def readers(self) -> Mapping[str, Reader]: ...

    def lag(self, reader: Reader) -> int:
        """Messages that the reader has not settled; in pages that it shares with slower readers, about."""
