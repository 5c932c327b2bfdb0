"""Messages that wait for a consumer, by priority and arrival."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.delivery.waiting import Waiting


def reference(number: int, priority: int = 4) -> Any:
    return SimpleNamespace(priority=priority, message=SimpleNamespace(message_id=number))


class WaitingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.waiting = Waiting()

    def add(self, *references: Any) -> None:
        for each in references:
            self.waiting.add(each)

    def numbers(self) -> list[int]:
        return [each.message.message_id for each in self.waiting]

    def test_the_highest_priority_comes_first_and_then_the_order_of_arrival(self) -> None:
        self.add(reference(1), reference(2, 9), reference(3), reference(4, 9), reference(5, 0))
        self.assertEqual((self.numbers(), len(self.waiting)), ([2, 4, 1, 3, 5], 5))

    def test_what_comes_back_waits_in_its_place(self) -> None:
        first, second, third = (reference(number) for number in (1, 2, 3))
        self.add(first, second, third)
        for each in (first, second):
            self.waiting.remove(each)
        self.add(second, first)
        self.assertEqual(self.numbers(), [1, 2, 3])

    def test_one_from_the_middle_is_removed(self) -> None:
        second = reference(2)
        self.add(reference(1), second, reference(3))
        self.waiting.remove(second)
        self.assertEqual((self.numbers(), len(self.waiting)), ([1, 3], 2))

    def test_all_are_taken_out_in_order(self) -> None:
        self.add(reference(2), reference(1, 8))
        self.assertEqual([each.message.message_id for each in self.waiting.clear()], [1, 2])
        self.assertEqual((self.numbers(), len(self.waiting)), ([], 0))
