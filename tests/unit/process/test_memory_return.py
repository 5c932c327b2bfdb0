"""When memory is given back to the system."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process.memory_return import LESS_BYTES, PERIOD_SECONDS, MemoryReturn, trim_heap
from tests.support.clock import FakeClock


class MemoryReturnTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.held = 0
        self.given_back = 0
        self.memory = MemoryReturn(self.clock, lambda: self.held, self.give_back)
        self.memory.start()
        self.given_back_at_the_start, self.given_back = self.given_back, 0

    def give_back(self) -> None:
        self.given_back += 1

    def look(self, held: int) -> int:
        """How often memory was given back up to now, now that so much is held."""
        self.held = held
        self.clock.advance(PERIOD_SECONDS)
        return self.given_back

    def test_once_at_the_start(self) -> None:
        self.assertEqual((self.given_back_at_the_start, self.look(0)), (1, 0))

    def test_once_for_each_good_deal_less(self) -> None:
        top = 5 * LESS_BYTES
        self.assertEqual([self.look(held) for held in (top, top - LESS_BYTES + 1, top - LESS_BYTES)], [0, 0, 1])
        self.assertEqual([self.look(held) for held in (top - LESS_BYTES - 1, LESS_BYTES, LESS_BYTES // 2, 0)], [1, 2, 2, 3])
        self.assertEqual([self.look(held) for held in (0, LESS_BYTES - 1, 0)], [3, 3, 3])

    def test_nothing_after_the_end(self) -> None:
        self.look(2 * LESS_BYTES)
        self.memory.stop()
        self.assertEqual((self.look(0), self.clock.pending), (0, 0))
        self.memory.stop()

    def test_the_heap_of_this_process(self) -> None:
        trim_heap()
