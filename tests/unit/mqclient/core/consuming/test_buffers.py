"""Messages that have arrived wait by their priority."""

from __future__ import annotations

from typing import Any, NamedTuple

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.consuming.buffers import PriorityBuffer


class Arrived(NamedTuple):
    number: int
    priority: int = 4


class PriorityBufferTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.buffer = PriorityBuffer()

    def put(self, *messages: Any) -> None:
        for message in messages:
            self.buffer.put(message)

    def taken(self) -> list[int]:
        found = []
        while (message := self.buffer.pop()) is not None:
            found.append(message.number)  # type: ignore[attr-defined]
        return found

    def test_higher_priorities_come_first_and_equal_ones_as_they_arrived(self) -> None:
        self.put(Arrived(1), Arrived(2, 9), Arrived(3, 0), Arrived(4), Arrived(5, 9))
        self.assertEqual(len(self.buffer), 5)
        self.assertEqual(self.taken(), [2, 5, 1, 4, 3])
        self.assertEqual(len(self.buffer), 0)

    def test_priorities_out_of_range_count_as_the_nearest(self) -> None:
        self.put(Arrived(1, -3), Arrived(2, 0), Arrived(3, 200), Arrived(4, 9))
        self.assertEqual(self.taken(), [3, 4, 1, 2])

    def test_a_paused_buffer_gives_nothing_and_keeps_all(self) -> None:
        self.buffer.pause()
        self.put(Arrived(1))
        self.assertEqual((self.buffer.pop(), len(self.buffer)), (None, 1))
        self.buffer.resume()
        self.assertEqual(self.taken(), [1])

    def test_what_is_cleared_is_given_back_in_the_order_of_delivery(self) -> None:
        self.put(Arrived(1), Arrived(2, 9))
        self.assertEqual([message.number for message in self.buffer.clear()], [2, 1])  # type: ignore[attr-defined]
        self.assertEqual((self.buffer.pop(), len(self.buffer)), (None, 0))

    def test_a_closed_buffer_is_empty(self) -> None:
        self.put(Arrived(1))
        self.buffer.close()
        self.assertEqual(self.taken(), [])
