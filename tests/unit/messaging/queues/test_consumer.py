"""A consumer that is another broker: it takes messages for its clients, settles them later, and may be lost with all it has."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.queues.consumer import QueueConsumer
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Cursor, Reference
from mqclient.wire.message import KEY_GROUP_ID
from mqclient.wire.properties import INT, STRING
from tests.unit.messaging.support import Bench, Collector


class RemoteBroker:
    """Takes as many messages as its window has room for.

    ``sent`` are on their way or in its memory, ``delivered`` are with its clients; both by message id.
    """

    def __init__(self, bench: Bench, queue: Queue, window: int = 100, *, filter_text: str | None = None, priority: int = 0) -> None:
        self.filter = parse_filter(filter_text)
        self.priority = priority
        self.cursor: Cursor | None = None
        self.ready = window > 0
        self.sent: dict[int, Reference] = {}
        self.delivered: dict[int, Reference] = {}
        self.first_of_groups: list[bytes] = []
        self.queue_is_gone = False
        self._window = window
        self._queue = queue
        self._settlement = bench.messaging.settlement
        self._turn = bench.core.turn
        consumer: QueueConsumer = self
        self._turn.run(queue.add_consumer, consumer)

    # --- what the queue does

    def handle(self, reference: Reference) -> None:
        self.sent[reference.message.message_id] = reference
        self._window -= 1
        self.ready = self._window > 0

    def handle_first(self, reference: Reference, key: str) -> None:
        self.first_of_groups.append(body(reference))
        self.handle(reference)

    def queue_deleted(self) -> None:
        self.queue_is_gone = True

    # --- what comes over the link

    def deliver(self, *bodies: bytes) -> None:
        """Its clients have got these."""
        for message_id, reference in list(self.sent.items()):
            if body(reference) in bodies:
                self.delivered[message_id] = self.sent.pop(message_id)

    def acknowledge(self, *bodies: bytes) -> None:
        self._turn.run(self._settle, self._settlement.acknowledge, bodies)

    def give_back(self, *bodies: bytes) -> None:
        """Its clients have consumed these in vain."""
        self._turn.run(self._settle, self._settlement.redeliver, bodies)

    def lose(self) -> None:
        """The link breaks: everything that is not settled goes back, and what clients have seen counts."""
        self._turn.run(self._lose)

    def _settle(self, settle: Any, bodies: tuple[bytes, ...]) -> None:
        chosen = [reference for reference in self.delivered.values() if body(reference) in bodies]
        assert len(chosen) == len(bodies)
        for reference in chosen:
            del self.delivered[reference.message.message_id]
        settle(chosen)
        self._window += len(chosen)
        self.ready = True
        self._turn.mark_queue(self._queue)

    def _lose(self) -> None:
        self.ready = False
        self._queue.remove_consumer(self)
        delivered, self.delivered = list(self.delivered.values()), {}
        sent, self.sent = list(self.sent.values()), {}
        self._settlement.cancel(sent)
        self._settlement.redeliver(delivered)

    @property
    def bodies(self) -> list[bytes]:
        return [body(reference) for reference in self.sent.values()]


def body(reference: Reference) -> bytes:
    return reference.message.decoded().body


def numbers(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


class RemoteConsumerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench({"#": {"max_delivery_attempts": -1}})
        self.queue = self.bench.queue("q")

    def send(self, *values: int, **headers: Any) -> None:
        for each in numbers(*values):
            self.bench.send(each, **headers)

    def test_it_takes_what_its_window_has_room_for_and_settles_later_in_any_order(self) -> None:
        remote = RemoteBroker(self.bench, self.queue, window=3)
        self.send(1, 2, 3, 4, 5)
        self.assertEqual((remote.bodies, self.queue.references.count, self.queue.delivering), (numbers(1, 2, 3), 2, 3))
        remote.deliver(*numbers(1, 2, 3))
        remote.acknowledge(*numbers(3, 1))
        self.assertEqual(remote.bodies, numbers(4, 5))
        remote.deliver(*numbers(4, 5))
        remote.acknowledge(*numbers(2, 4, 5))
        self.assertEqual((self.queue.message_count, self.queue.delivering, self.queue.messages_acknowledged), (0, 0, 5))
        self.assertEqual(self.bench.core.global_memory.size, 0)
        self.assertEqual(len(self.bench.store.entries("ack")), 5)

    def test_lost_it_gives_all_back_in_order_and_counts_what_clients_have_seen(self) -> None:
        remote = RemoteBroker(self.bench, self.queue, window=4)
        self.send(1, 2, 3, 4, 5)
        remote.deliver(*numbers(1, 3, 4))
        remote.acknowledge(*numbers(4))
        self.assertEqual(remote.bodies, numbers(2, 5))
        remote.lose()
        self.assertEqual((self.queue.consumer_count, self.queue.delivering), (0, 0))
        local = Collector(self.bench, self.queue)
        self.assertEqual(local.bodies, numbers(1, 2, 3, 5))
        self.assertEqual([reference.delivery_count for reference in local.references], [2, 1, 2, 1])

    def test_one_that_is_given_back_comes_before_those_that_wait(self) -> None:
        remote = RemoteBroker(self.bench, self.queue, window=2)
        self.send(1, 2, 3)
        remote.deliver(*numbers(1, 2))
        remote.give_back(b"1")
        self.assertEqual((remote.bodies, [each.delivery_count for each in remote.sent.values()]), ([b"1"], [2]))

    def test_after_enough_attempts_there_and_here_a_message_is_dead(self) -> None:
        bench = Bench({"q": {"max_delivery_attempts": 2, "dead_letter_address": "dead"}})
        dead, queue = bench.queue("dead"), bench.queue("q")
        remote = RemoteBroker(bench, queue)
        bench.send(b"1")
        for _ in range(2):
            self.assertEqual(dead.message_count, 0)
            remote.deliver(b"1")
            remote.give_back(b"1")
        self.assertEqual((dead.message_count, queue.message_count, remote.bodies), (1, 0, []))

    def test_local_consumers_of_a_higher_priority_come_first(self) -> None:
        remote = RemoteBroker(self.bench, self.queue, priority=-1)
        local = Collector(self.bench, self.queue, room=2)
        self.send(1, 2, 3)
        self.assertEqual((local.bodies, remote.bodies), (numbers(1, 2), numbers(3)))
        remote.lose()
        local.give_room(1)
        self.assertEqual(local.bodies, numbers(1, 2, 3))

    def test_it_takes_what_its_filter_says(self) -> None:
        remote = RemoteBroker(self.bench, self.queue, window=2, filter_text="n > 1")
        for value in range(4):
            self.bench.send(b"%d" % value, properties={"n": (INT, value)})
        self.assertEqual((remote.bodies, self.queue.references.count), (numbers(2, 3), 2))
        remote.deliver(b"2")
        remote.give_back(b"2")
        self.assertEqual(remote.bodies, numbers(3, 2))

    def test_a_group_stays_with_it_until_it_is_lost(self) -> None:
        queue = self.bench.queue("g", group_first_key="first")
        remote = RemoteBroker(self.bench, queue, window=2)
        group = {"properties": {KEY_GROUP_ID: (STRING, "g")}}
        self.bench.send(b"1", "g", **group)
        local = Collector(self.bench, queue)
        for value in (2, 3):
            self.bench.send(b"%d" % value, "g", **group)
        self.assertEqual((remote.bodies, remote.first_of_groups, local.bodies), (numbers(1, 2), [b"1"], []))
        remote.deliver(b"1")
        remote.lose()
        self.bench.turn()
        self.assertEqual(local.bodies, numbers(1, 2, 3))

    def test_an_exclusive_queue_has_one_consumer_wherever_it_is(self) -> None:
        queue = self.bench.queue("e", exclusive=True)
        remote = RemoteBroker(self.bench, queue, window=1)
        local = Collector(self.bench, queue)
        for each in numbers(1, 2):
            self.bench.send(each, "e")
        self.assertEqual((remote.bodies, local.bodies), (numbers(1), []))
        remote.lose()
        self.assertEqual(local.bodies, numbers(1, 2))

    def test_a_queue_that_is_deleted_leaves_it_nothing_to_settle(self) -> None:
        remote = RemoteBroker(self.bench, self.queue)
        self.send(1, 2)
        remote.deliver(b"1")
        self.bench.messaging.administration.delete_queue(self.queue, remove_consumers=True)
        self.assertTrue(remote.queue_is_gone)
        before = len(self.bench.store.entries("ack"))
        remote.acknowledge(b"1")
        remote.lose()
        self.assertEqual((self.queue.delivering, self.bench.core.global_memory.size), (0, 0))
        self.assertEqual(len(self.bench.store.entries("ack")), before)
