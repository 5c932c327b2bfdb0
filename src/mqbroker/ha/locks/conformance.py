"""Tests of the contract of a lock manager, for :mod:`unittest`.

Mix :class:`LockManagerContract` into a test case of your own, or :class:`LosableLockManagerContract` where the service can end a
connection by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqbroker.ha.locks.contract import NUMBER_MAX, LockManager

if TYPE_CHECKING:
    from unittest import TestCase

    Base = TestCase
else:
    Base = object

NAME = "0e4c5a4e-5d0f-11ef-8a5c-0242ac120002"


class LockManagerContract(Base):
    """A test case has :meth:`make_manager`."""

    def make_manager(self) -> LockManager:
        """A new manager, not started, of the same service in one test, and of an empty one in the next."""
        raise NotImplementedError

    def started(self) -> LockManager:
        manager = self.make_manager()
        manager.start(self.lost.append)
        self.addCleanup(manager.stop)
        return manager

    def setUp(self) -> None:
        super().setUp()
        self.lost: list[str] = []
        """The reasons that managers were lost for."""

    # --- the lock

    def test_one_manager_has_the_lock(self) -> None:
        one, other = self.started(), self.started()
        self.assertTrue(one.try_lock(NAME))
        self.assertFalse(other.try_lock(NAME))
        self.assertTrue(one.has_lock(NAME))
        self.assertFalse(other.has_lock(NAME))

    def test_a_lock_that_is_there_already_is_taken_again(self) -> None:
        one, other = self.started(), self.started()
        self.assertTrue(one.try_lock(NAME))
        self.assertTrue(one.try_lock(NAME))
        one.unlock(NAME)
        self.assertFalse(one.has_lock(NAME))
        self.assertTrue(other.try_lock(NAME))

    def test_a_lock_of_somebody_else_is_not_released(self) -> None:
        one, other = self.started(), self.started()
        self.assertTrue(one.try_lock(NAME))
        other.unlock(NAME)
        self.assertTrue(one.has_lock(NAME))
        self.assertFalse(other.try_lock(NAME))

    def test_names_are_apart(self) -> None:
        one, other = self.started(), self.started()
        self.assertTrue(one.try_lock(NAME))
        self.assertTrue(other.try_lock("another"))
        self.assertTrue(other.change_number("another", 0, 5))
        self.assertEqual((one.number(NAME), one.number("another")), (0, 5))

    def test_an_attempt_that_failed_leaves_nothing_behind(self) -> None:
        one, other, third = self.started(), self.started(), self.started()
        self.assertTrue(one.try_lock(NAME))
        for _ in range(3):
            self.assertFalse(other.try_lock(NAME))
        one.unlock(NAME)
        self.assertTrue(third.try_lock(NAME))
        self.assertFalse(other.has_lock(NAME))

    def test_a_stop_releases_the_lock_and_keeps_the_number(self) -> None:
        one, other = self.started(), self.started()
        self.assertTrue(one.try_lock(NAME))
        self.assertTrue(one.change_number(NAME, 0, 7))
        one.stop()
        self.assertTrue(other.try_lock(NAME))
        self.assertEqual(other.number(NAME), 7)
        self.assertEqual(self.lost, [])

    def test_a_manager_starts_again(self) -> None:
        one, other = self.started(), self.started()
        self.assertTrue(one.try_lock(NAME))
        one.stop()
        one.stop()
        one.start(self.lost.append)
        self.assertFalse(one.has_lock(NAME))
        self.assertTrue(other.try_lock(NAME))
        self.assertFalse(one.try_lock(NAME))

    # --- the number

    def test_a_number_begins_with_0_and_changes_from_what_it_is(self) -> None:
        one, other = self.started(), self.started()
        self.assertEqual(one.number(NAME), 0)
        self.assertTrue(one.try_lock(NAME))
        self.assertFalse(one.change_number(NAME, 3, 4))
        self.assertTrue(one.change_number(NAME, 0, -1))
        self.assertEqual(other.number(NAME), -1)
        self.assertFalse(one.change_number(NAME, 0, 5))
        self.assertTrue(one.change_number(NAME, -1, 1))
        self.assertEqual((one.number(NAME), other.number(NAME)), (1, 1))

    def test_large_numbers_are_kept(self) -> None:
        one = self.started()
        self.assertTrue(one.try_lock(NAME))
        self.assertTrue(one.change_number(NAME, 0, NUMBER_MAX))
        self.assertTrue(one.change_number(NAME, NUMBER_MAX, -NUMBER_MAX))
        self.assertEqual(one.number(NAME), -NUMBER_MAX)

    def test_without_the_lock_the_number_stays(self) -> None:
        one, other = self.started(), self.started()
        self.assertFalse(one.change_number(NAME, 0, 1))
        self.assertTrue(one.try_lock(NAME))
        self.assertFalse(other.change_number(NAME, 0, 1))
        one.unlock(NAME)
        self.assertFalse(one.change_number(NAME, 0, 1))
        self.assertEqual(one.number(NAME), 0)


class LosableLockManagerContract(LockManagerContract):
    """A test case has :meth:`lose`, too."""

    def lose(self, manager: LockManager) -> None:
        """Let the service end the connection of the manager, as after a long silence, and return when others can take its locks."""
        raise NotImplementedError

    def test_who_has_lost_its_connection_changes_nothing_any_more(self) -> None:
        one, other = self.started(), self.started()
        self.assertTrue(one.try_lock(NAME))
        self.assertTrue(one.change_number(NAME, 0, -1))
        self.lose(one)
        self.assertTrue(other.try_lock(NAME))
        one.stop()
        one.start(self.lost.append)
        self.assertFalse(one.has_lock(NAME))
        self.assertFalse(one.change_number(NAME, -1, 1))
        self.assertEqual(other.number(NAME), -1)
        self.assertEqual(len(self.lost), 1)
