"""References that wait for their time."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.queues.scheduled import RECHECK_SECONDS, ScheduledReferences, scheduled_time_of
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY, CoreMessage, encode_message
from mqclient.wire.properties import BOOLEAN, LONG, STRING, TypedValue
from tests.support.clock import START_MS, FakeClock
from tests.unit.messaging.support import Bench


class ScheduledTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.due: list[list[int]] = []
        self.scheduled = ScheduledReferences(self.clock, lambda found: self.due.append([each.message.message_id for each in found]))
        self.number = 0
        self.queue = Bench().queue("q")

    def add(self, after_ms: int, durable: bool = False) -> Reference:
        self.number += 1
        message = Message.received(encode_message(CoreMessage(address="a", durable=durable, body=b"12345")), self.number)
        reference = Reference(message, self.queue)
        reference.scheduled = START_MS + after_ms
        self.scheduled.add(reference)
        return reference

    def test_they_come_at_their_time_the_earliest_first_and_equal_ones_in_their_order(self) -> None:
        for after in (2000, 1000, 2000):
            self.add(after)
        self.clock.advance(0.999)
        self.assertEqual(self.due, [])
        self.clock.advance(1.001)
        self.assertEqual(self.due, [[2], [1, 3]])
        self.assertEqual(self.clock.pending, 0)

    def test_one_that_was_taken_out_does_not_come(self) -> None:
        first, second = self.add(1000), self.add(1000)
        self.scheduled.remove(first)
        self.assertEqual((first in self.scheduled, second in self.scheduled), (False, True))
        self.clock.advance(2)
        self.assertEqual(self.due, [[2]])

    def test_one_that_is_scheduled_again_comes_once_at_its_new_time(self) -> None:
        reference = self.add(1000)
        self.scheduled.remove(reference)
        reference.scheduled = START_MS + 3000
        self.scheduled.add(reference)
        self.clock.advance(2)
        self.assertEqual(self.due, [])
        self.clock.advance(1)
        self.assertEqual(self.due, [[1]])

    def test_numbers_and_sizes_are_of_what_still_waits(self) -> None:
        durable, other = self.add(1000, durable=True), self.add(2000)
        size = durable.message.stored_size
        self.assertEqual((self.scheduled.count, self.scheduled.durable_count), (2, 1))
        self.assertEqual((self.scheduled.size, self.scheduled.durable_size), (size + other.message.stored_size, size))
        self.scheduled.remove(durable)
        self.scheduled.remove(durable)
        self.clock.advance(2)
        self.assertEqual(
            (self.scheduled.count, self.scheduled.size, self.scheduled.durable_count, self.scheduled.durable_size), (0, 0, 0, 0)
        )

    def test_many_that_were_taken_out_leave_no_trace(self) -> None:
        references = [self.add(1000 + number) for number in range(300)]
        for reference in references[:-1]:
            self.scheduled.remove(reference)
        self.assertEqual([each.message.message_id for each in self.scheduled], [300])
        self.clock.advance(2)
        self.assertEqual(self.due, [[300]])

    def test_a_timer_never_runs_longer_than_the_wall_clock_is_trusted(self) -> None:
        self.add(3_600_000)
        self.clock.advance(RECHECK_SECONDS)
        self.assertEqual((self.due, self.clock.pending), ([], 1))

    def test_after_the_end_nothing_comes(self) -> None:
        self.add(1000)
        self.scheduled.clear()
        self.clock.advance(2)
        self.assertEqual((self.due, self.scheduled.count), ([], 0))


class TimeTests(SynchronousTestCase):
    def time_of(self, value: TypedValue) -> int:
        content = CoreMessage(address="a", properties={KEY_SCHEDULED_DELIVERY: value})
        return scheduled_time_of(Message.received(encode_message(content), 1))

    def test_the_time_is_a_number_above_zero_and_anything_else_is_none(self) -> None:
        self.assertEqual(self.time_of((LONG, 123)), 123)
        for value in ((LONG, -5), (STRING, "soon"), (BOOLEAN, True)):
            self.assertEqual(self.time_of(value), 0)
