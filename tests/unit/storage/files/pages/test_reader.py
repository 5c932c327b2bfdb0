"""Pages are read as far as a queue has room."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.storage.files.pages.reader import PIECE_SIZE
from tests.unit.messaging.paging_support import ALWAYS, PagingBroker, Taker, numbered
from tests.unit.storage.support import Rig


class ReaderTests(TestCase):
    def test_reading_goes_on_when_messages_from_before_are_settled(self) -> None:
        """What came before the pages counts in the window, too."""
        for delay in (0, 60_000):
            limits = {"max_size_messages": 5, "page_size_bytes": 4096, "max_read_page_messages": 3, "redelivery_delay": delay}
            broker = PagingBroker({"#": limits})
            queue = broker.make_queue("q")
            for body in numbered(10):
                broker.send(body)
            taker = Taker(broker, queue, room=100)
            self.assertEqual(taker.bodies, numbered(5))
            if delay:
                taker.roll_back()
                self.assertEqual(taker.drain(), numbered(5, 5))
            else:
                self.assertEqual(taker.drain(), numbered(10))

    def test_memory_is_bounded_by_the_window(self) -> None:
        broker = PagingBroker({"#": {**ALWAYS, "page_size_bytes": 100_000, "max_read_page_messages": 10, "prefetch_page_messages": 4}})
        queue = broker.make_queue("q")
        for _ in range(30):
            broker.send(bytes(40_000))
        taker = Taker(broker, queue, room=8)
        self.assertLessEqual(queue.references.count, 6)
        taker.give_room(100)
        self.assertLess(len(taker.references), 16)
        self.assertIn("AMQ224127", broker.reports)
        self.assertEqual(len(taker.drain()), 30)

    def test_memory_is_bounded_by_what_packed_messages_are_when_they_are_read(self) -> None:
        rig = Rig(1, journal_file_size=1 << 20, compress_pages=True)
        broker = PagingBroker({"#": {**ALWAYS, "page_size_bytes": 10_000_000, "prefetch_page_messages": 10}}, rig=rig)
        queues = [broker.make_queue(name, "t", 0) for name in ("q1", "q2")]
        for _ in range(2000):
            broker.send(bytes(1000), "t", routing_type=0, settle=False)
        broker.settle()
        self.assertLess(sum(rig.disk.size(path) for path in rig.disk.files() if path.endswith(".page")), PIECE_SIZE)
        takers = [Taker(broker, queue, room=1) for queue in queues]
        for queue in queues:
            self.assertLess(queue.references.count, 300)
        for taker in takers:
            taker.give_room(10_000)
            self.assertEqual(len(taker.drain()), 2000)
