"""Returns memory that is free again to the system: that of the start, and that of messages that are gone.

The C library keeps what was freed in the middle of its heap: after a queue of large messages was emptied the process would stay as large as
it was, and small messages, which lie elsewhere, would come on top of that.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from mqbroker.messaging.ports import Cancellable, Clock

PERIOD_SECONDS = 2.0
"""The time between two looks at the memory of messages."""

LESS_BYTES = 64 * 1024 * 1024
"""The drop from the greatest size after which memory is returned, which takes some milliseconds of the loop."""


class MemoryReturn:
    """``held`` gives the bytes of all messages in memory; ``give_back`` is called when they have dropped by :data:`LESS_BYTES`."""

    def __init__(self, clock: Clock, held: Callable[[], int], give_back: Callable[[], object]) -> None:
        self._clock = clock
        self._held = held
        self._give_back = give_back
        self._greatest = 0
        self._timer: Cancellable | None = None

    def start(self) -> None:
        """Give back what was needed for the start only, and look from now on."""
        self._give_back()
        self._look_later()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        held = self._held()
        if held > self._greatest:
            self._greatest = held
        elif self._greatest - held >= LESS_BYTES:
            self._greatest = held
            self._give_back()
        self._look_later()

    def _look_later(self) -> None:
        self._timer = self._clock.call_later(PERIOD_SECONDS, self._look)


def trim_heap() -> None:
    """Have the C library return its unused memory to the system, if the library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
