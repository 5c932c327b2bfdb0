"""Temporary queues whose connection has ended go a few at a time."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.queues.queue import Queue
from mqbroker.server.transport.departing import DELETED_TOGETHER, DepartingQueues
from tests.unit.messaging.support import Bench


class DepartingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench()
        self.departing = DepartingQueues(self.bench.messaging, self.bench.clock)

    def queues(self, count: int) -> list[Queue]:
        return [self.bench.queue(f"t{number}", temporary=True) for number in range(count)]

    def test_a_few_are_gone_at_once(self) -> None:
        self.departing.add(self.queues(3))
        self.assertEqual((len(self.departing), list(self.bench.core.queues)), (0, []))
        self.assertEqual(self.bench.clock.pending, 0)

    def test_many_go_turn_by_turn(self) -> None:
        self.departing.add(self.queues(2 * DELETED_TOGETHER + 1))
        self.assertEqual(len(self.departing), DELETED_TOGETHER + 1)
        self.bench.clock.advance(0)
        self.assertEqual(self.bench.core.queues, {})

    def test_one_that_is_still_to_go_gets_nothing_and_is_not_counted(self) -> None:
        queues = self.queues(DELETED_TOGETHER + 1)
        own = self.bench.queue("own")
        self.departing.add(queues)
        last = queues[-1]
        self.bench.send(b"lost", last.name)
        self.assertEqual((last.message_count, self.departing.others()), (0, [own]))

    def test_a_name_that_is_needed_again_is_free_at_once(self) -> None:
        queues = self.queues(DELETED_TOGETHER + 1)
        self.departing.add(queues)
        name = queues[-1].name
        self.departing.make_room(name)
        again = self.bench.queue(name, temporary=True)
        self.bench.clock.advance(0)
        self.assertIs(self.bench.core.queues[name], again)

    def test_queues_that_were_deleted_before_are_passed_over(self) -> None:
        (queue,) = self.queues(1)
        self.bench.messaging.administration.delete_queue(queue)
        self.departing.add([queue])
        self.assertEqual(len(self.departing), 0)

    def test_one_that_is_expected_is_taken_back_once(self) -> None:
        (queue,) = self.queues(1)
        told: list[Queue] = []
        self.departing.taken_back.subscribe(told.append)
        self.assertIsNone(self.departing.take_back(queue.name))
        self.departing.expect(queue)
        self.assertIs(self.departing.take_back(queue.name), queue)
        self.assertIsNone(self.departing.take_back(queue.name))
        self.assertEqual(told, [queue])

    def test_one_that_ends_is_expected_no_more(self) -> None:
        first, second = self.queues(2)
        self.departing.expect(first)
        self.departing.expect_no_more(second)
        self.departing.expect_no_more(first)
        self.departing.expect_no_more(first)
        self.assertIsNone(self.departing.take_back(first.name))
