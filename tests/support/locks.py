"""A lock service in memory, and its managers: sessions end when a test says so, and answers get lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mqbroker.ha.locks.contract import UnavailableError
from tests.support.diskwriter import SimulatedDiskWriter


@dataclass
class LockService:
    """The service, as it sees things."""

    holders: dict[str, MemoryLockManager] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    down: bool = False
    """Nobody is answered, and nothing takes effect."""

    def end(self, manager: MemoryLockManager) -> None:
        """The session of a manager is over, and it does not know yet."""
        self.holders = {name: holder for name, holder in self.holders.items() if holder is not manager}
        manager.session = False


class MemoryLockManager:
    """See :class:`mqbroker.ha.locks.contract.LockManager`."""

    def __init__(self, service: LockService) -> None:
        self.service = service
        self.session = False
        """Does the service know this manager?"""
        self.warnings: list[str] = []
        self.lost_answers = 0
        """So many of the next requests take effect, and nobody hears of it."""
        self.starts = 0
        self._lost: Callable[[str], object] = lambda reason: None

    def lose(self) -> None:
        """The manager hears that its session is over."""
        self.service.end(self)
        self._lost("the session is over")

    # --- the contract

    def start(self, lost: Callable[[str], object]) -> Sequence[str]:
        if self.service.down:
            raise UnavailableError("the service is down")
        self.starts += 1
        self.session = True
        self._lost = lost
        return self.warnings

    def stop(self) -> None:
        self.service.end(self)

    def try_lock(self, name: str) -> bool:
        self._check()
        holder = self.service.holders.setdefault(name, self)
        return self._answer(holder is self)

    def has_lock(self, name: str) -> bool:
        self._check()
        return self._answer(self.service.holders.get(name) is self)

    def unlock(self, name: str) -> None:
        self._check()
        if self.service.holders.get(name) is self:
            del self.service.holders[name]

    def number(self, name: str) -> int:
        self._check()
        self._answer(True)
        return self.service.numbers.get(name, 0)

    def change_number(self, name: str, old: int, new: int) -> bool:
        self._check()
        service = self.service
        fits = service.holders.get(name) is self and service.numbers.get(name, 0) == old
        if fits:
            service.numbers[name] = new
        return self._answer(fits)

    def _check(self) -> None:
        if self.service.down or not self.session:
            raise UnavailableError("the service is down" if self.service.down else "the session is over")

    def _answer(self, answer: bool) -> bool:
        if self.lost_answers:
            self.lost_answers -= 1
            raise UnavailableError("the answer is lost")
        return answer


class LockWorker(SimulatedDiskWriter):
    """The thread of a lock manager: see :class:`mqbroker.ha.locks.proof.Worker`."""

    stops = 0

    def stop(self) -> None:
        self.stops += 1
