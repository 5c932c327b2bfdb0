"""The disk guard: before the disk is full every address is treated as full (Artemis manual, "Max Disk Usage")."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mqbroker.messaging.core import MessagingCore
from mqbroker.messaging.reapers import Periodic


class DiskSpace(NamedTuple):
    """The disk below ``path``, in bytes; ``free`` is what the broker may still write."""

    path: str
    free: int
    total: int


class DiskGuard(Periodic):
    """Looks at the disk every ``disk-scan-period``.

    It is full when ``max-disk-usage`` percent of it are in use, or, where ``min-disk-free`` is set, when less than that is free.
    """

    def __init__(self, core: MessagingCore, spaces: Callable[[], Iterable[DiskSpace]]) -> None:
        super().__init__(core, core.options.disk_scan_period)
        self._spaces = spaces
        self._first = True

    def start(self) -> None:
        options = self._core.options
        if self._timer is None and (options.min_disk_free >= 0 or options.max_disk_usage >= 0):
            self._timer = self._core.clock.call_later(0 if self._first else options.disk_scan_period / 1000, self._due)
            self._first = False

    def scan(self) -> None:
        core = self._core
        spaces = list(self._spaces())
        full = next((space for space in spaces if self._full(space)), None)
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
        core.report("AMQ224129" if by_free else "AMQ222211", f"there is room on the disk again ({limit}); producers go on")
        core.global_memory.release()

    def _full(self, space: DiskSpace) -> bool:
        options = self._core.options
        if options.min_disk_free >= 0:
            return space.free < options.min_disk_free
        return space.total > 0 and (space.total - space.free) * 100 >= options.max_disk_usage * space.total
