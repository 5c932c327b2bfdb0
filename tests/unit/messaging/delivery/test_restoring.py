"""Messages of a start: many plain ones in runs, special ones each for itself, and all in their order."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.delivery.restoring import RUN_LENGTH, restore_messages
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import RecoveredReference
from mqbroker.messaging.queues.queue import Queue
from tests.unit.messaging.support import Bench, Collector


class RestoringTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench()
        self.queue = self.bench.queue("q")
        self.entries: list[Any] = []

    def stored(self, body: bytes, *queues: Queue, scheduled: int = 0, delivery_count: int = 0, **headers: Any) -> Message:
        message = self.bench.message(body, **headers)
        references = [RecoveredReference(queue.queue_id, delivery_count, scheduled) for queue in queues or (self.queue,)]
        self.entries.append((message, references))
        return message

    def restore(self, *to_hold: tuple[int, int]) -> Any:
        queues = {queue.queue_id: queue for queue in self.bench.core.queues.values()}
        held = restore_messages(self.bench.core, queues, self.entries, set(to_hold), set())
        self.bench.turn()
        return held

    def test_plain_and_special_messages_keep_their_order(self) -> None:
        for number in range(5):
            self.stored(b"%d" % number, delivery_count=number == 2)
        self.restore()
        self.assertEqual(Collector(self.bench, self.queue).bodies, [b"0", b"1", b"2", b"3", b"4"])

    def test_more_than_one_run_is_taken_over_whole(self) -> None:
        for number in range(RUN_LENGTH + 3):
            self.stored(b"%d" % number)
        self.restore()
        self.assertEqual((self.queue.message_count, self.entries), (RUN_LENGTH + 3, []))

    def test_messages_are_accounted_to_their_address(self) -> None:
        sent = Bench()
        queue = sent.queue("q")
        for _ in range(3):
            sent.send(b"body")
            self.stored(b"body")
        self.restore()
        self.assertEqual(self.queue.address.memory.size, queue.address.memory.size)

    def test_a_message_of_several_queues_is_in_each_of_them(self) -> None:
        other = self.bench.queue("other", "q")
        self.stored(b"both", self.queue, other)
        self.restore()
        self.assertEqual((self.queue.message_count, other.message_count), (1, 1))

    def test_messages_of_queues_that_are_gone_are_left_out(self) -> None:
        self.entries.append((self.bench.message(b"gone"), [RecoveredReference(99)]))
        self.entries.append((self.bench.message(b"gone"), [RecoveredReference(99, delivery_count=1)]))
        self.stored(b"here")
        self.restore()
        self.assertEqual(Collector(self.bench, self.queue).bodies, [b"here"])

    def test_a_scheduled_message_waits_for_its_time(self) -> None:
        self.stored(b"later", scheduled=self.bench.clock.wall_ms() + 5000)
        self.stored(b"now")
        self.restore()
        consumer = Collector(self.bench, self.queue)
        self.assertEqual(consumer.bodies, [b"now"])
        self.bench.clock.advance(5)
        self.assertEqual(consumer.bodies, [b"now", b"later"])

    def test_what_a_branch_has_acknowledged_is_held_and_given_to_nobody(self) -> None:
        held = self.stored(b"held")
        self.stored(b"free")
        place = (self.queue.queue_id, held.message_id)
        found = self.restore(place)
        self.assertEqual(list(found), [place])
        self.assertEqual(Collector(self.bench, self.queue).bodies, [b"free"])
