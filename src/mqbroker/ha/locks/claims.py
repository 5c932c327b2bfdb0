"""The claim of a copy to the next activation sequence, as the steps that a lock manager takes (decision 38).

The number of a node is 0 before its first activation, n when sequence n was reached, and -n while the holder of the lock claims sequence n.
Everything here blocks, and runs in the thread of the lock manager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from mqbroker.ha.locks.contract import LockManager


class Standing(Enum):
    """The standing of data, complete at some sequence last, to the number of their node."""

    NEWEST = auto()
    """All acknowledged work is in these data."""
    CLAIMED = auto()
    """As NEWEST; the next sequence was claimed, and nobody has acknowledged anything at it."""
    STALE = auto()
    """A later sequence was reached, or the number was never that of these data."""


def standing(number: int, sequence: int) -> Standing:
    """The standing to ``number`` of data that were complete at ``sequence`` last."""
    if number in (sequence, -sequence):
        return Standing.NEWEST
    return Standing.CLAIMED if number == -(sequence + 1) else Standing.STALE


class Verdict(Enum):
    """The end of a claim."""

    CLAIMED = auto()
    """The sequence is to be made durable by the copy, and committed then."""
    SKIP = auto()
    """An earlier claim of this sequence was left open: the copy counts it as its own, durably, and claims the next one."""
    STALE = auto()
    """Another copy has reached a later sequence."""
    BUSY = auto()
    """Another broker has the lock."""


class Claim(NamedTuple):
    """``text`` says in words how the claim ended."""

    verdict: Verdict
    text: str


class Claims:
    """The requests of one broker to ``manager``.  ``lost(reason)`` is called when the locks are lost before the manager is stopped.

    Every method may raise what the manager raises, but for :meth:`release`.
    """

    def __init__(self, manager: LockManager, lost: Callable[[str], object]) -> None:
        self._manager = manager
        self._lost = lost
        self._start: object | None = None
        """Tells this start of the manager from former ones; None while it is stopped."""

    def start(self) -> Sequence[str]:
        """Start the manager unless it is started; returns its warnings then."""
        if self._start is not None:
            return ()
        this_start = object()

        def lost(reason: str) -> None:
            if this_start is self._start:
                self._lost(reason)

        # Its locks may be lost before this returns.
        self._start = this_start
        try:
            return self._manager.start(lost)
        except BaseException:
            self._start = None
            raise

    def stop(self) -> None:
        if self._start is not None:
            self._start = None
            self._manager.stop()

    def claim(self, name: str, sequence: int) -> Claim:
        """Claim ``sequence``, for data that were complete at the one before."""
        self.start()
        manager = self._manager
        number = manager.number(name)
        if standing(number, sequence - 1) is not Standing.STALE:
            if not manager.try_lock(name):
                return Claim(Verdict.BUSY, f"another broker has the lock {name}")
            # Its last holder may have gone on meanwhile.
            number = manager.number(name)
        found = standing(number, sequence - 1)
        if found is Standing.STALE:
            manager.unlock(name)
            return Claim(Verdict.STALE, _stale(name, number, sequence - 1))
        if found is Standing.CLAIMED:
            return Claim(Verdict.SKIP, f"sequence {sequence} was claimed and not reached")
        if manager.change_number(name, number, -sequence):
            return Claim(Verdict.CLAIMED, f"the lock manager has given sequence {sequence} to this copy")
        return Claim(Verdict.BUSY, f"the lock {name} was lost while sequence {sequence} was claimed")

    def commit(self, name: str, sequence: int) -> bool:
        """The claimed sequence is durable in the copy.  False: another copy may go on.  May be repeated after an error."""
        # The lock is gone with the connection of the claim; a new connection says so, and that is an answer, too.
        self.start()
        # Only who has claimed it, and has had the lock since, commits a sequence.
        return self._manager.change_number(name, -sequence, sequence) or self._manager.number(name) == sequence

    def release(self, name: str) -> None:
        """A lock that cannot be released ends with its connection; the next claim connects again.  Never raises."""
        if self._start is None:
            return
        try:
            self._manager.unlock(name)
        except Exception:  # the operator's code may raise anything
            self.stop()


def _stale(name: str, number: int, sequence: int) -> str:
    text = f"the lock manager knows of sequence {abs(number)} of {name}, {'claimed' if number < 0 else 'reached'}"
    if abs(number) < sequence:
        return f"{text}: it has lost its number, or never had that of these data, which are of sequence {sequence}"
    return f"{text}: the data of sequence {sequence} are old"
