"""The disk guard: before the disk is full every address is treated as full (Artemis manual, "Max Disk Usage")."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mqbroker.messaging.administration.reapers import Periodic
from mqbroker.messaging.core import MessagingCore

FASTEST_WRITING = 256 * 1024 * 1024
"""Bytes in a second, more than a broker writes.  The disk is looked at again before the limit could be reached at this speed."""
SHORTEST_SCAN_PERIOD = 0.1
"""Seconds between two looks at a disk that has little room before the limit, unless ``disk-scan-period`` is shorter."""


class DiskSpace(NamedTuple):
    """The disk below ``path``; ``free`` is the number of bytes that the broker may still write."""

    path: str
    free: int
    total: int


class DiskGuard(Periodic):
    """Checks the disk every ``disk-scan-period``, or sooner if the free space could be filled in that time.

    The disk is full when ``max-disk-usage`` percent of it are in use, or, where ``min-disk-free`` is set, when less than that is free.
    """

    def __init__(self, core: MessagingCore, spaces: Callable[[], Iterable[DiskSpace]]) -> None:
        super().__init__(core, core.options.disk_scan_period)
        self._spaces = spaces
        self._next = 0.0

    def start(self) -> None:
        options = self._core.options
        if self._timer is None and (options.min_disk_free >= 0 or options.max_disk_usage >= 0):
            self._timer = self._core.clock.call_later(self._next, self._due)
            self._next = options.disk_scan_period / 1000

    def scan(self) -> None:
        core = self._core
        spaces = list(self._spaces())
        full = next((space for space in spaces if self._full(space)), None)
        if full is None:
            soon = max(SHORTEST_SCAN_PERIOD, min(map(self._room, spaces)) / FASTEST_WRITING)
            self._next = min(core.options.disk_scan_period / 1000, soon)
        if (full is not None) == core.global_memory.disk_full:
            return
        core.global_memory.disk_full = full is not None
        by_free = core.options.min_disk_free >= 0
        limit = f"min-disk-free is {core.options.min_disk_free}" if by_free else f"max-disk-usage is {core.options.max_disk_usage}%"
        if full is not None:
            core.report(
                "AMQ224128" if by_free else "AMQ222210",
                f"the disk is nearly full: {full.free} of {full.total} bytes are free below {full.path}, and {limit}; "
                "every address is treated as full, producers are blocked",
            )
            return
        core.report("AMQ224129" if by_free else "AMQ222211", f"there is room on the disk again ({limit}); producers continue")
        core.global_memory.release()

    def _full(self, space: DiskSpace) -> bool:
        options = self._core.options
        if options.min_disk_free >= 0:
            return space.free < options.min_disk_free
        return space.total > 0 and (space.total - space.free) * 100 >= options.max_disk_usage * space.total

    def _room(self, space: DiskSpace) -> float:
        """Bytes that may be written before it is full."""
        options = self._core.options
        reserved = options.min_disk_free if options.min_disk_free >= 0 else space.total * (100 - options.max_disk_usage) / 100
        return space.free - reserved
