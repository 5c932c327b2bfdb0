"""Messages that expire while nobody asks for them, and queues and addresses that nobody uses."""

from __future__ import annotations

from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from tests.unit.messaging.support import Bench, Collector


class ReaperTests(SynchronousTestCase):
    def test_an_unused_auto_created_queue_goes_at_the_second_scan(self) -> None:
        bench = Bench()
        bench.messaging.start()
        queue = bench.queue("q", auto_created=True)
        Collector(bench, queue).leave()
        bench.clock.advance(31)
        self.assertIn("q", bench.core.queues)
        bench.clock.advance(30)
        self.assertNotIn("q", bench.core.queues)
        bench.clock.advance(60)
        self.assertNotIn("q", bench.core.addresses)

    def test_the_log_names_each_queue_and_address_that_is_removed_because_nobody_uses_it(self) -> None:
        bench = Bench()
        bench.messaging.start()
        with capturedLogs() as events:
            Collector(bench, bench.queue("q", auto_created=True)).leave()
            bench.clock.advance(121)
        told = [formatEvent(event) for event in events if event["log_namespace"] == "mqbroker"]
        self.assertEqual(told, ["AMQ224113: q was not in use and has been removed"] * 2)

    def test_what_is_in_use_or_was_never_used_stays(self) -> None:
        bench = Bench()
        bench.messaging.start()
        Collector(bench, bench.queue("used", auto_created=True))
        bench.queue("unused", auto_created=True)
        bench.queue("explicit")
        busy = bench.queue("full", auto_created=True)
        Collector(bench, busy, room=0).leave()
        bench.send(address="full")
        bench.clock.advance(200)
        self.assertEqual(set(bench.core.queues), {"used", "unused", "explicit", "full"})

    def test_settings_that_forbid_auto_delete_are_obeyed(self) -> None:
        bench = Bench({"#": {"auto_delete_queues": False}})
        bench.messaging.start()
        Collector(bench, bench.queue("q", auto_created=True)).leave()
        bench.clock.advance(200)
        self.assertIn("q", bench.core.queues)
