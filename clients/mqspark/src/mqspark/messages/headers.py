"""The fixed headers of many messages at once: their places, and their damage.

The layout is that of :mod:`mqclient.wire.message`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mqclient.wire.message import HEADERS_SIZE_MIN
from mqspark.messages.ranges import Ints, Mask, Source


class Headers:
    """The places of headers.  ``bad``: rows with damaged headers, whose other values are meaningless.

    ``starts`` and ``ends`` are the places of the messages in ``source``; ``large``: rows that are a body size and a block of headers.
    """

    def __init__(self, source: Source, starts: Ints, ends: Ints, large: Mask) -> None:
        self.source = source
        self.starts = starts
        self.ends = ends
        self.large = large
        self.count = len(starts)
        self.bad = ends - starts < np.where(large, 8, 4) + HEADERS_SIZE_MIN
        self.begins = self._begins()

    def _begins(self) -> Ints:
        """The beginnings of the blocks of headers, where the bodies end."""
        starts = np.where(self.bad, 0, self.starts)
        sizes = self.source.i32(starts) - 9
        plain = ~self.large
        self.bad |= plain & ((sizes < 4) | (sizes > self.ends - self.starts - HEADERS_SIZE_MIN))
        return np.where(self.bad, 0, np.where(self.large, starts + 8, starts + sizes))

    @property
    def body_starts(self) -> Ints:
        """The places of bodies; large messages have an empty range."""
        return np.where(self.bad | self.large, self.begins, self.starts + 4)

    @property
    def large_sizes(self) -> Ints:
        """Bytes of the bodies of large messages, as they are stored; 0 for the others."""
        there = self.large & ~self.bad
        return np.where(there, self.source.i64(np.where(there, self.starts, 0)), 0)

    @cached_property
    def has_address(self) -> Mask:
        self.fixed  # noqa: B018 - finds the rows whose address is cut off
        there: Mask = (self.source.bytes[self.begins + 8] != 0) & ~self.bad
        return there

    @cached_property
    def _addresses(self) -> tuple[Ints, Ints, Ints]:
        """(starts and ends of the addresses, where the user ids begin)."""
        source = self.source
        at = self.begins + 8
        there = source.bytes[at] != 0
        sizes = np.where(there, source.i32(at + 1), 0)
        self.bad |= there & ((sizes < 0) | (sizes & 1 != 0) | (sizes > self.ends - at - 5))
        sizes[self.bad] = 0
        starts = at + np.where(there, 5, 1)
        return starts, starts + sizes, starts + sizes

    @cached_property
    def fixed(self) -> Ints:
        """The place of the byte with the type; 0 in bad rows, among which are all from here on whose headers are cut off."""
        at = self._addresses[2]
        self.bad |= at >= self.ends
        at = np.where(self.bad, 0, at)
        at = at + np.where(self.source.bytes[at] == 1, 17, 1)
        self.bad |= at + 20 > self.ends
        return np.where(self.bad, 0, at)

    @property
    def addresses(self) -> tuple[Ints, Ints, Mask]:
        """(starts, ends, which rows have one)."""
        there = self.has_address
        starts, ends, _ = self._addresses
        return starts, ends, there

    @property
    def user_ids(self) -> tuple[Ints, Mask]:
        """(where the sixteen bytes begin, which rows have them)."""
        fixed = self.fixed
        at = np.where(self.bad, 0, self._addresses[2])
        return at + 1, (self.source.bytes[at] == 1) & ~self.bad & (fixed > 0)

    @cached_property
    def types(self) -> Ints:
        return self.source.u8(self.fixed)

    @property
    def durable(self) -> Mask:
        durable: Mask = self.source.bytes[self.fixed + 1] != 0
        return durable

    @property
    def expirations(self) -> Ints:
        """ms since the epoch, 0 for never."""
        return self.source.i64(self.fixed + 2)

    @property
    def timestamps(self) -> Ints:
        """ms since the epoch, 0 for none."""
        return self.source.i64(self.fixed + 10)

    @property
    def priorities(self) -> Ints:
        return self.source.bytes[self.fixed + 18].astype(np.int8).astype(np.int64)

    @property
    def properties(self) -> Ints:
        """The beginnings of the property tables."""
        return self.fixed + 19
