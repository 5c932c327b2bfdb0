"""The contract of a lock manager: for each name a lock, and a number that only the holder of the lock can change.

``docs/ha.md`` (section "A lock manager of your own") has an example, and :mod:`mqbroker.ha.locks.conformance` the tests of the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

NUMBER_MAX = (1 << 63) - 1
"""A number lies between minus this and this."""


class UnavailableError(Exception):
    """The service gives no answer.  The request may have taken effect, and may not."""


class LockManager(Protocol):
    """One connection of a broker to the service.

    The methods may block, and are called one after the other, by a thread of their own.  Each of them may raise
    :class:`UnavailableError`.  Names are node ids.
    """

    def start(self, lost: Callable[[str], object]) -> Sequence[str]:
        """Connect; returns sentences that the log warns of.

        ``lost(reason)`` is called once, by whatever thread, when the locks of this connection are lost, or may be.  After that the manager
        is stopped, and may be started again.
        """

    def stop(self) -> None:
        """Release all locks, and disconnect.  Never raises; without effect on a manager that is not started."""

    def try_lock(self, name: str) -> bool:
        """Take the lock without waiting.  False: somebody else has it.  True also if this manager has it already.

        After UnavailableError a lock that was taken nevertheless belongs to this manager, as the next call says.
        """

    def has_lock(self, name: str) -> bool:
        """Does this manager have the lock, as the service sees it?"""

    def unlock(self, name: str) -> None:
        """Release the lock; without effect on a lock that this manager has not."""

    def number(self, name: str) -> int:
        """The number as the service has it now, which is 0 before the first change."""

    def change_number(self, name: str, old: int, new: int) -> bool:
        """Replace ``old`` by ``new``, durably.  False, and no change: the number is another one, or this manager has not the lock.

        The service decides both and changes the number in one step.  So a request that arrives late changes nothing once another manager
        has the lock.
        """
