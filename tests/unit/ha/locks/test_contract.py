"""The contract names what its tests use."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.locks.contract import NUMBER_MAX, LockManager
from tests.support.locks import LockService, MemoryLockManager


class ContractTests(SynchronousTestCase):
    def test_a_manager_has_these_methods_and_no_others(self) -> None:
        named = {name for name in vars(LockManager) if not name.startswith("_")}
        self.assertEqual(named, {"start", "stop", "try_lock", "has_lock", "unlock", "number", "change_number"})
        manager: LockManager = MemoryLockManager(LockService())
        self.assertTrue(all(callable(getattr(manager, name)) for name in named))

    def test_a_number_is_a_long_integer(self) -> None:
        self.assertEqual(NUMBER_MAX, 2**63 - 1)
