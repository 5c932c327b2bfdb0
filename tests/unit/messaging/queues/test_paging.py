"""Paging seen from a queue: what goes out comes back, in order, across restarts, and the files go."""

from __future__ import annotations

from unittest import TestCase

from tests.unit.messaging.paging_support import ALWAYS, PagingBroker, Taker, numbered


class PagingTests(TestCase):
    def test_page_out_and_depage(self) -> None:
        broker = PagingBroker()
        queue = broker.make_queue("q")
        for body in numbered(200):
            broker.send(body)
        self.assertEqual(queue.message_count, 200)
        self.assertEqual(queue.references.count, 0)
        self.assertGreater(broker.pages(), 3)
        taker = Taker(broker, queue)
        self.assertEqual(taker.drain(), numbered(200))
        self.assertEqual(queue.message_count, 0)
        self.assertEqual(broker.pages(), 0)
        self.assertEqual(broker.page_files(), [])
        self.assertIsNone(broker.core.addresses["q"].memory.paging)
        self.assertEqual(broker.core.addresses["q"].memory.size, 0)
        self.assertEqual((broker.reports[0], broker.reports[-1]), ("AMQ222038", "AMQ224108"))

    def test_paged_messages_wait_for_every_condition(self) -> None:
        broker = PagingBroker()
        queue = broker.make_queue("q")
        taker = Taker(broker, queue)
        broker.send(b"before")
        condition = broker.rig.store.demand("a second place")
        for body in numbered(3):
            broker.send(body)
        self.assertEqual((taker.bodies, queue.arriving), ([b"before"], 3))
        condition.hold(broker.rig.store.ticket() - 1)
        broker.settle()
        self.assertEqual(taker.bodies, [b"before", *numbered(2)])
        condition.withdraw()
        broker.send(b"after")
        self.assertEqual(taker.bodies, [b"before", *numbered(3), b"after"])

    def test_restart(self) -> None:
        broker = PagingBroker()
        queue = broker.make_queue("q")
        for body in numbered(200):
            broker.send(body)
        taker = Taker(broker, queue, room=50)
        self.assertEqual(taker.acknowledge(30), numbered(30))
        broker.restart()
        queue = broker.core.queues["q"]
        self.assertEqual(queue.message_count, 170)
        taker = Taker(broker, queue)
        self.assertEqual(taker.drain(), numbered(170, 30))
        self.assertEqual(broker.page_files(), [])
        broker.restart()
        self.assertEqual(broker.core.queues["q"].message_count, 0)
        self.assertEqual(broker.rig.failures, [])

    def test_order_with_messages_from_before_and_leaving(self) -> None:
        """Messages from before the limit come first; once all pages are consumed messages stay in memory again."""
        broker = PagingBroker({"#": {**ALWAYS, "max_size_messages": 10, "max_size_bytes": -1}})
        queue = broker.make_queue("q")
        for body in numbered(50):
            broker.send(body)
        self.assertEqual((queue.references.count, queue.paged), (10, 40))
        taker = Taker(broker, queue, room=20)
        taker.acknowledge()
        for body in numbered(5, 50):
            broker.send(body)
        taker.give_room(1000)
        self.assertEqual(taker.drain(), numbered(35, 20))
        self.assertEqual(broker.pages(), 0)
        broker.send(b"after")
        self.assertEqual((queue.paged, broker.pages()), (0, 0))
        self.assertEqual(taker.acknowledge(), [b"after"])
