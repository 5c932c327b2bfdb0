"""The contract of lock managers holds for the one in memory; a manager that breaks it is found."""

from __future__ import annotations

import unittest
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.locks.conformance import LosableLockManagerContract
from mqbroker.ha.locks.contract import LockManager
from tests.support.locks import LockService, MemoryLockManager


class MemoryTests(LosableLockManagerContract, SynchronousTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.service = LockService()

    def make_manager(self) -> LockManager:
        return MemoryLockManager(self.service)

    def lose(self, manager: Any) -> None:
        manager.lose()


class NumberWithoutLock(MemoryLockManager):
    """A compare-and-set that does not look at the lock, as over a connection of its own."""

    def change_number(self, name: str, old: int, new: int) -> bool:
        numbers = self.service.numbers
        if numbers.get(name, 0) != old:
            return False
        numbers[name] = new
        return True


class LockForEveryone(MemoryLockManager):
    def try_lock(self, name: str) -> bool:
        self.service.holders[name] = self
        return True


class ConformanceTests(SynchronousTestCase):
    def broken(self, kind: type[MemoryLockManager]) -> set[str]:
        class Tests(LosableLockManagerContract, unittest.TestCase):
            def setUp(self) -> None:
                super().setUp()
                self.service = LockService()

            def make_manager(self) -> LockManager:
                return kind(self.service)

            def lose(self, manager: Any) -> None:
                manager.lose()

        result = unittest.TestResult()
        unittest.TestLoader().loadTestsFromTestCase(Tests).run(result)
        self.assertEqual(result.errors, [])
        return {case.id().rpartition(".")[2] for case, _ in result.failures}

    def test_a_correct_manager_passes(self) -> None:
        self.assertEqual(self.broken(MemoryLockManager), set())

    def test_a_number_that_changes_without_the_lock_is_found(self) -> None:
        found = self.broken(NumberWithoutLock)
        self.assertIn("test_without_the_lock_the_number_stays", found)
        self.assertIn("test_who_has_lost_its_connection_changes_nothing_any_more", found)

    def test_a_lock_that_excludes_nobody_is_found(self) -> None:
        self.assertIn("test_one_manager_has_the_lock", self.broken(LockForEveryone))
